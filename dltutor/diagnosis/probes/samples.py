"""What are the samples like when main draws them itself?

From a stream, draw the first samples. From any other dataset, draw samples in the sampler's order,
draw some of these samples again with the same seeds and without seeds, draw one sample past the
end, and have the collate function join the same samples twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import chain
from statistics import median
from typing import Any, Final

from dltutor import tables
from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.limits import in_time
from dltutor.diagnosis.objects.digests import digest, size
from dltutor.diagnosis.running.busiest import Busiest
from dltutor.diagnosis.running.dealing import count_epochs, seconds_between_batches
from dltutor.diagnosis.running.random_states import Pins, global_states, seed_all, wrap_draws
from dltutor.diagnosis.running.side_effects import Reading, caught_while, things_left
from dltutor.diagnosis.running.subject import Mark, Subject, described
from dltutor.diagnosis.words import count_of, duration
from dltutor.observation.foreign import is_a

_MOSTLY: Final = 0.5  # report a line only if it takes more than this share of the time
_DRAWN: Final = 256  # the most samples to draw
_LOOKED: Final = 3.0  # the most seconds to draw samples
_AGAIN: Final = 24  # the most samples to draw again
_AGAIN_FOR: Final = 2.0  # the most seconds to draw samples again
_TIMES: Final = 5  # how often to draw each sample again
_FEW: Final = 5  # a pool or a cache may leave this many threads, processes, or files behind
_SEEDED: Final = 4  # samples to draw twice, each time with a new seed
_BEYOND: Final = 0.3  # seconds; if samples take longer, don't try the index past the end
_FAILED: Final = 40  # the most failed samples to record
_ALIKE: Final = 16  # if more samples than this are equal, assume that it's intended
_TRACED: Final = 8  # the most groups of equal samples to look at, and the most samples to report
_TRACED_FOR: Final = 2.0  # the most seconds to look at equal samples


#: The number in the subject's Mark while the sampler deals out the indices.
DEALING: Final = -2


@dataclass(frozen=True)
class Samples:
    """Measurements of the samples that main draws one by one, without workers.

    Args:
        looked: How many samples were drawn without an error.
        failed: The samples that raised, each as (index, type, message, line of your code).
        ended: "died" or "hung" if the process did, "sampler" if time ran out while the sampler was
            dealing out the indices, "time" if a stream took too long, or "".
        at: The index that main was drawing when the process died or hung, -2 (DEALING) if the
            process died while the sampler was dealing out the indices, or -1 at any other time.
        before: How many samples main had drawn before the one at `at`, as far as that's known.
        code: The exit code of the process if it died, or None.
        typical: Median seconds per sample.
        redrawn: Median seconds per sample when some samples are drawn again.
        slowest: Seconds that the slowest sample takes.
        slowest_at: The index of the slowest sample.
        again: How many samples came out differently when drawn again with the same seeds.
        random: How many samples came out differently when drawn twice without seeds.
        joined: Whether the collate function makes different batches from the same samples.
        overwritten: How many samples changed when the next one was drawn.
        beyond: The first index past the end if the dataset returned a new sample for it, or -1.
        bytes: Median size of a sample in bytes.
        read: How many bytes this process read while samples were drawn, from files or elsewhere.
        of_files: Total size in bytes of all files that were open at that time, even briefly.
        opened: How many file descriptors the samples left open.
        left: The threads, child processes, or temporary files that drawing samples again left
            behind, if there's at least one for every two draws, each as (kind, how many, after how
            many draws). None if no sample was drawn again.
        seeded: The names of global generators that each sample sets to the same state.
        seeded_each: The names of global generators that each sample seeds from its index alone.
        busiest: The line of your code where more than half of the time goes, or "" if there's none.
        drawn_by_sampler: How many samples the sampler itself drew from the dataset.
        dealing: Seconds that the sampler took to deal out up to a thousand indices.
        dealing_each: Seconds per batch that the sampler took after its first batch.
        dealt: For an epoch and the next one, (batches that `len()` promises, batches that the
            sampler deals out). The first number is -1 if there's no `len()`. If the batches weren't
            counted, `dealt` is empty.
        left_out: How many of the dataset's indices the sampler leaves out in an epoch and in the
            next one, and the most indices in a batch. Empty if it leaves out the same ones in both,
            or if that isn't known, for example because it deals one out twice.
        replaced: Samples that equal another index's sample, if your code catches an exception for
            this index, but not for the other one. Each is (index, the other index, the exception's
            type and message, your line).
    """

    looked: int
    failed: tuple[tuple[int, str, str, str], ...] = ()
    ended: str = ""
    at: int = -1
    before: int = 0
    code: int | None = None
    typical: float = 0.0
    redrawn: float = 0.0
    slowest: float = 0.0
    slowest_at: int = -1
    again: int = 0
    random: int = 0
    joined: bool = False
    overwritten: int = 0
    beyond: int = -1
    bytes: int = 0
    read: int = 0
    of_files: int = 0
    opened: int = 0
    left: tuple[tuple[str, int, int], ...] | None = None
    seeded: tuple[str, ...] = ()
    seeded_each: tuple[str, ...] = ()
    busiest: str = ""
    drawn_by_sampler: int = 0
    dealing: float = 0.0
    dealing_each: float = 0.0
    dealt: tuple[tuple[int, int], ...] = ()
    left_out: tuple[int, ...] = ()
    replaced: tuple[tuple[int, int, str, str, str], ...] = ()

    def __str__(self) -> str:
        if self.ended == "sampler":
            return "The sampler didn't finish."
        if self.ended in ("died", "hung"):
            how = "ended the process" if self.ended == "died" else "didn't finish"
            what = {DEALING: "Dealing out indices", -1: "Examining samples"}
            return f"{what.get(self.at, f'Drawing sample {self.at}')} {how}."
        drawn = (
            f"{count_of(self.looked, 'sample')}, about {tables.size(self.bytes)} and "
            f"{duration(self.typical)} each"
        )
        failed = f", and {len(self.failed)} raised an error" if self.failed else ""
        random = "They're random" if self.random or self.joined else "No randomness was seen"
        busiest = f" Most of their time goes to {self.busiest}." if self.busiest else ""
        return f"{drawn}{failed}. {random}.{busiest}" if self.looked else f"None came back{failed}."


def needed(evidence: Evidence) -> bool:
    """Return True, because the answer shows whether a sample or a worker is to blame."""
    return True


def ask(subject: Subject) -> Samples:
    """Draw up to 256 samples in main, for up to 3 s, and draw some of them again.

    From a stream, draw each sample only once.
    """
    if subject.stream:
        return _stream(subject)
    dataset = subject.dataset
    record = _Record()
    joined: list[Any] = []
    by_sampler = _counted(dataset)
    dealt, left_out = count_epochs(subject)
    began = time.monotonic()
    subject.mark.set(DEALING)
    indices = subject.indices()[:_DRAWN]
    dealing, reading = time.monotonic() - began, Reading()
    drawn_by_sampler, busiest = len(by_sampler), Busiest()
    for place, key in enumerate(in_time(indices, _LOOKED)):
        # If a key isn't a number, report the position in the sampler's order as the index.
        index = key if isinstance(key, int) else place
        subject.mark.set(index)
        sample = record.draw(partial(dataset.__getitem__, key), index, key)
        if sample is not _NOTHING and len(joined) < (subject.inner.batch_size or 1):
            joined.append(sample)
    subject.mark.set(-1)
    read, (line, share, _) = reading.counts(), busiest.stop()
    keys = record.quick(_AGAIN_FOR / _TIMES)[:_AGAIN]
    before = things_left()
    again, unlike, draws, redrawn = _again(dataset, keys)
    left = tuple(
        (what, count - before[what], draws)
        for what, count in things_left().items()
        if count - before[what] >= draws // 2 > _FEW
    )
    seeded, seeded_each = _seeded(dataset, keys[:_SEEDED])
    return record.samples(
        **read,
        busiest=line if share > _MOSTLY else "",
        drawn_by_sampler=drawn_by_sampler,
        dealing=dealing,
        dealing_each=seconds_between_batches(subject, _DRAWN),
        dealt=dealt,
        left_out=left_out,
        replaced=_replaced(dataset, record),
        again=again,
        random=unlike,
        redrawn=redrawn,
        left=left if draws else None,
        seeded=seeded,
        seeded_each=seeded_each,
        joined=_joined(subject, joined),
        beyond=_beyond(dataset, record) if record.typical() < _BEYOND else -1,
    )


def cut_short(stopped: str, code: int | None, mark: Mark) -> Samples:
    """Record a sample that ended the process or never arrived, or a sampler that didn't finish."""
    if stopped and mark.get() == DEALING:
        return Samples(looked=0, ended="sampler")
    # Of the numbers in the mark so far, one is for the sampler or `iter`, and one for this sample.
    return Samples(
        looked=0,
        ended="hung" if stopped else "died",
        at=mark.get(),
        before=max(0, mark.times - 2),
        code=None if stopped else code,
    )


