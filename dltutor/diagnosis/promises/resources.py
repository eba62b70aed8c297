"""Memory and descriptors that pile up, and what takes longer than it must."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiments.workerless import NO_GAIN
from dltutor.diagnosis.promises.broken import Broken, duration
from dltutor.observation.signs import LATE
from dltutor.tables import size

_KB: Final = 1024
_OPENED: Final = 16  # descriptors that stay open after some samples: a dataset opens a few for good
_REREAD: Final = 3  # times that the files were read, all of them, for a part of the samples
_AS_MUCH: Final = 16  # times the bytes of a sample
_KEPT: Final = 64  # descriptors that main has more: those of the batches on their way are fewer
_ENOUGH: Final = 24  # samples of a worker: the first few need what the others use again
_SLOWER: Final = 1.5  # times as long with workers as without, in every turn
_BLOCKED: Final = 0.3  # of a worker's time
_COSTLY: Final = 0.001  # seconds for a sample
_MOSTLY: Final = 0.35  # of the time
_FIRST: Final = 4  # batches of a run that tells anything
_TIMES: Final = 2  # as long as without workers, before anything is late
_START: Final = 1.0  # seconds of pickling, for all workers, at the start of an epoch


def held(evidence: Evidence) -> Iterator[Broken]:
    """Descriptors that main keeps."""
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


def opened(evidence: Evidence) -> Iterator[Broken]:
    """Descriptors that samples leave open."""
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


def grows(evidence: Evidence) -> Iterator[Broken]:
    """Memory of a worker that rises, whatever is changed."""
    memory = evidence.memory
    if memory is None or memory.samples < _ENOUGH:
        return
    late = (memory.late_as_it_is, memory.late_collected, memory.late_returned)
    if min(late) < LATE:
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


def reread(evidence: Evidence) -> Iterator[Broken]:
    """Files that are read many times over."""
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
        f"together: all of them {times:.0f} times. A sample takes {duration(samples.typical)}.",
        parts.where,
        "The files are laid out for another order of reading: to get one sample, a whole file or "
        "a whole chunk is read and decoded, and thrown away.",
        "Store what is drawn together in one chunk (one row, if rows are drawn one by one), or "
        "draw in the order of the file, or read the file once into an array.",
    )


def pickled(evidence: Evidence) -> Iterator[Broken]:
    """A dataset that takes long to send to its workers."""
    parts, run, travel = evidence.parts, evidence.run, evidence.travel
    if travel is None or parts.method not in ("spawn", "forkserver"):
        return
    if travel.seconds * parts.workers < _START or not run.batches:
        return
    when = "once, since the workers stay" if parts.persistent else "at the start of every epoch"
    yield Broken(
        "quick",
        "shown",
        f"The first batch came after {duration(run.first)}. The dataset is pickled for each "
        f"worker, {when}: {size(travel.bytes)}, and {duration(travel.seconds)} to write and to "
        f"read it, for each of {parts.workers} workers.",
        f"{parts.dataset}, which workers by {parts.method} get as a pickle",
        "A worker that isn't forked gets the dataset as a pickle, object by object.",
        "Keep few large arrays instead of many objects, or only the path of a file that the worker "
        "opens"
        + ("." if parts.persistent else "; and `persistent_workers=True` pays for it once."),
    )


def dealing(evidence: Evidence) -> Iterator[Broken]:
    """A sampler that works long before the first batch."""
    parts, samples = evidence.parts, evidence.samples
    if samples is None or samples.dealing < max(_START, _AS_MUCH * samples.typical):
        return
    yield Broken(
        "quick",
        "shown",
        f"Before the first batch the sampler works for {duration(samples.dealing)}, in main, while "
        f"the workers wait. A sample takes {duration(samples.typical)}.",
        f"{parts.sampler}.__iter__",
        "What a sampler computes, every worker waits for, in each epoch.",
        "Compute it once, in `__init__`, from what is known without drawing samples: a table of "
        "labels or lengths.",
    )


def idle(evidence: Evidence) -> Iterator[Broken]:
    """Workers that deliver nothing."""
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


def slower(evidence: Evidence) -> Iterator[Broken]:
    """Workers that make it slower, or no faster, and that not for want of a processor."""
    parts, paces, samples = evidence.parts, evidence.workerless, evidence.samples
    if paces is None or samples is None:
        return
    # They also wait for main to ask them: what counts is waiting inside a sample.
    waited = paces.blocked + paces.inside - 1
    in_vain = paces.times >= NO_GAIN and waited > _BLOCKED and samples.typical > _COSTLY
    if paces.times < _SLOWER and not (in_vain and parts.workers > 1):
        return
    ours, alone = paces.both
    cause = (
        "What the workers save is less than what it costs to send their batches, or they stand in "
        "each other's way."
    )
    fix = "Take `num_workers=0`, or let `dltutor workers` find out how many pay."
    said = (
        f"A batch takes {duration(ours)} from {parts.workers} workers, after they have started, "
        f"and {duration(alone)} without any."
    )
    if in_vain:
        said += f" The workers waited {100 * waited:.0f} % of their time."
    stands = in_vain and paces.share > _MOSTLY
    if stands:
        said += f" A worker is at {paces.line} {100 * paces.share:.0f} % of the time."
        cause = (
            "One worker at a time gets past this line: a lock, a server, or something else that "
            "all of them share."
        )
        fix = "Hold the lock only while something shared changes, or give each worker its own."
    where = paces.line if stands else f"num_workers={parts.workers}"
    shown = stands or paces.times >= _SLOWER
    yield Broken("quick", "shown" if shown else "likely", said, where, cause, fix)


def starts(evidence: Evidence) -> Iterator[Broken]:
    """Workers that take long before each epoch."""
    run, alone, parts = evidence.run, evidence.alone, evidence.parts
    if alone is None or not (run.well and alone.well and alone.batches) or parts.method != "fork":
        return
    if parts.persistent or run.batches < _FIRST:
        return
    late = run.first - _TIMES * max(alone.first, run.pace)
    if late < _START:
        return
    yield Broken(
        "quick",
        "shown",
        f"The first batch came {duration(run.first)} after the loop had begun; without workers "
        f"it comes after {duration(alone.first)}. Each epoch starts new workers, and waits so.",
        f"worker_init_fn={parts.init}" if parts.init else parts.where,
        "Each worker prepares something before its first sample, and forgets it with the epoch.",
        "Prepare it once: in main, before the workers are forked, if it may be shared; or with "
        "`persistent_workers=True`.",
    )


def left(evidence: Evidence) -> Iterator[Broken]:
    """What samples start or make, and leave behind."""
    samples, parts = evidence.samples, evidence.parts
    for what, count, draws in (samples.left or ()) if samples is not None else ():
        yield Broken(
            "clean",
            "shown",
            f"{draws} draws of samples, in a main process, left {count} {what} behind, though the "
            "same samples had been drawn before.",
            parts.where,
            f"Each sample leaves {what}, in every worker, for as long as it runs or longer.",
            "End what a sample starts and remove what it makes, in a `with` block or `finally`; or "
            "make it once for each worker.",
        )
