"""Find memory and descriptors that pile up, and whatever takes longer than it has to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiments.workerless import LOST, NO_GAIN, SLOWER
from dltutor.diagnosis.promises.broken import Broken, duration
from dltutor.observation.signs import LATE
from dltutor.tables import size

_KB: Final = 1024
_OPENED: Final = 16  # descriptors still open after some samples; a dataset keeps a few open forever
_REREAD: Final = 3  # times that all the files were read, for a part of the samples
_AS_MUCH: Final = 16  # times the bytes of a sample
_KEPT: Final = 64  # more descriptors in main; batches on their way account for fewer
_ENOUGH: Final = 24  # samples of a worker; the first few take memory that later ones use again
_BLOCKED: Final = 0.3  # of a worker's time
_COSTLY: Final = 0.001  # seconds for a sample
_MOSTLY: Final = 0.35  # of the time
_FIRST: Final = 4  # batches, at least, for a run to say anything
_TIMES: Final = 2  # times as long as without workers, before it counts as late
_SHARE: Final = 0.4  # of the time between two batches
_REPEATED: Final = 1.6  # times the computing that it takes without workers
_WORKED: Final = 0.4  # seconds of computing in an epoch, for one worker
_UNEVEN: Final = 1.5  # times a worker's equal share
_SCATTERED: Final = 2.0  # times as long as in ascending order
_DRAWING: Final = 0.1  # seconds for a sampler that draws samples itself
_START: Final = 1.0  # seconds of pickling, for all workers, at the start of an epoch


def held(evidence: Evidence) -> Iterator[Broken]:
    """Find descriptors that main keeps."""
    run, parts = evidence.run, evidence.parts
    if run.files < max(_KEPT, run.batches / 2):
        return
    yield Broken(
        "bounded",
        "shown",
        f"After {run.batches} batches, main had {run.files} more open descriptors than at the "
        "first batch.",
        "your training loop" if parts.loop else parts.where,
        "Each tensor from a worker keeps a descriptor open as long as anything refers to it, even "
        "a small view.",
        "Keep copies or plain numbers of what you collect: `labels.clone()`, `loss.item()`.",
    )


def opened(evidence: Evidence) -> Iterator[Broken]:
    """Find descriptors that samples leave open."""
    samples, parts = evidence.samples, evidence.parts
    if samples is None or samples.opened < max(_OPENED, samples.looked // 2):
        return
    yield Broken(
        "bounded",
        "shown",
        f"Drawing {samples.looked} samples in the main process left {samples.opened} descriptors "
        "open.",
        parts.where,
        "What a sample opens stays open, and a process may have only about 1000 open at once.",
        "Close it: `with open(...) as file:`. Or open it once per process and keep it.",
    )


def grows(evidence: Evidence) -> Iterator[Broken]:
    """Find worker memory that grows no matter what we change."""
    memory = evidence.memory
    if memory is None or memory.samples < _ENOUGH:
        return
    late = (memory.late_as_it_is, memory.late_collected, memory.late_returned)
    if min(late) < LATE:
        return  # if one of these stops it, it has a name
    # Either new samples bring it, or every sample adds to it again.
    again = memory.late_repeated >= memory.late_as_it_is / 2
    by = "even with the same samples again and again" if again else "only with new samples"
    yield Broken(
        "bounded",
        "likely",
        f"A worker's own memory grew by {memory.peak_as_it_is:.0f} MB in {memory.samples} samples, "
        f"{memory.late_as_it_is:.0f} MB of that after the first third. It grew {by}.",
        evidence.parts.where,
        "Something holds on to memory from each sample.",
        "Count what your dataset holds before and after some samples (`tracemalloc` names the "
        "lines), and watch a longer run with `dltutor.observe(loader, live=True)`.",
    )


def reread(evidence: Evidence) -> Iterator[Broken]:
    """Find files that are read many times over."""
    samples, parts = evidence.samples, evidence.parts
    if samples is None or not samples.looked or not samples.of_files:
        return
    each, times = samples.read / samples.looked, samples.read / samples.of_files
    if each < max(_AS_MUCH * samples.bytes, 256 * _KB) or times < _REREAD:
        return
    yield Broken(
        "quick",
        "shown",
        f"A sample of {size(samples.bytes)} reads {size(each)}. {samples.looked} samples read "
        f"{size(samples.read)} from files of {size(samples.of_files)} in total, which is "
        f"{times:.0f} times all of them. A sample takes {duration(samples.typical)}.",
        parts.where,
        "The files are laid out for a different reading order. To get one sample, the dataset "
        "reads a whole file or chunk, decodes it, and throws it away.",
        "Store what's drawn together in one chunk (one row, if rows are drawn one by one), draw in "
        "the order of the file, or read the file into an array once.",
    )


def pickled(evidence: Evidence) -> Iterator[Broken]:
    """Find a dataset that takes long to send to its workers."""
    parts, run, travel = evidence.parts, evidence.run, evidence.travel
    if travel is None or parts.method not in ("spawn", "forkserver"):
        return
    if travel.seconds * parts.workers < _START or not run.batches:
        return
    when = "once, because workers stay" if parts.persistent else "at the start of every epoch"
    yield Broken(
        "quick",
        "shown",
        f"The first batch arrived after {duration(run.first)}. The dataset is pickled for each "
        f"worker, {when}. The pickle is {size(travel.bytes)} and takes {duration(travel.seconds)} "
        f"to write and read, for each of {parts.workers} workers.",
        f"{parts.dataset}, which {parts.method} workers get as a pickle",
        "A worker that isn't forked gets the dataset as a pickle, object by object.",
        "Keep a few large arrays instead of many objects, or only the path of a file that the "
        "worker opens."
        + ("" if parts.persistent else " With `persistent_workers=True` you pay only once."),
    )


def dealing(evidence: Evidence) -> Iterator[Broken]:
    """Find a sampler that works a long time before the first batch."""
    parts, samples = evidence.parts, evidence.samples
    if samples is None:
        return
    drawn, each = samples.drawn_by_sampler, samples.dealing_each
    if parts.workers and each > max(_COSTLY, _SHARE * evidence.run.pace) and evidence.run.pace:
        yield Broken(
            "quick",
            "shown",
            f"For each batch the sampler works for {duration(each)} in main. A batch arrives every "
            f"{duration(evidence.run.pace)}.",
            f"{parts.sampler}.__iter__",
            "The sampler runs in main, between the batches, and no number of workers makes it any "
            "faster.",
            "Compute the order of the epoch once, at the start of `__iter__`, and only slice it "
            "from then on.",
        )
        return
    draws = drawn >= _ENOUGH and samples.dealing > _DRAWING
    if not draws and samples.dealing < max(_START, _AS_MUCH * samples.typical):
        return
    yield Broken(
        "quick",
        "shown",
        f"Before the first batch, the sampler works in main for {duration(samples.dealing)} while "
        f"the workers wait. A sample takes {duration(samples.typical)}."
        + (f" The sampler itself draws {drawn} samples from the dataset." if drawn else ""),
        f"{parts.sampler}.__iter__",
        "In each epoch, every worker waits until the sampler has computed its order.",
        "Compute the order once, in `__init__`, from what you know without drawing samples, "
        "such as a table of labels or lengths.",
    )


def scattered(evidence: Evidence) -> Iterator[Broken]:
    """Find samples that are slow because of the order in which they are drawn."""
    found, parts, samples = evidence.reordered, evidence.parts, evidence.samples
    if found is None or samples is None or found.times < _SCATTERED:
        return
    if found.seconds - found.ascending < _COSTLY * found.looked:
        return
    ours, ascending = found.seconds / found.looked, found.ascending / found.looked
    yield Broken(
        "quick",
        "shown",
        f"In the order of the sampler a sample takes {duration(ours)}. The same {found.looked} "
        f"samples, drawn in ascending order, take {duration(ascending)} each.",
        samples.busiest or parts.where,
        "The data is laid out for reading from the beginning to the end. In any other order, your "
        "dataset reads or decompresses the same parts over and over to get to one sample.",
        "Store the samples so that each can be read by itself (uncompressed, or compressed one by "
        "one), or shuffle whole blocks and draw each block in order.",
    )


def idle(evidence: Evidence) -> Iterator[Broken]:
    """Find workers that deliver nothing."""
    shares, parts = evidence.shares, evidence.parts
    if shares is None or min(shares.shares, default=1) or sum(shares.shares) < _ENOUGH:
        return
    idle = [f"W{number}" for number, count in enumerate(shares.shares) if not count]
    yield Broken(
        "quick",
        "shown",
        f"{' and '.join(idle)} delivered nothing, while all {parts.workers} workers together "
        f"delivered {sum(shares.shares)} samples.",
        parts.where,
        "There are fewer shares than workers, so some workers get none.",
        "Split the data into at least as many files or shards as there are workers, or deal out "
        "smaller pieces: every `num_workers`-th sample, starting at `id`.",
    )


def uneven(evidence: Evidence) -> Iterator[Broken]:
    """Find a worker that does the work of the others."""
    run, parts = evidence.run, evidence.parts
    if not run.well or parts.workers < 2 or len(run.busy) != parts.workers:
        return
    most, all_of_them = max(run.busy), sum(run.busy)
    if most < _WORKED or most < _UNEVEN * all_of_them / parts.workers:
        return
    if parts.batches is not None and parts.batches < 2 * parts.workers:
        return
    cause = "Some workers get more data than others, or data that takes longer."
    fix = "Divide the data by what it costs, in smaller pieces: every `num_workers`-th sample."
    if not parts.stream:
        cause = (
            "torch deals batches out in turn, so each worker gets every "
            f"{_ordinal(parts.workers)} batch. If cheap and expensive batches alternate, the same "
            "worker gets all the expensive ones."
        )
        fix = "Mix the order in which the sampler deals out cheap and expensive batches."
    yield Broken(
        "quick",
        "shown",
        f"One worker computed for {duration(most)} of the {duration(all_of_them)} that all "
        f"{parts.workers} workers computed in an epoch. With equal shares, it would be "
        f"{duration(all_of_them / parts.workers)}.",
        parts.where if parts.stream else f"{parts.sampler}.__iter__",
        cause,
        fix,
    )


def _ordinal(count: int) -> str:
    return {2: "second", 3: "third"}.get(count, f"{count}th")


def slower(evidence: Evidence) -> Iterator[Broken]:
    """Find workers that make it slower, or no faster although they had a processor."""
    parts, paces, samples = evidence.parts, evidence.workerless, evidence.samples
    if paces is None or samples is None:
        return
    # They also wait for main to ask them: what counts is waiting inside a sample.
    waited = paces.blocked + paces.inside - 1
    in_vain = paces.times >= NO_GAIN and waited > _BLOCKED and samples.typical > _COSTLY
    ours, alone = paces.both
    lost = (ours - alone) * (parts.batches or evidence.run.batches)
    slower = paces.times >= SLOWER and lost > LOST
    if not slower and not (in_vain and parts.workers > 1):
        return
    cause = (
        "The workers save less time than it takes to send their batches, or they get in each "
        "other's way."
    )
    fix = "Use `num_workers=0`, or let `dltutor workers` find out how many are worth it."
    said = (
        f"Once {parts.workers} workers have started, a batch takes {duration(ours)}. Without "
        f"workers it takes {duration(alone)}."
    )
    if in_vain:
        said += f" The workers spent {100 * waited:.0f} percent of their time waiting."
    stands = in_vain and paces.share > _MOSTLY
    if stands:
        said += f" A worker is at {paces.line} {100 * paces.share:.0f} percent of the time."
        cause = (
            "Only one worker at a time gets past this line. They may share a lock, a server, or "
            "something else."
        )
        fix = "Hold the lock only while shared state changes, or give each worker its own."
    where = paces.line if stands else f"num_workers={parts.workers}"
    shown = stands or slower
    yield Broken("quick", "shown" if shown else "likely", said, where, cause, fix)


def repeated(evidence: Evidence) -> Iterator[Broken]:
    """Find workers of a stream that do each other's work, too."""
    run, alone, parts = evidence.run, evidence.alone, evidence.parts
    if alone is None or not parts.stream or parts.workers < 2 or not (run.well and alone.well):
        return
    each, once = (one.computed / max(sum(one.counted), 1) for one in (run, alone))
    if once < _COSTLY or each < _REPEATED * once or sum(run.counted) < _ENOUGH:
        return
    yield Broken(
        "quick",
        "shown",
        f"For each sample, the workers together compute for {duration(each)}. Without workers, "
        f"main computes for {duration(once)}.",
        parts.where,
        "The workers do the same work several times. Each one reads or decodes what another one "
        "delivers, and throws it away.",
        "Divide the data before anything expensive is done: let each worker skip what isn't its "
        "own first, and read and decode only the rest.",
    )