def _counted(dataset: Any) -> list[None]:
    # Return a list that gets a new element whenever anything draws a sample.
    draws: list[None] = []

    def around(draw: Callable[[], Any], index: Any) -> Any:
        draws.append(None)
        return draw()

    wrap_draws(dataset, around)
    return draws


_NOTHING: Final = object()  # the sample if the dataset raised an error, or if a stream has ended


class _Record:
    def __init__(self) -> None:
        self.drawn: list[tuple[int, Any]] = []  # indices, each with the key for the dataset
        self.seconds: list[tuple[float, int]] = []
        self.failed: list[tuple[int, str, str, str]] = []
        self.contents: dict[str, list[Any]] = {}  # the samples' keys, by digest
        self.sizes: list[int] = []
        self.overwritten = 0
        self.ended = ""
        self._last: tuple[Any, str] | None = None  # the last sample, with its digest when drawn

    def draw(self, make: Callable[[], Any], index: int, key: Any) -> Any:
        began, sample, failed = time.perf_counter(), _NOTHING, True
        try:
            sample, failed = make(), False
        except BaseException as error:  # even SystemExit, because it would end a worker
            if len(self.failed) < _FAILED:
                self.failed.append((index, *described(error)))
        if failed or sample is not _NOTHING:
            self.seconds.append((time.perf_counter() - began, index))
        if self._last is not None and digest(self._last[0]) != self._last[1]:
            self.overwritten += 1
        self._last = None
        if sample is not _NOTHING:
            content = digest(sample)
            self.drawn.append((index, key))
            self.contents.setdefault(content, []).append(key)
            self.sizes.append(size(sample))
            self._last = (sample, content)
        return sample

    def typical(self) -> float:
        return median(each for each, _ in self.seconds) if self.seconds else 0.0

    def quick(self, seconds: float) -> list[Any]:
        slow = {index for took, index in self.seconds if took > seconds}
        return [key for index, key in self.drawn if index not in slow]

    def samples(self, **further: Any) -> Samples:
        slowest = max(self.seconds, default=(0.0, -1))
        return Samples(
            looked=len(self.drawn),
            failed=tuple(self.failed),
            ended=self.ended,
            typical=self.typical(),
            slowest=slowest[0],
            slowest_at=slowest[1],
            overwritten=self.overwritten,
            bytes=int(median(self.sizes)) if self.sizes else 0,
            **further,
        )


