"""Find work and waiting that a loader doesn't need."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Finding
from dltutor.diagnosis.probes.workerless import LOST, SLOWER, in_vain
from dltutor.diagnosis.words import duration
from dltutor.tables import size

_finding: Final = partial(Finding, promise="quick")

_AS_MUCH: Final = 16  # a sampler that works this many times as long as a sample takes is slow
_ENOUGH: Final = 24  # the fewest samples to base a finding on
_BLOCKED: Final = 0.3  # waiting inside samples for a larger share of the time is too much
_COSTLY: Final = 0.001  # seconds; a sample or a batch of indices that takes less time is cheap
_MOSTLY: Final = 0.35  # a line counts if a worker spends a larger share of its time there
_FIRST: Final = 4  # the fewest batches in a run to base a finding on
_TIMES: Final = 2  # the first batch may take this many times as long as without workers
_SHARE: Final = 0.4  # a sampler is slow if it takes a larger share of the time between two batches
# The workers do too much if they compute this many times as long as main does without them. The
# ratio is 2.1 for two workers that decode the same groups of rows, and at most 1.1 for 48 healthy
# loaders, if their samples aren't cheap.
_REPEATED: Final = 1.6
# Workers that stay have to save a larger share of the computing. Two workers that decode everything
# in the first of two epochs save half of it.
_SAVED: Final = 0.25
_REMEMBERED: Final = 5  # drawing a sample again has to be this many times as fast
_WAITED: Final = 0.4  # the fewest seconds that the loop has to wait in an epoch
_ONE: Final = 0.3  # the largest share of the loop's waiting that a single sample may cause
# The average worker may be idle for a share of the time that's this much larger than the busiest
# worker's share. If one of two workers has three times as much to do as the other, the difference
# is a third, which is too much.
_UNEVEN: Final = 0.3
_CLIMBS: Final = 5  # the last samples have to take this many times as long as the first ones
# A sample in the middle has to take more than this share of the last sample's time, and less than 1
# minus this share.
_HALFWAY: Final = 0.25
_DRAWING: Final = 0.1  # the fewest seconds that count if the sampler draws samples itself
# The fewest seconds by which the first batch has to be late. Forking two workers took 1.1 s on a
# busy machine, which does no harm.
_LATE_START: Final = 2.0
_PINNED: Final = 100_000  # bytes; copying fewer takes no time worth saving
_CARRIED: Final = 1_000_000  # bytes in each batch; pickling fewer takes no time worth saving
_START: Final = 1.0  # seconds; a shorter wait for pickles or the sampler doesn't matter


def recomputed(evidence: Evidence) -> Iterator[Finding]:
    """Find work that every sample repeats, with the same result."""
    found, samples = evidence.recomputed, evidence.samples
    if found is None or found.values != 1 or samples is None:
        return  # if there are several values, the failure mode `wrong_chunks` explains them
    yield _finding(
        f"A sample takes {duration(samples.typical)}, and one call is {100 * found.share:.0f} "
        f"percent of that. For {found.samples} different samples, it returned the same "
        f"{size(found.bytes)}.",
        found.line,
        "Call it once, in `__init__` or when a worker draws its first sample, and keep the result.",
        cause="Each sample does the same work again, such as decompressing a whole archive, and "
        "throws the result away.",
    )


def unpinned(evidence: Evidence) -> Iterator[Finding]:
    """Find batches with tensors that `pin_memory=True` doesn't pin."""
    found, parts = evidence.pinned, evidence.parts
    if found is None or not found.inside or found.bytes < _PINNED:
        return
    yield _finding(
        f"`pin_memory=True` pins {found.tensors - found.missed} of the {found.tensors} tensors in "
        f"a batch. It leaves out {size(found.bytes)}, which are inside `{found.inside}`.",
        f"collate_fn={parts.collate}" if parts.collate else parts.where,
        f"Give `{found.inside}` a method `pin_memory(self)` that pins its tensors and returns the "
        "object. Or put the tensors into a dict or a tuple.",
        cause="torch looks for tensors in dicts, lists, and tuples, and passes any other object "
        "through without a warning. A copy of such a tensor to the GPU isn't asynchronous, even "
        "with `non_blocking=True`.",
    )