def starts(evidence: Evidence) -> Iterator[Broken]:
    """Find workers that take long to start in each epoch."""
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
        f"The first batch arrived {duration(run.first)} after the loop started. Without workers "
        f"it arrives after {duration(alone.first)}. Each epoch starts new workers and waits again.",
        f"worker_init_fn={parts.init}" if parts.init else parts.where,
        "Each worker prepares something before its first sample, and loses it when the epoch ends.",
        "Prepare it once. If it can be shared, do it in main before the workers are forked. If "
        "not, use `persistent_workers=True`.",
    )


def left(evidence: Evidence) -> Iterator[Broken]:
    """Find what workers or samples start or make, and then leave behind."""
    samples, parts, run = evidence.samples, evidence.parts, evidence.run
    if run.left:
        processes = "process that a worker" if run.left == 1 else "processes that workers"
        yield Broken(
            "clean",
            "shown",
            f"{run.left} {processes} had started kept running after the epoch, when all workers "
            "had left.",
            f"worker_init_fn={parts.init}" if parts.init else parts.where,
            "Before Python 3.13, a worker leaves without running `atexit` functions, and a child "
            "process that nothing else ends goes on without it.",
            "End what a worker starts with `multiprocessing.util.Finalize(None, stop, "
            "exitpriority=10)`, or have the child end itself when its standard input closes.",
        )
    first, second = (*run.temporary, 0, 0)[:2]
    if parts.workers and not parts.persistent and second - first >= parts.workers:
        yield Broken(
            "clean",
            "shown",
            f"The second epoch, with new workers, left {second - first} more temporary files or "
            "folders than the first one had.",
            parts.where,
            "Before Python 3.13, a worker leaves without running `atexit` functions or the "
            "finalizers of what it still holds, so nothing removes what it made.",
            "Make the folder in the main process, once. Or remove it in the worker with "
            "`multiprocessing.util.Finalize(None, folder.cleanup, exitpriority=10)`.",
        )
    for what, count, draws in (samples.left or ()) if samples is not None else ():
        yield Broken(
            "clean",
            "shown",
            f"Drawing samples {draws} times in the main process left {count} {what} behind, though "
            "the same samples had been drawn before.",
            parts.where,
            f"Samples leave {what} behind in every worker, for as long as it runs or longer.",
            "End what a sample starts and remove what it makes, in a `with` block or `finally`. Or "
            "make it once per worker.",
        )
