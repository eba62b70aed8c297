"""Failure modes in which memory or open files pile up."""

from __future__ import annotations

from typing import Final

from dltutor.diagnosis.evidence import Evidence, Fit
from dltutor.tables import MB


def prefetch_budget(evidence: Evidence) -> Fit | None:
    """Much lies ahead of the loop, and two batches for each worker come as fast."""
    ahead, parts = evidence.ahead, evidence.parts
    if ahead is None or ahead.held < 16 or ahead.held < 3 * ahead.held_by_two:
        return None
    if ahead.seconds_by_two > 1.35 * ahead.seconds or ahead.steady_by_two > 1.35 * ahead.steady:
        return None  # it is good for something
    return Fit(
        "memory",
        "shown",
        f"With prefetch_factor={parts.prefetch} and {parts.workers} workers, {ahead.held:.0f} MB "
        f"of batches lay in shared memory when the loop had taken one; with 2, "
        f"{ahead.held_by_two:.0f} MB. A batch took {ahead.seconds * 1000:.1f} ms, and "
        f"{ahead.seconds_by_two * 1000:.1f} ms with 2.",
        where=f"{parts.loader}(prefetch_factor={parts.prefetch})",
        fix=f"Take prefetch_factor=2 instead of {parts.prefetch}: the batches come as fast. If a "
        "float tensor holds what were bytes, send the bytes.",
    )


def view_of_a_giant(evidence: Evidence) -> Fit | None:
    """Batches take much less shared memory when their tensors are copied before they are sent."""
    views, parts = evidence.views, evidence.parts
    if views is None or views.as_they_come - views.as_copies < 2:
        return None
    if views.as_they_come < 3 * views.as_copies:
        return None
    run = evidence.run
    return Fit(
        "memory",
        "shown",
        f"A batch shows {_size(run.batch_bytes)} and came with storages of "
        f"{_size(run.storage_bytes)}. With {views.batches} batches kept, "
        f"{views.as_they_come:.1f} MB lay in shared memory; {views.as_copies:.1f} MB when each "
        "tensor was cloned before it was sent.",
        where=parts.where,
        fix=f"Return a clone() of what is cut out in {parts.where}: the slice shares the storage "
        "of the whole.",
    )


def _size(count: int) -> str:
    return f"{count / MB:.1f} MB" if count >= MB else f"{count / 1024:.1f} kB"


_MATTERS: Final = 20.0  # MB; the course's case has 28, and lists of some thousand texts 15


def copy_on_read(evidence: Evidence) -> Fit | None:
    """Pages with a container's objects were copied, and the collector had no part in it."""
    memory = evidence.memory
    if memory is None or not memory.read or evidence.parts.method != "fork":
        return None
    path, kind, length, started, ended = memory.read[0]
    copied, share = memory.copied_frozen, ended - started
    # What it will be when all is read, as far as the part that has been copied tells.
    whole = copied / max(share, 0.01)
    if share < 0.04 or copied < 3 or whole < _MATTERS:
        return None
    return Fit(
        "memory",
        "shown",
        f"With the collector off, each worker still copied {copied:.0f} MB of main's memory while "
        f"it drew {evidence.parts.dataset}'s samples. At its start {started:.0%} of the pages with "
        f"the elements of `{path}` were its own, at the end {ended:.0%}: a {kind} of {length:,} "
        "Python objects that the workers read.",
        where=f"{path} ({evidence.parts.where})",
        fix=f"Keep what is in `{path}` without Python objects: texts as packed bytes with an array "
        "of offsets, numbers as a tensor or a numpy array, tables as Arrow.",
    )


def gc_dirties_pages(evidence: Evidence) -> Fit | None:
    """Main's pages are copied, and are not where the collector does not know its objects."""
    memory = evidence.memory
    if memory is None or memory.copied_frozen < 0 or evidence.parts.method != "fork":
        return None
    copied, frozen = memory.copied, memory.copied_frozen
    if memory.copied_in_loop >= 0:  # a loop may freeze them itself
        copied = min(copied, memory.copied_in_loop)
    # One collection that comes by itself is a matter of luck.
    least = 10 if memory.collections > 1 else 32
    if not memory.collections or copied - frozen < least or frozen > copied / 2:
        return None
    times = "once" if memory.collections == 1 else f"{memory.collections} times"
    return Fit(
        "memory",
        "shown",
        f"Each worker made {copied:.0f} MB of main's memory its own; {frozen:.0f} MB in a run in "
        "which main called gc.freeze() before the workers were forked. The collector went through "
        f"all objects {times} in one worker.",
        where=memory.collected_at,
        fix=f"Take the collection out of {memory.collected_at}"
        ", or call gc.freeze() before the workers start and gc.unfreeze() after it.",
    )


