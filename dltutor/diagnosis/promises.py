"""The seven promises: which of them a loader keeps, breaks, or could not be tested for.

A broken promise is a finding by itself: it needs no failure mode that explains it. Where one does,
that is the finding, since it says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from dltutor.diagnosis.evidence import Certainty, Evidence, Run
from dltutor.diagnosis.kit.difference import Difference, between, with_workers
from dltutor.failures import PROMISES, Promise
from dltutor.tables import size

State = Literal["kept", "broken", "not tested"]

_KB: Final = 1024
_OPENED: Final = 16  # descriptors that stay open after some samples: a dataset opens a few for good
_REREAD: Final = 3  # times that the files were read, all of them, for a part of the samples
_AS_MUCH: Final = 16  # times the bytes of a sample
_KEPT: Final = 64  # descriptors that main has more: those of the batches on their way are fewer
_FEW: Final = 4  # times as many samples come again as don't, if they aren't random
_LATE: Final = 24.0  # MB that an ordinary worker doesn't take after a third of its samples
_ENOUGH: Final = 24  # samples of a worker: the first few need what the others use again
_SLOWER: Final = 1.5  # times as long with workers as without, in every turn
_FASTER: Final = 0.9  # times as long with workers as without: less is faster
_START: Final = 1.0  # seconds of pickling, for all workers, at the start of an epoch
_SAME_DATA: Final[frozenset[Promise]] = frozenset(("ends", "complete", "same", "independent"))


@dataclass(frozen=True)
class Verdict:
    """What became of one promise.

    Args:
        promise: Its name.
        state: Whether it is kept.
        said: How that is known, or why it isn't.
    """

    promise: Promise
    state: State
    said: str


@dataclass(frozen=True)
class Broken:
    """A promise that a loader breaks, whatever the reason.

    Args:
        promise: Its name.
        certainty: As in a Fit.
        evidence: What was measured.
        where: As far as it could be narrowed down; "" where it couldn't.
        cause: Why, or how it is known that something is wrong.
        fix: What to do, or to try next.
    """

    promise: Promise
    certainty: Certainty
    evidence: str
    where: str
    cause: str
    fix: str


def broken(evidence: Evidence, explained: Collection[Promise]) -> tuple[Broken, ...]:
    """The promises that are broken, as far as nothing else has been found that explains it.

    Args:
        evidence: Of one visit.
        explained: The promises that what was found breaks.
    """
    found: list[Broken] = []
    if not set(explained) & {"ends"}:
        found += [*_no_batch(evidence), *_hangs(evidence)]
    if not set(explained) & _SAME_DATA:
        found += [*_fetched(evidence), *_fields(evidence), *_replaced(evidence), *_order(evidence)]
        found += [*_dealt(evidence), *_epochs(evidence), *_told(evidence)]
        found += [] if found else _differs(evidence)
    if not set(explained) & {"bounded"}:
        found += [*_opened(evidence), *_held(evidence), *_grows(evidence)]
    found += [*_reread(evidence), *_pickled(evidence), *_dealing(evidence), *_idle(evidence)]
    if "quick" not in (*explained, *(each.promise for each in found)):
        found += _slower(evidence)
    return tuple(found)


# Ends


def _no_batch(evidence: Evidence) -> Iterator[Broken]:
    run, parts = evidence.run, evidence.parts
    if run.end != "finished" or run.batches or not any(run.finished):
        return  # or the loop has not asked for any
    fix = "Assert after the epoch that batches came."
    if parts.drop_last and parts.length and (parts.batch_size or 0) > parts.length:
        why = (
            f"`drop_last=True` drops the only batch: there are {parts.length} samples, and a batch "
            f"takes {parts.batch_size}."
        )
        fix = "Use a smaller `batch_size`, or `drop_last=False` where there is no whole batch."
    elif parts.length == 0:
        why = f"`len({parts.dataset})` is 0."
    elif parts.stream:
        why = f"`{parts.dataset}.__iter__` ends before its first sample."
    else:
        why = f"The sampler, {parts.sampler}, deals no batch."
    said = "The loop came to its end, without an error and without a batch."
    yield Broken("complete", "shown", said, parts.where if parts.stream else "", why, fix)


def _hangs(evidence: Evidence) -> Iterator[Broken]:
    run, samples, parts = evidence.run, evidence.samples, evidence.parts
    if not run.waited:
        return
    drawn = samples is not None and samples.looked > 0
    if not run.batches and not drawn:
        return  # a sample that takes long is no hang
    came = f"{run.batches} batches came, and then no more" if run.batches else "No batch came"
    said = f"{came}."
    if samples is not None and drawn:
        said += f" In a main process a sample takes {_time(samples.typical)}."
    if evidence.alone is not None:
        how = "comes to its end" if evidence.alone.well else f"{evidence.alone.end}, too"
        said += f" Without workers the loop {how}."
    if words := run.said.strip().splitlines():
        said += f" The last words on stderr: {words[-1][:160]!r}."
    waits = evidence.waits.stuck if evidence.waits is not None else ()
    where = waits[0][1] if waits else run.stood
    alone = evidence.alone is not None and evidence.alone.well
    cause = "Something that workers wait for never comes."
    if alone and parts.method == "fork":
        cause += " It comes without workers: what main had running isn't there."
    fix = (
        "Look at the line above: what does it wait for, and who should bring it? "
        "`timeout=60` makes the loader raise instead of waiting without end."
    )
    yield Broken("ends", "shown", said, where, cause, fix)


# Complete, same, independent


def _differs(evidence: Evidence) -> Iterator[Broken]:
    difference = with_workers(evidence)
    if difference is None or not difference.any or not _steady(evidence, difference):
        return
    parts, fetched = evidence.parts, evidence.fetched
    workers = f"{parts.workers} worker{'' if parts.workers == 1 else 's'}"
    unit, came, expected = difference.unit, difference.came, difference.expected
    promise: Promise = "same" if difference.more and difference.missing else "complete"
    if promise == "same":
        said = (
            f"Of {expected} {unit} that come without workers{_which(difference)}, "
            f"{difference.missing} don't come with {workers}. {difference.more} others do."
        )
    elif difference.missing:
        said = (
            f"Epoch {difference.epoch} has {expected} {unit} without workers, and {came} with "
            f"{workers}: "
            f"{difference.missing} never come."
        )
    else:
        again = f", {difference.twice} of them more than once" if difference.twice else ""
        said = (
            f"Epoch {difference.epoch} has {expected} {unit} without workers, and {came} with "
            f"{workers}{again}."
        )
    said += " They aren't random: drawn again without workers, they are the same."
    cause = "What a worker delivers depends on its being a worker."
    where, fix = parts.where, f"Print what `{parts.dataset}` does at this line, in each worker."
    if difference.epoch:
        cause = (
            "The first epoch is the same. What main changes in the dataset after the workers have "
            "started doesn't reach them, and it was changed too late, or in main only."
        )
        fix = (
            f"Find who changes {parts.dataset} between epochs. Let each worker learn of it: with "
            "`persistent_workers=False` and before `iter(loader)`, in a tensor in shared memory, "
            "or as part of the index that the sampler deals."
        )
    elif fetched is not None and fetched.dealt_once:
        where = f"{parts.sampler}.__iter__"
        cause = (
            "The sampler deals other batches when it's asked a second time, and torch calls "
            "`iter()` of it twice where there are workers."
        )
        fix = "Make `__iter__` a generator that changes nothing before its first `next()`."
    elif parts.stream:
        cause = "Each worker iterates a copy of its own, and who takes which share is up to you."
        fix = (
            "Let exactly one of the datasets that wrap each other look at `get_worker_info()`, and "
            "take every `num_workers`-th sample from `id` on."
        )
    yield Broken(promise, "shown", said, where, cause, fix)


def _which(difference: Difference) -> str:
    if difference.epoch:
        return f" in epoch {difference.epoch}"
    return "" if difference.whole else " first"


def _steady(evidence: Evidence, found: Difference) -> bool:
    # Whether the same samples come without workers, whatever the random numbers.
    alone, reseeded, samples = evidence.alone, evidence.reseeded, evidence.samples
    if alone is not None and reseeded is not None and not found.epoch:
        # A stream that is the same in the same order has no random numbers in it.
        difference = between(alone, reseeded, in_order=evidence.parts.stream)
        if difference is not None and difference.unit == "samples":
            return not difference.any
    plain = samples is not None and not (samples.random or samples.again or samples.joined)
    return plain and samples is not None and samples.looked > 0 and not evidence.parts.stream


def _fetched(evidence: Evidence) -> Iterator[Broken]:
    fetched, parts = evidence.fetched, evidence.parts
    if fetched is None or not fetched.differ or not fetched.by:
        return
    own = fetched.by == parts.dataset
    yield Broken(
        "same",
        "shown",
        f"{fetched.differ} of the first {fetched.looked} samples are not what "
        f"`{parts.dataset}.__getitem__` gives for their indices.",
        f"{fetched.by}.__getitems__",
        f"A loader that finds `__getitems__` asks it for whole batches, and never asks "
        f"`__getitem__`. {'They give different samples.' if own else ''}".strip()
        + ("" if own else f" Here it is that of {fetched.by}, inside {parts.dataset}."),
        f"Define it in {parts.dataset}: "
        "`def __getitems__(self, indices): return [self[i] for i in indices]`.",
    )


def _fields(evidence: Evidence) -> Iterator[Broken]:
    fetched, parts = evidence.fetched, evidence.parts
    if fetched is None or not (fetched.ragged or fetched.dropped):
        return
    told = [
        f"`{name}` has {rows} rows in a batch of {samples}: row k isn't sample k's"
        for name, rows, samples in fetched.ragged
    ]
    told += [
        f"`{name}`, which {have} of {samples} samples have, is missing from a batch"
        for name, have, samples in fetched.dropped
    ]
    yield Broken(
        "same",
        "shown" if fetched.ragged else "likely",
        f"{'; '.join(told[:3])}.",
        parts.collate or "default_collate",
        "The samples don't all have the same fields, and the batch keeps what it finds.",
        "Give each sample every field, with a placeholder where there is nothing, and a mask that "
        "says so.",
    )


def _replaced(evidence: Evidence) -> Iterator[Broken]:
    samples, parts = evidence.samples, evidence.parts
    if samples is None or not samples.replaced:
        return
    index, other, kind, text, line = samples.replaced[0]
    count = len(samples.replaced)
    yield Broken(
        "complete",
        "shown",
        f"`dataset[{index}]` gives the sample of `dataset[{other}]`, after {kind}"
        f"{f' ({text})' if text else ''} was caught. So do {count} of the {samples.looked} samples "
        "that were drawn.",
        line,
        f"{parts.dataset} hides that a sample can't be made, and gives another one twice.",
        "Find the bad samples once, before training, leave them out, and say how many there are.",
    )


def _order(evidence: Evidence) -> Iterator[Broken]:
    run, order, parts = evidence.run, evidence.order, evidence.parts
    if order is None or not order.moves or run.epochs_told < 2:
        return
    epochs = [drawn or passed for drawn, passed in zip(run.drawn, run.passes, strict=True)]
    whole = [
        each for each, done in zip(epochs, run.finished, strict=True) if done and len(each) > 3
    ]
    same = [at for at in range(1, len(whole)) if whole[at] == whole[at - 1]]
    if not same:
        return
    yield Broken(
        "independent",
        "shown",
        f"Epochs {same[0] - 1} and {same[0]} have the same order, though the loop called "
        f"`{parts.sampler}.set_epoch` {run.epochs_told} times.",
        f"{parts.sampler}.set_epoch",
        "The order of an epoch was dealt before the sampler was told which epoch it is: a loader "
        "that never ends loads ahead.",
        f"Let an epoch end: an ordinary loader with `persistent_workers=True` keeps its workers. "
        f"{parts.loader} has one iterator for all epochs.",
    )


def _dealt(evidence: Evidence) -> Iterator[Broken]:
    samples, parts = evidence.samples, evidence.parts
    if samples is None or min(samples.dealt) < 0 or parts.batches is None or parts.stream:
        return
    first, second = samples.dealt
    if first == second == parts.batches:
        return
    yield Broken(
        "complete",
        "likely",
        f"`len(loader)` is {parts.batches}. In one epoch the sampler deals {first} batches, in the "
        f"next {second}.",
        f"{parts.sampler}.__len__" if first == second else f"{parts.sampler}.__iter__",
        "The sampler's `__len__` and its `__iter__` count differently."
        if first == second
        else "The sampler keeps something from one epoch to the next: what an epoch leaves out "
        "comes in a later one, or comes twice.",
        "Begin each `__iter__` with nothing left over from before, deal what is left at its end, "
        "and let `__len__` count the same.",
    )


def _epochs(evidence: Evidence) -> Iterator[Broken]:
    # Of random samples all are others in the next epoch, of those that are left out some.
    run, parts = evidence.run, evidence.parts
    if not parts.stream or not (run.well and run.finished[:2] == (True, True)):
        return
    first, second = (Counter(each) for each in run.drawn[:2])
    missing, more = (first - second).total(), (second - first).total()
    if not 0 < max(missing, more) <= first.total() / _FEW:
        return
    yield Broken(
        "complete",
        "likely",
        f"Epochs 0 and 1 have {first.total()} and {second.total()} samples. {missing} of the first "
        f"don't come in the second, and {more} others do; the rest are the same.",
        parts.where,
        "Each epoch leaves some samples out: often what is left in a buffer when the data ends.",
        "At the end of `__iter__`, deliver what is still in the buffer: `yield from`, and not "
        "`return`.",
    )


def _told(evidence: Evidence) -> Iterator[Broken]:
    run, alone, parts = evidence.run, evidence.alone, evidence.parts
    if alone is None or not parts.loop or not parts.persistent:
        return
    if not (_again(run) and len(alone.passes) > 1) or _again(alone):
        return
    yield Broken(
        "same",
        "shown",
        "Epochs 0 and 1 have the same samples in the same order with workers that stay, and others "
        "without workers.",
        parts.where,
        "A worker that stays has the copy of the dataset that it started with. What the loop sets "
        "between epochs doesn't reach it.",
        "Keep what changes between epochs in a tensor in shared memory "
        "(`torch.zeros(1, dtype=torch.int64).share_memory_()`), or take "
        "`persistent_workers=False`.",
    )


def _again(run: Run) -> bool:
    # Whether an epoch begins as the one before.
    first, second = (*run.passes, (), ())[:2]
    most = min(len(first), len(second))
    return most > 1 and first[:most] == second[:most]


# Bounded


def _held(evidence: Evidence) -> Iterator[Broken]:
    run, parts = evidence.run, evidence.parts
    if run.files < max(_KEPT, run.batches / 2):
        return
    yield Broken(
        "bounded",
        "shown",
        f"After {run.batches} batches main had {run.files} more open descriptors than at the "
        "first.",
        "your training loop" if parts.loop else parts.where,
        "Each tensor that came from a worker is a descriptor for as long as anything refers to it, "
        "a small view too.",
        "Keep copies or numbers of what you collect: `labels.clone()`, `loss.item()`.",
    )


def _opened(evidence: Evidence) -> Iterator[Broken]:
    samples, parts = evidence.samples, evidence.parts
    if samples is None or samples.opened < max(_OPENED, samples.looked // 2):
        return
    yield Broken(
        "bounded",
        "shown",
        f"{samples.looked} samples, drawn in a main process, left {samples.opened} descriptors "
        "open.",
        parts.where,
        "What a sample opens stays open. A process may have about 1000 open at once.",
        "Close it: `with open(...) as file:`. Or open it once for each process, and keep it.",
    )


def _grows(evidence: Evidence) -> Iterator[Broken]:
    memory = evidence.memory
    if memory is None or memory.samples < _ENOUGH:
        return
    late = (memory.late_as_it_is, memory.late_collected, memory.late_returned)
    if min(late) < _LATE:
        return  # what goes away like that has a name
    # What new samples bring, or what any sample does again.
    again = memory.late_repeated >= memory.late_as_it_is / 2
    by = "also with the same samples again and again" if again else "with new samples only"
    yield Broken(
        "bounded",
        "likely",
        f"A worker's own memory grew by {memory.peak_as_it_is:.0f} MB in {memory.samples} samples, "
        f"{memory.late_as_it_is:.0f} MB of that after the first third; {by}.",
        evidence.parts.where,
        "Something keeps what each sample brings.",
        "Count what your dataset holds before and after some samples (`tracemalloc` names the "
        "lines), and watch a longer run: `dltutor.observe(loader, live=True)`.",
    )


# Quick


def _reread(evidence: Evidence) -> Iterator[Broken]:
    samples, parts = evidence.samples, evidence.parts
    if samples is None or not samples.looked or not samples.of_files:
        return
    each, times = samples.read / samples.looked, samples.read / samples.of_files
    if each < max(_AS_MUCH * samples.bytes, 256 * _KB) or times < _REREAD:
        return
    yield Broken(
        "quick",
        "shown",
        f"A sample of {size(samples.bytes)} reads {size(each)}. For {samples.looked} samples "
        f"{size(samples.read)} were read, of files that have {size(samples.of_files)} "
        f"together: all of them {times:.0f} times. A sample takes {_time(samples.typical)}.",
        parts.where,
        "The files are laid out for another order of reading: to get one sample, a whole file or "
        "a whole chunk is read and decoded, and thrown away.",
        "Store what is drawn together in one chunk (one row, if rows are drawn one by one), or "
        "draw in the order of the file, or read the file once into an array.",
    )


def _pickled(evidence: Evidence) -> Iterator[Broken]:
    parts, run, travel = evidence.parts, evidence.run, evidence.travel
    if travel is None or parts.method not in ("spawn", "forkserver"):
        return
    if travel.seconds * parts.workers < _START or not run.batches:
        return
    when = "once, since the workers stay" if parts.persistent else "at the start of every epoch"
    yield Broken(
        "quick",
        "shown",
        f"The first batch came after {_time(run.first)}. The dataset is pickled for each worker, "
        f"{when}: {size(travel.bytes)}, and {_time(travel.seconds)} to write and to read it, "
        f"for each of {parts.workers} workers.",
        f"{parts.dataset}, which workers by {parts.method} get as a pickle",
        "A worker that isn't forked gets the dataset as a pickle, object by object.",
        "Keep few large arrays instead of many objects, or only the path of a file that the worker "
        "opens"
        + ("." if parts.persistent else "; and `persistent_workers=True` pays for it once."),
    )


def _dealing(evidence: Evidence) -> Iterator[Broken]:
    parts, samples = evidence.parts, evidence.samples
    if samples is None or samples.dealing < max(_START, _AS_MUCH * samples.typical):
        return
    yield Broken(
        "quick",
        "shown",
        f"Before the first batch the sampler works for {_time(samples.dealing)}, in main, while "
        f"the workers wait. A sample takes {_time(samples.typical)}.",
        f"{parts.sampler}.__iter__",
        "What a sampler computes, every worker waits for, in each epoch.",
        "Compute it once, in `__init__`, from what is known without drawing samples: a table of "
        "labels or lengths.",
    )


def _idle(evidence: Evidence) -> Iterator[Broken]:
    shares, parts = evidence.shares, evidence.parts
    if shares is None or min(shares.shares, default=1) or sum(shares.shares) < _ENOUGH:
        return
    idle = [f"W{number}" for number, count in enumerate(shares.shares) if not count]
    yield Broken(
        "quick",
        "shown",
        f"{' and '.join(idle)} delivered nothing, while the {parts.workers} workers together "
        f"delivered {sum(shares.shares)} samples.",
        parts.where,
        "There are fewer shares than workers, so that some have none.",
        "Cut the data into at least as many files or shards as there are workers, or deal out "
        "smaller pieces: every `num_workers`-th sample from `id` on.",
    )


def _slower(evidence: Evidence) -> Iterator[Broken]:
    parts, paces = evidence.parts, evidence.workerless
    if paces is None or paces.times < _SLOWER:
        return
    ours, alone = paces.both
    yield Broken(
        "quick",
        "shown",
        f"A batch takes {_time(ours)} from {parts.workers} workers, after they have started, and "
        f"{_time(alone)} without any.",
        f"num_workers={parts.workers}",
        "What the workers save is less than what it costs to send their batches, or they stand in "
        "each other's way.",
        "Take `num_workers=0`, or let `dltutor workers` find out how many pay.",
    )


# What is kept


def verdicts(
    evidence: Evidence, found: Sequence[Promise], untried: Sequence[str]
) -> tuple[Verdict, ...]:
    """A verdict on each promise.

    Args:
        evidence: Of one visit.
        found: The promise that each finding breaks.
        untried: Why questions have no answer.
    """
    kept = {
        "ends": _ended(evidence),
        "complete": _complete(evidence),
        "same": _same(evidence),
        "independent": _independent(evidence),
        "bounded": _bounded(evidence),
        "clean": _clean(evidence),
        "quick": _quick(evidence),
    }
    verdicts = []
    for promise in PROMISES:
        numbers = [str(at) for at, each in enumerate(found, start=1) if each == promise]
        if numbers:
            verdicts.append(Verdict(promise, "broken", f"see {' and '.join(numbers)} above"))
            continue
        well, said = kept[promise]
        why = said or next(iter(untried), "there was nothing to compare")
        verdicts.append(Verdict(promise, "kept" if well else "not tested", why))
    return tuple(verdicts)


Answer = tuple[bool, str]


def _ended(evidence: Evidence) -> Answer:
    run = evidence.run
    if not run.well:
        return False, ""
    if any(run.finished):
        epochs = sum(run.finished)
        return True, f"{epochs} epoch{'s' * (epochs > 1)}, {run.batches} batches"
    return False, f"{run.batches} batches came, and no epoch's end in the time there was"


def _complete(evidence: Evidence) -> Answer:
    run, alone = evidence.run, evidence.alone
    if not (run.well and run.finished[:1] == (True,) and run.batches):
        return False, "no epoch came to its end"
    if not evidence.parts.workers:
        return True, f"{run.counted[0]} samples came"
    if alone is None or alone.finished[:1] != (True,):
        return False, "no epoch without workers came to its end in the time there was"
    difference = with_workers(evidence)
    if difference is not None and difference.whole and difference.came == difference.expected:
        return True, f"{difference.came} {difference.unit} came, with workers and without"
    return False, "samples of the two epochs can't be counted alike"


def _same(evidence: Evidence) -> Answer:
    difference, fetched = with_workers(evidence), evidence.fetched
    if difference is not None and not difference.any:
        return True, f"{difference.came} {difference.unit} are those that come without workers"
    if fetched is not None and fetched.looked and not fetched.differ:
        held = f"{fetched.looked} samples are those of `dataset[i]`, random numbers held"
        return True, held
    if difference is not None:
        return False, "samples are random: another run has others"
    return False, "no epoch came to its end"


def _independent(evidence: Evidence) -> Answer:
    samples, repeats = evidence.samples, evidence.repeats
    if repeats is not None and repeats.sources:
        return True, "random numbers were others in each worker and epoch"
    if samples is not None and samples.looked and not (samples.random or samples.joined):
        return (not evidence.parts.stream), (
            "a stream's random numbers weren't told apart"
            if evidence.parts.stream
            else "no sample is random"
        )
    return False, ""


def _bounded(evidence: Evidence) -> Answer:
    memory, run = evidence.memory, evidence.run
    if not evidence.parts.workers:
        return False, "there is no worker whose memory could grow"
    if memory is not None and memory.late_as_it_is >= 0:
        return True, "what workers took after their first samples went away again, or has a bound"
    if not run.private or not run.well:
        return False, ""
    if max(most - first for first, most in run.private) > _LATE:
        return False, "a worker's own memory rose, and the run was too short to say whether it ends"
    return True, f"no worker's own memory rose by more than {_LATE:.0f} MB in the run"


def _clean(evidence: Evidence) -> Answer:
    if evidence.leftover is not None:
        return True, "no worker was left after the loop"
    return False, "no epoch was broken off" if evidence.run.well else ""


def _quick(evidence: Evidence) -> Answer:
    run, alone = evidence.run, evidence.alone
    if not evidence.parts.workers or alone is None or not (run.pace and alone.pace):
        return False, "" if evidence.parts.workers else "there are no workers"
    if run.pace < _FASTER * alone.pace:
        return True, "batches come faster with workers than without"
    return False, "batches didn't come faster with workers than without, in a short run"


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{1000 * seconds:.2g} ms" if seconds >= 0.001 else f"{1e6 * seconds:.2g} µs"
