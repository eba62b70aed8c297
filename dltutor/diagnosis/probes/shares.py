"""How many of the stream's samples does each worker deliver?

Iterate the stream in main and in as many workers as the loader has, without dropping a batch. Then
do both again with the same random numbers for every sample, so that samples can be compared. If the
workers draw far fewer samples than main, also try other numbers of workers.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any, Final

from torch.utils.data import get_worker_info

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.objects.digests import digest
from dltutor.diagnosis.running import forks
from dltutor.diagnosis.running.random_states import hold_draws
from dltutor.diagnosis.running.small_loaders import answers, small_loader
from dltutor.diagnosis.running.subject import Subject

LOOKED: Final = 48  # the most samples per worker to compare one by one
_KEPT: Final = 4096  # the most samples of a pass whose digests to keep
_FEWER: Final = 0.75  # the part of main's samples below which to try other numbers of workers
PASS: Final = 1.5  # the most seconds for one pass over the stream


@dataclass(frozen=True)
class Shares:
    """A count of the samples of a stream that each worker delivers.

    Args:
        whole: How many samples main drew in the first pass.
        ended: Whether the first pass in main reached the end of the stream.
        shares: How many samples each worker drew, including those that the loader drops.
        complete: Whether each worker reached the end of its share.
        same: How many samples were the same in W0 and W1, at the same position and with the same
            random numbers.
        compared: How many samples of W0 and W1 were compared.
        distinct: How many different samples there were among W0's compared samples.
        natural: Whether all samples of W0 and W1 that can be compared are also the same if each
            worker draws its own random numbers.
        random: Whether two passes in one process differ only by random numbers.
        alike: Whether the workers together draw exactly the samples that main draws. False if that
            isn't known.
        totals: How many samples one worker draws, and one worker more than the loader has, each as
            (workers, samples together). Empty unless the loader's workers draw far fewer samples
            than main.
    """

    whole: int = 0
    ended: bool = False
    shares: tuple[int, ...] = ()
    complete: bool = False
    same: int = 0
    compared: int = 0
    distinct: int = 0
    natural: bool = False
    random: bool = False
    alike: bool = False
    totals: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        each = ", ".join(f"W{number}: {count}" for number, count in enumerate(self.shares))
        whole = f"One pass in main has {self.whole}{'' if self.ended else ' or more'}"
        return f"{each}. {whole}." if each else f"No worker could be counted. {whole}."


def needed(evidence: Evidence) -> bool:
    """Return whether workers iterate a stream that main can also iterate."""
    if not evidence.parts.stream or evidence.parts.workers == 0:
        return False
    return not (evidence.samples and evidence.samples.ended in ("died", "hung"))


def ask(subject: Subject) -> Shares:
    """Iterate the stream in main and in the workers, and compare the samples."""
    (all_of_main, other), whole, ended = in_main(subject, most_of(subject))
    one = all_of_main[:LOOKED]
    first, again = in_main(subject, LOOKED, held=True)[0]
    (counts, complete, natural), (_, _, pinned) = (
        forks.attempt(partial(_delivered, subject, held=held), PASS + 3) or ([], False, [])
        for held in (False, True)
    )
    same, compared, distinct = _same(pinned)
    same_by_nature, compared_by_nature, _ = _same(natural)
    return Shares(
        whole=whole,
        ended=ended,
        shares=tuple(counts),
        complete=complete,
        same=same,
        compared=compared,
        distinct=distinct,
        natural=0 < compared_by_nature == same_by_nature,
        random=len(one) == len(other) > 1 and one != other and first == again,
        alike=ended
        and complete
        and sum(counts) == whole <= _KEPT
        and Counter(chain.from_iterable(natural)) == Counter(all_of_main),
        totals=_totals(subject) if ended and complete and sum(counts) < _FEWER * whole else (),
    )


def _totals(subject: Subject) -> tuple[tuple[int, int], ...]:
    # Count the samples with one worker, and with one more than the loader has. Return () if, in
    # either case, the workers don't reach the stream's end in time.
    totals = []
    for workers in (1, subject.inner.num_workers + 1):
        counted = forks.attempt(partial(_delivered, subject, held=False, workers=workers), PASS + 3)
        if counted is None or not counted[1]:
            return ()
        totals.append((workers, sum(counted[0])))
    return tuple(totals)


def most_of(subject: Subject) -> int:
    """Return the most samples to draw in a pass.

    If the run without workers didn't reach the stream's end, the stream may be endless, so return
    only 192.
    """
    alone = subject.known.alone if subject.known else None
    return 200_000 if alone is None or all(alone.finished) else 4 * LOOKED


def in_main(
    subject: Subject, most: int, *, held: bool = False, whole: bool = False
) -> tuple[tuple[list[str], list[str]], int, bool]:
    """Iterate a stream twice in a fork of this process, without workers.

    Args:
        subject: The loader, whose dataset is a stream.
        most: The most samples to draw in the first pass. Each pass also stops after 1.5 s.
        held: Whether to draw every sample with the same random numbers.
        whole: Whether the second pass is as long as the first, instead of `LOOKED` samples.

    Returns:
        A pair of lists (digests of each pass's samples, at most `_KEPT`), the first pass's length,
        and whether the first pass reached the stream's end. If the fork fails, both lists are
        empty, the length is 0, and the last value is False.
    """

    def work() -> tuple[tuple[list[str], list[str]], int, bool]:
        if held:
            hold_draws(subject.dataset)
        first, count, ended = draw_pass(subject, most)
        second, _, _ = draw_pass(subject, most if whole else LOOKED)
        return (first, second), count, ended

    return forks.attempt(work, 2 * PASS + 2) or (([], []), 0, False)


def draw_pass(subject: Subject, most: int) -> tuple[list[str], int, bool]:
    """Iterate a stream once, in this process, for at most 1.5 s.

    Args:
        subject: The loader, whose dataset is a stream.
        most: The most samples to draw.

    Returns:
        A digest of each of the first `_KEPT` samples, how many samples there were, and whether the
        stream ended.
    """
    until = time.monotonic() + PASS
    found: list[str] = []
    count = 0
    for count, sample in enumerate(subject.dataset, start=1):
        if len(found) < _KEPT:
            found.append(digest([sample]))
        if time.monotonic() > until or count >= most:
            return found, count, False
    return found, count, True


def _delivered(
    subject: Subject, *, held: bool, workers: int = 0
) -> tuple[list[int], bool, list[list[str]]]:
    workers = workers or subject.inner.num_workers

    def prepare(worker: int) -> None:
        if held:
            hold_draws(subject.dataset)

    loader = small_loader(
        subject, prepare, workers=workers, collate=partial(_counted, [0]), prefetch=4
    )
    subject.tell(0)
    counts = [0] * workers
    found: list[list[str]] = [[] for _ in range(workers)]
    began = time.monotonic()
    most = 2 * LOOKED * workers if held else most_of(subject)
    taken = 0
    for answer in answers(loader, PASS, most=most):
        taken += 1
        if isinstance(answer, Exception):
            return counts, False, found
        counts[answer[0]] += 1
        if answer[1]:
            found[answer[0]].append(answer[1])
    complete = taken < most and time.monotonic() - began < PASS
    return counts, complete, found


def _counted(count: list[int], samples: Any) -> tuple[int, str]:
    info = get_worker_info()
    count[0] += 1
    return (info.id if info else 0), digest(samples) if count[0] <= _KEPT else ""


def _same(found: list[list[str]]) -> tuple[int, int, int]:
    if len(found) < 2:
        return 0, 0, 0
    compared = min(len(found[0]), len(found[1]), LOOKED)
    same = sum(one == other for one, other in islice(zip(*found[:2], strict=False), compared))
    return same, compared, len(set(found[0][:compared]))


EXPERIMENT: Final = probe("shares", 14.0, needed, ask)