def _stream(subject: Subject) -> Samples:
    record, reading = _Record(), Reading()
    until = time.monotonic() + _LOOKED
    subject.mark.set(-1)  # for `iter`, because `cut_short` expects a number before the samples'
    source = iter(subject.dataset)
    for number in range(_DRAWN):
        if time.monotonic() > until:
            record.ended = "time"
            break
        subject.mark.set(number)
        if record.draw(partial(next, source, _NOTHING), number, number) is _NOTHING:
            break
    return record.samples(**reading.counts())


def _again(dataset: Any, keys: list[Any]) -> tuple[int, int, int, float]:
    # Return how many samples differ when they're drawn again with the same random numbers, how many
    # differ without seeds, how many draws there were, and the median seconds of a draw. With the
    # same random numbers, only other state can make samples differ.
    pins = Pins(dataset)
    differ = unlike = draws = 0
    seconds = []
    # Vary the seed, in case only some seeds show a difference.
    for seed, key in enumerate(in_time(keys, _AGAIN_FOR)):
        draws += _TIMES
        with suppress(Exception):
            with pins.held(seed=seed):
                began = time.perf_counter()
                sample = dataset[key]
                seconds.append(time.perf_counter() - began)
                first = digest(sample)
            with pins.held(seed=seed):
                again = digest(dataset[key])
            unlike += digest(dataset[key]) != digest(dataset[key])
            # Draw once more after other random numbers, because these may have changed the data.
            with pins.held(seed=seed):
                differ += {again, digest(dataset[key])} != {first}
    return differ, unlike, draws, median(seconds or [0.0])