def growing_cache(evidence: Evidence) -> Fit | None:
    """Workers grow with each sample that is new to them, and with nothing else."""
    memory, parts = evidence.memory, evidence.parts
    if memory is None or memory.late_as_it_is < 3:
        return None
    late = memory.late_as_it_is
    each = late / memory.late_samples
    kept = [path for path in memory.grown if path[3] is None]
    bounded = [path for path in memory.grown if path[3] is not None]
    # Cycles would go with a collection, and a heap with its holes.
    if min(memory.late_collected, memory.late_returned) < 0.6 * late:
        return None
    renewed = 0 <= memory.late_repeated < 0.4 * late
    if bounded or not (kept or renewed):
        return None
    samples = parts.length or 0
    if not parts.persistent:
        samples //= max(parts.workers, 1)
    whole = max(each * samples, late)
    if whole < 12:
        return None
    growth = (
        f"Each worker grew by {late:.0f} MB in {memory.late_samples} samples, after it had settled"
    )
    less = (
        f"; by {memory.late_repeated:.0f} MB where it drew the same samples again and again"
        if renewed
        else ""
    )
    path, kind = (kept[0][0], kept[0][1]) if kept else ("", "")
    what = f" `{path}`, a {kind}, had more elements with each new sample." if kept else ""
    end = f" At the end of an epoch that is {whole:,.0f} MB in each." if samples else ""
    return Fit(
        "memory",
        "shown" if renewed and kept else "likely",
        f"{growth}{less}. A collection frees none of it.{what}{end}",
        where=path or parts.where,
        fix=(f"Take `{path}` out of the workers, or give it a bound" if path else "Keep no samples")
        + ": the kernel caches files for all of them. Decode once, into a file that is mapped, or "
        "into one tensor before the loader starts.",
    )


def kept_batches(evidence: Evidence) -> Fit | None:
    """The memory of earlier batches is still in use, of more and more of them."""
    run, parts = evidence.run, evidence.parts
    if not (parts.loop and parts.workers) or run.kept < 6 or not _goes_on(evidence):
        return None
    # Where a batch comes with more memory than it shows, that is another failure.
    kept = min(run.kept_bytes, run.kept * run.batch_bytes or run.kept_bytes) / MB
    whole = kept / run.batches * max(parts.batches or 0, run.batches)
    if kept < 4 or whole < 8:
        return None
    return Fit(
        "memory",
        "shown",
        f"When the loop had taken {run.batches} batches, it still held memory of {run.kept} that "
        f"it had taken three or more batches before: {kept:.0f} MB. In an epoch that is "
        f"{whole:,.0f} MB. A loop that lets go of them holds none.",
        where="your training loop",
        fix="Keep numbers, with .item(), and copies, with .clone(), of what the loop collects; "
        "detach() what has a graph, and validate under torch.no_grad().",
    )


def _goes_on(evidence: Evidence) -> bool:
    # A few that are kept, and no more after that, are a buffer.
    counts = [*evidence.run.kept_then, (evidence.run.batches, evidence.run.kept)]
    batches, kept = counts[-1]
    earlier = [count for at, count in counts if at <= 0.7 * batches]
    return bool(earlier) and kept > 1.25 * earlier[-1]


def reference_cycle(evidence: Evidence) -> Fit | None:
    """Workers hold much that a collection after each batch frees."""
    memory = evidence.memory
    if memory is None or memory.peak_collected < 0:
        return None
    peak, collected = memory.peak_as_it_is, memory.peak_collected
    if peak - collected < 10 or collected > 0.5 * peak:
        return None
    if memory.peak_returned >= 0 and memory.peak_returned < 0.5 * peak:
        return None  # the C library's own
    return Fit(
        "memory",
        "shown",
        f"Each worker grew by {peak:.0f} MB in {memory.samples} samples, and by {collected:.0f} MB "
        "with a gc.collect() after each batch: what it had done with referred to itself.",
        where=evidence.parts.where,
        fix=f"Find the cycle in what {evidence.parts.where} makes: a part that holds the whole, a "
        "caught exception, a bound method kept by its owner. Give the part what it needs, or a "
        "weakref.ref.",
    )


_ENOUGH: Final = 16  # samples of one worker in which growth can be told from a start


_LEVEL: Final = 128  # tensors sent, after which it levels off