def pickled(evidence: Evidence) -> Iterator[Finding]:
    """Find a dataset that takes a long time to send to its workers."""
    parts, run, travel = evidence.parts, evidence.run, evidence.travel
    if travel is None or parts.method not in ("spawn", "forkserver"):
        return
    if travel.seconds * parts.workers < _START or not run.batches:
        return
    when = "once, because workers stay" if parts.persistent else "at the start of every epoch"
    yield _finding(
        f"The first batch arrived after {duration(run.first)}. The dataset is pickled for each "
        f"worker, {when}. The pickle is {size(travel.bytes)} and takes {duration(travel.seconds)} "
        f"to write and read, for each of {parts.workers} workers.",
        f"{parts.dataset}, which {parts.method} workers get as a pickle",
        "Keep a few large arrays instead of many objects, or only the path of a file that the "
        "worker opens."
        + ("" if parts.persistent else " With `persistent_workers=True`, you pay only once."),
        cause="A worker that isn't forked gets the dataset as a pickle, object by object.",
    )


def dealing(evidence: Evidence) -> Iterator[Finding]:
    """Find a sampler that takes a long time, before the first batch or for each batch."""
    parts, samples = evidence.parts, evidence.samples
    if samples is None:
        return
    drawn, each = samples.drawn_by_sampler, samples.dealing_each
    if parts.workers and each > max(_COSTLY, _SHARE * evidence.run.pace) and evidence.run.pace:
        yield _finding(
            f"For each batch, the sampler works for {duration(each)} in main. A batch arrives "
            f"every {duration(evidence.run.pace)}.",
            f"{parts.sampler}.__iter__",
            "Compute the order of the epoch once, at the start of `__iter__`, and only slice it "
            "from then on.",
            cause="The sampler runs in main, between the batches, and no number of workers makes "
            "it any faster.",
        )
        return
    draws = drawn >= _ENOUGH and samples.dealing > _DRAWING
    if not draws and samples.dealing < max(_START, _AS_MUCH * samples.typical):
        return
    yield _finding(
        f"Before the first batch, the sampler works in main for {duration(samples.dealing)} while "
        f"the workers wait. A sample takes {duration(samples.typical)}."
        + (f" The sampler itself draws {drawn} samples from the dataset." if drawn else ""),
        f"{parts.sampler}.__iter__",
        "Compute the order once, in `__init__`, from what you know without drawing samples, "
        "such as a table of labels or lengths.",
        cause="In each epoch, every worker waits until the sampler has computed its order.",
    )


def climbing(evidence: Evidence) -> Iterator[Finding]:
    """Find samples that take longer the later they are in the dataset, at about the same size."""
    found, samples = evidence.reordered, evidence.samples
    if found is None or samples is None or not found.depths:
        return
    first, middle, last = found.depths
    if last < first + _COSTLY or last < _CLIMBS * first:
        return
    if not _HALFWAY < middle / last < 1 - _HALFWAY:
        return
    yield _finding(
        f"A sample at the beginning of the dataset takes {duration(first)} of CPU time, one in the "
        f"middle {duration(middle)}, and one at the end {duration(last)}, though all are about as "
        "large.",
        samples.busiest or evidence.parts.where,
        "Note once where each sample begins, and go there at once. If the file is compressed as a "
        "whole, store the samples uncompressed, or compress them one by one.",
        cause="To get to a sample, the dataset reads everything that comes before it, each time.",
    )