def _seeded(dataset: Any, keys: list[Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    # Return two tuples with names of global generators. Every sample sets those in the first to the
    # same state, and those in the second to a state that depends only on the sample's index.
    before, after = [], []
    with suppress(Exception):
        for seed, key in enumerate([*keys, *keys], start=1):
            seed_all(seed)
            before.append(global_states())
            dataset[key]
            after.append(global_states())
    if len(after) < 2 * _SEEDED:
        return (), ()
    same, by_index = [], []
    for name in after[0]:
        found = [each[name] for each in after]
        if len({each[name] for each in before}) < len(found):
            continue
        if len({*found}) == 1:
            same.append(name)
        elif found[:_SEEDED] == found[_SEEDED:]:
            by_index.append(name)
    return tuple(same), tuple(by_index)


def _replaced(dataset: Any, record: _Record) -> tuple[tuple[int, int, str, str, str], ...]:
    # Return the samples that equal another index's sample, if your code catches an exception while
    # it draws the sample, but not while it draws the other one. If your code catches one for both,
    # exceptions may be a part of making any sample, or both samples may be a placeholder.
    # Take only numbers, and each number once, because a sampler may deal out keys of other types or
    # an index twice.
    numbers = ((key for key in keys if is_a(key, int)) for keys in record.contents.values())
    groups = map(list, map(dict.fromkeys, numbers))
    few = [each for each in groups if 1 < len(each) <= _ALIKE][:_TRACED]
    caught = {
        key: caught_while(partial(dataset.__getitem__, key))
        for key in in_time(chain.from_iterable(few), _TRACED_FOR)
    }
    found = [
        (key, whose[0], *error)
        for same in few
        if (whose := [key for key in same if key in caught and not caught[key]])
        for key in same
        if (error := caught.get(key))
    ]
    return tuple(found[:_TRACED])


def _joined(subject: Subject, samples: list[Any]) -> bool:
    # Copy the samples each time, because a collate function may change the samples it gets.
    with suppress(Exception), Pins(subject.dataset).held():
        batches = [digest(subject.inner.collate_fn(deepcopy(samples))) for _ in range(2)]
        return batches[0] != batches[1]
    return False


def _beyond(dataset: Any, record: _Record) -> int:
    # Return the first index past the end if the dataset returns a sample for it that differs from
    # all drawn ones, or -1 if it doesn't.
    with suppress(BaseException):
        length = len(dataset)
        return length if digest(dataset[length]) not in record.contents else -1
    return -1


EXPERIMENT: Final = probe("samples", 13.0, needed, ask, cut_short)