def heap_growth(evidence: Evidence) -> Fit | None:
    """Workers grow, and do not where freed blocks go back to the system."""
    memory = evidence.memory
    if memory is None or memory.peak_returned < 0:
        return None
    peak, returned = memory.peak_as_it_is, memory.peak_returned
    late = memory.late_as_it_is
    if peak - returned < 24 or returned > 0.4 * peak or late < 10:
        return None
    if memory.samples < _ENOUGH or late / memory.late_samples * _LEVEL < 200:
        return None  # what a sample needs, not growth; or it levels off before it matters
    if memory.late_returned > 0.4 * late or memory.peak_collected < 0.6 * peak:
        return None
    return Fit(
        "memory",
        "shown",
        f"Each worker grew by {peak:.0f} MB in {memory.samples} samples, {late:.0f} MB of it after "
        f"a third of them, and by {returned:.0f} MB with mallopt(M_MMAP_THRESHOLD, 65536). A "
        "collection frees none of it: nothing is kept, freed memory is not used again.",
        where=evidence.parts.where,
        fix="Call mallopt(M_MMAP_THRESHOLD, 65536) in worker_init_fn, or set "
        "MALLOC_MMAP_THRESHOLD_=65536 in the environment; or write into buffers that each worker "
        "makes once.",
    )


def shm_exhausted(evidence: Evidence) -> Fit | None:
    """It said that shared memory was exhausted, and gets through where it needs less."""
    run, limits, parts = evidence.run, evidence.limits, evidence.parts
    if limits is None or run.well or "shm_exhausted" not in run.named:
        return None
    well = ("finished", "enough")
    ways = (
        ("one worker and one batch ahead", limits.lighter, limits.lighter_batches),
        ("numpy arrays instead of tensors", limits.arrays, limits.arrays_batches),
    )
    through = [(way, count) for way, end, count in ways if end in well and count]
    if not through:
        return None
    ahead = parts.workers * parts.prefetch
    size = limits.batch_bytes / MB
    weighs = f" A batch is of {size:.1f} MB, and {ahead} are loaded ahead." if size else ""
    got = " and ".join(f"with {way} it got through {count} batches" for way, count in through)
    ended = run.error or f"it {run.end}, and a worker wrote that there was no space left"
    return Fit(
        "ends",
        "shown",
        f"/dev/shm has {limits.room:,.0f} MB in all.{weighs} The run ended after {run.batches} "
        f"batches: {ended[:160]}; {got}.",
        where=parts.where,
        fix=f"Give the container a larger /dev/shm (`docker run --shm-size`), or need less: "
        f"prefetch_factor=1 instead of {parts.prefetch}, bytes instead of floats, smaller batches.",
    )


def too_many_open_files(evidence: Evidence) -> Fit | None:
    """It ran out of descriptors and does not with fewer or with more, or it will before the end."""
    run, limits, parts = evidence.run, evidence.limits, evidence.parts
    if limits is None or "shm_exhausted" in run.named:
        return None
    well = ("finished", "enough")
    let_go = limits.nothing_kept in well
    if run.well:
        by_the_end = run.files / max(run.batches, 1) * (parts.batches or run.batches)
        if not let_go or by_the_end < 0.9 * limits.files:
            return None
        return Fit(
            "memory",
            "shown",
            f"After {run.batches} batches main had {run.files} more descriptors than at the first, "
            f"of {run.kept} batches that the loop still held. At the end of the epoch that is "
            f"{by_the_end:,.0f}, and a process may have {limits.files:,}.",
            where="your training loop",
            fix=_FIX,
        )
    if "too_many_open_files" not in run.named or not (let_go or limits.with_more in well):
        return None
    said = f"A process may have {limits.files:,} descriptors here, and the run ended after "
    said += f"{run.batches} batches: {run.error[:160] or run.end}. "
    if let_go:
        said += f"A loop that keeps nothing got through {limits.nothing_kept_batches} batches"
    else:
        said += f"A batch has {run.tensors:.0f} tensors" if run.tensors else "It keeps no batches"
    if limits.with_more in well:
        said += f"; with {limits.more:,} descriptors it got through {limits.with_more_batches}"
    at = run.at[0] if run.at else ""
    return Fit("ends", "shown", f"{said}.", "your training loop" if let_go else at, _FIX)


_FIX = (
    "Keep copies, `labels.clone()`, or `labels.tolist()`, of what the loop collects; pack many "
    "tensors of a batch into one; close the files that you open. Then raise the limit: `ulimit -n`."
)