def uneven(evidence: Evidence) -> Iterator[Finding]:
    """Find a worker that does much more than its equal share of the work."""
    run, parts, samples = evidence.run, evidence.parts, evidence.samples
    if not run.well or parts.workers < 2 or len(run.idle) != parts.workers or samples is None:
        return
    if run.waited_for < max(_WAITED, samples.slowest / _ONE):
        return  # the loop hardly waited, or perhaps mostly for a single sample
    # Require a difference in both halves of the epoch, because a single batch may explain one half.
    if any(sum(part) / len(part) - min(part) < _UNEVEN for part in zip(*run.idle, strict=True)):
        return
    cause = "Some workers get more data than others, or data that takes longer."
    fix = "Divide the data by what it costs, in smaller pieces: every `num_workers`-th sample."
    if not parts.stream:
        cause = (
            "torch deals batches out in turn, so each worker gets one of every "
            f"{parts.workers}. If cheap and expensive batches alternate, the same worker gets all "
            "the expensive ones."
        )
        fix = "Mix the order in which the sampler deals out cheap and expensive batches."
    shares = [
        f"W{number} for {100 * sum(each) / 2:.0f} percent" for number, each in enumerate(run.idle)
    ]
    yield _finding(
        f"In an epoch, the loop waited {duration(run.waited_for)} for batches. Of that time, some "
        f"workers had nothing left to do: {', '.join(shares)}.",
        parts.where if parts.stream else f"{parts.sampler}.__iter__",
        fix,
        cause=cause,
    )


def slower(evidence: Evidence) -> Iterator[Finding]:
    """Find workers that make the loader slower, or wait so much that it's hardly faster."""
    parts, paces, samples = evidence.parts, evidence.workerless, evidence.samples
    if paces is None or samples is None:
        return
    # Count only waiting inside a sample, because workers also wait until main asks for a batch.
    waited = paces.blocked + paces.inside - 1
    blocked = in_vain(paces, parts.workers) and waited > _BLOCKED and samples.typical > _COSTLY
    ours, alone = paces.both
    lost = (ours - alone) * (parts.batches or evidence.run.batches)
    slower = paces.times >= SLOWER and lost > LOST
    if not slower and not (blocked and parts.workers > 1):
        return
    cause = (
        "The workers save less time than it takes to send their batches, or they block each other."
    )
    fix = "Use `num_workers=0`, or let `dltutor workers` find out how many are worth it."
    said = (
        f"Once {parts.workers} workers have started, a batch takes {duration(ours)}. Without "
        f"workers, it takes {duration(alone)}."
    )
    if blocked:
        said += f" The workers spent {100 * waited:.0f} percent of their time waiting."
    stands = blocked and paces.share > _MOSTLY
    if stands:
        said += f" One was at {paces.line} for {100 * paces.share:.0f} percent of its time."
        cause = (
            "Only one worker at a time gets past this line. They may share a lock, a server, or "
            "something else."
        )
        fix = "Hold the lock only while shared state changes, or give each worker its own."
    where = paces.line if stands else f"num_workers={parts.workers}"
    shown = stands or slower
    yield _finding(said, where, fix, cause=cause, certainty="shown" if shown else "likely")


def redone(evidence: Evidence) -> Iterator[Finding]:
    """Find workers that all do the same work."""
    run, alone, parts = evidence.run, evidence.alone, evidence.parts
    if alone is None or parts.workers < 2 or not (run.well and alone.well):
        return
    if parts.method != "fork":
        return  # workers of another method import torch first, and that counts, too
    if parts.stream:
        each, once = (one.computed / max(sum(one.counted), 1) for one in (run, alone))
        fix = (
            "Divide the data before anything expensive is done: let each worker skip what isn't "
            "its own first, and read and decode only the rest."
        )
    else:  # leave out what each worker does once, in its first samples
        each, once = run.later, alone.later
        fix = (
            "Batches are dealt out to the workers in turn. Deal them so that the samples that "
            "share something expensive, such as a file or a group of rows, go to the same worker, "
            "or keep it in a form that takes less work."
        )
    if once < _COSTLY or each < _REPEATED * once or sum(run.counted) < _ENOUGH:
        return
    yield _finding(
        f"For each sample, the workers together compute for {duration(each)}. Without workers, "
        f"main computes for {duration(once)}.",
        parts.where,
        fix,
        cause="The workers do the same work several times. Each one reads or decodes what another "
        "one delivers, and throws it away.",
        certainty="shown" if parts.stream else "likely",
    )


def carried(evidence: Evidence) -> Iterator[Finding]:
    """Find large arrays that the first two batches both carry."""
    run, parts = evidence.run, evidence.parts
    path, amount = run.carried
    if not parts.workers or amount < max(_CARRIED, run.batch_bytes):
        return
    yield _finding(
        f"The first two batches both carry the same {size(amount)} of arrays, such as `{path}`. "
        f"A batch's tensors are {size(run.batch_bytes)}.",
        parts.where,
        "Return only what your loop needs, as tensors and numbers. Leave out references to larger "
        "objects, such as the graph or the file that a sample comes from.",
        cause="A worker pickles each batch with everything that it refers to, and main unpickles "
        "it, whether the loop uses it or not.",
    )


def works_again(evidence: Evidence) -> Iterator[Finding]:
    """Find new workers that do in each epoch what workers that stay do only once."""
    run, stayed, samples = evidence.run, evidence.stayed, evidence.samples
    each = run.computed / max(run.total, 1)
    if stayed is not None and sum(stayed.finished) > 1:
        once = stayed.computed / stayed.total
        if once > (1 - _SAVED) * each:
            return
        said = f"If they stay after the first of {sum(stayed.finished)} epochs, that's "
        said += f"{duration(once)}."
    elif samples is not None and _forgets(evidence):
        said = f"In main, a sample takes {duration(samples.typical)} at first, and "
        said += f"{duration(samples.redrawn)} when it's drawn again."
    else:
        return
    yield _finding(
        f"For each sample, the workers together compute for {duration(each)}. {said}",
        evidence.parts.where,
        "Fill the cache in main, before the workers are forked. Or use `persistent_workers=True`, "
        "so that each worker fills it only once.",
        cause="What a worker keeps after making it, for example decoded files in a cache, is lost "
        "when the epoch ends. The next epoch's workers, and each of them, make it again.",
    )


def _forgets(evidence: Evidence) -> bool:
    # Return whether new workers compute, in each epoch, what one process computes only once.
    run, parts, samples = evidence.run, evidence.parts, evidence.samples
    if samples is None or parts.stream or parts.persistent or parts.method != "fork":
        return False  # workers of another method import torch again in each epoch
    if len(run.counted) < 2 or samples.redrawn > samples.typical / _REMEMBERED:
        return False
    # A first draw may also take longer because a disk is slow, but then the workers compute little.
    saved = samples.typical * run.counted[1]
    return run.finished[1] and saved > _WAITED and run.anew > saved / 2


def starts(evidence: Evidence) -> Iterator[Finding]:
    """Find workers that take a long time to start in each epoch."""
    run, alone, parts = evidence.run, evidence.alone, evidence.parts
    if alone is None or not (run.well and alone.well and alone.batches) or parts.method != "fork":
        return
    if parts.persistent or run.batches < _FIRST:
        return
    # On a busy machine, one run may be late by chance.
    others = evidence.seeded, evidence.called_again, evidence.copied
    first = min(each.first for each in (run, *others) if each is not None and each.batches)
    if first - _TIMES * max(alone.first, run.pace) < _LATE_START:
        return
    yield _finding(
        f"The first batch arrived {duration(first)} after the loop asked for it. Without "
        f"workers, it arrives after {duration(alone.first)}. Each epoch starts new workers and "
        "waits again.",
        f"worker_init_fn={parts.init}" if parts.init else parts.where,
        "Do this preparation only once. If its result can be shared, do it in main before the "
        "workers are forked. If not, use `persistent_workers=True`.",
        cause="Each worker prepares something before its first sample, and loses it when the epoch "
        "ends.",
    )
