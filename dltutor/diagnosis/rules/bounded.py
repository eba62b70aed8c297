"""Recognize failure modes in which memory or open files pile up."""

from __future__ import annotations

from typing import Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Finding
from dltutor.diagnosis.measures import Measures
from dltutor.observation.growth import LATE
from dltutor.tables import MB, size


def prefetch_budget(evidence: Evidence) -> Finding | None:
    """Workers load a lot ahead of the loop, though two batches per worker are fast enough."""
    ahead, parts = evidence.ahead, evidence.parts
    if ahead is None or ahead.held < 16 or ahead.held < 3 * ahead.held_by_two:
        return None
    pairs = ((ahead.seconds_by_two, ahead.seconds), (ahead.steady_by_two, ahead.steady))
    slower = max(by_two / max(seconds, 1e-9) for by_two, seconds in pairs) - 1
    if slower > _WORTH:
        return None  # loading that far ahead makes the loop faster
    why = "because the batches arrive just as fast"
    if slower > _NOISE:
        why = f"which saves {ahead.held - ahead.held_by_two:.0f} MB and is {slower:.0%} slower"
    return Finding(
        f"With prefetch_factor={parts.prefetch} and {parts.workers} workers, {ahead.held:.0f} MB "
        f"of batches were in shared memory after the loop had taken one. With prefetch_factor=2, "
        f"it was {ahead.held_by_two:.0f} MB. A batch took {ahead.seconds * 1000:.1f} ms, and "
        f"{ahead.seconds_by_two * 1000:.1f} ms with 2.",
        f"{parts.loader}(prefetch_factor={parts.prefetch})",
        f"Use prefetch_factor=2 instead of {parts.prefetch}, {why}. If a float tensor holds "
        "what used to be bytes, send the bytes.",
    )


_WORTH: Final = 0.35  # a larger gain in speed is a reason to load that far ahead
_NOISE: Final = 0.1  # a smaller gain may be chance


def view_of_a_giant(evidence: Evidence) -> Finding | None:
    """Batches take up much less shared memory when workers copy each tensor before sending it."""
    views, parts = evidence.views, evidence.parts
    if views is None or views.as_they_come - views.as_copies < 2:
        return None
    if views.as_they_come < 3 * views.as_copies:
        return None
    run = evidence.run
    return Finding(
        f"A batch shows {_size(run.batch_bytes)} of data, but it arrived with storages of "
        f"{_size(run.storage_bytes)}. {views.batches} batches took up "
        f"{views.as_they_come:.1f} MB of shared memory, and only {views.as_copies:.1f} MB when "
        "each tensor was cloned before it was sent.",
        parts.where,
        f"Return a clone() of the slice that you cut in {parts.where}, because a slice shares "
        "the storage of the whole tensor.",
    )


def _size(count: int) -> str:
    return f"{count / MB:.1f} MB" if count >= MB else f"{count / 1024:.1f} kB"


# The fewest MB that matter, estimated for a worker that has read everything. The estimate is about
# 28 MB in the catalog's broken case, and about 15 MB with a few thousand strings, which do no harm.
_MATTERS: Final = 20.0


def copy_on_read(evidence: Evidence) -> Finding | None:
    """Workers copied the pages with a container's objects, even with garbage collection off."""
    memory = evidence.memory
    if memory is None or not memory.read or evidence.parts.method != "fork":
        return None
    path, kind, length, started, ended = memory.read[0]
    copied, share = memory.copied_frozen, ended - started
    # Estimate how much a worker will have copied once it has read everything.
    whole = copied / max(share, 0.01)
    if share < 0.04 or copied < 3 or whole < _MATTERS:
        return None
    return Finding(
        f"Even with the garbage collector off, each worker copied {copied:.0f} MB of main's memory "
        f"while it drew samples from {evidence.parts.dataset}. It reads `{path}`, a {kind} of "
        f"{length:,} Python objects. Of the pages that hold them, it had copied {started:.0%} at "
        f"the start and {ended:.0%} at the end.",
        f"{path} ({evidence.parts.where})",
        f"Store what's in `{path}` without Python objects: strings as packed bytes with an "
        "array of offsets, numbers as a tensor or a numpy array, tables as Arrow.",
    )


def gc_dirties_pages(evidence: Evidence) -> Finding | None:
    """Workers copy main's pages, but far fewer if the garbage collector skips main's objects."""
    memory = evidence.memory
    if memory is None or memory.copied_frozen < 0 or evidence.parts.method != "fork":
        return None
    copied, frozen = memory.copied, memory.copied_frozen
    if memory.copied_in_loop >= 0:  # your loop may call gc.freeze() itself
        copied = min(copied, memory.copied_in_loop)
    # Require more copied MB after a single collection, because that may happen by chance.
    least = 10 if memory.collections > 1 else 32
    if not memory.collections or copied - frozen < least or frozen > copied / 2:
        return None
    times = "once" if memory.collections == 1 else f"{memory.collections} times"
    return Finding(
        f"Each worker copied {copied:.0f} MB of main's memory, but only {frozen:.0f} MB in a run "
        "where main called gc.freeze() before it forked the workers. In one worker, the garbage "
        f"collector went through all objects {times}.",
        memory.collected_at,
        f"Remove the garbage collection from {memory.collected_at}"
        ", or call gc.freeze() before the workers start and gc.unfreeze() after that.",
    )


def growing_cache(evidence: Evidence) -> Finding | None:
    """Workers grow with each new sample that they draw, because something keeps samples."""
    memory, parts = evidence.memory, evidence.parts
    if memory is None or memory.late_as_it_is < 3:
        return None
    late = memory.late_as_it_is
    each = late / memory.late_samples
    kept = [path for path in memory.grown if path[3] is None]
    bounded = [path for path in memory.grown if path[3] is not None]
    # If collecting garbage or returning free blocks helps, blame cycles or holes in the heap, not a
    # cache.
    if min(memory.late_collected, memory.late_returned) < 0.6 * late:
        return None
    renewed = 0 <= memory.late_repeated < 0.4 * late
    if bounded or not (kept or renewed):
        return None
    samples = parts.length or 0
    if not parts.persistent:
        samples //= max(parts.workers, 1)
    whole = max(each * samples, late)
    if whole < (12 if kept else LATE):
        return None
    growth = (
        f"After it had settled, each worker grew by {late:.0f} MB in {memory.late_samples} samples"
    )
    less = (
        f", but only by {memory.late_repeated:.0f} MB when it drew the same samples over and over"
        if renewed
        else ""
    )
    path, kind = (kept[0][0], kept[0][1]) if kept else ("", "")
    what = f" `{path}`, a {kind}, gained elements with each new sample." if kept else ""
    end = f" By the end of an epoch, that's {whole:,.0f} MB in each worker." if samples else ""
    return Finding(
        f"{growth}{less}. Most of it stays after a garbage collection.{what}{end}",
        path or parts.where,
        (f"Remove `{path}` from the workers, or limit its size" if path else "Keep no samples")
        + ". The operating system already caches files for all workers. Decode once, into a file "
        "that the workers map, or into one tensor before the loader starts.",
        certainty="shown" if renewed and kept else "likely",
    )


_LARGE: Final = 64 * MB  # bytes; a smaller copy in each worker does no harm


def memmap_copied(evidence: Evidence) -> Finding | None:
    """The pickle that each worker gets has the content of a memory-mapped file."""
    travel, parts = evidence.travel, evidence.parts
    if travel is None or parts.method not in ("spawn", "forkserver"):
        return None
    # If the pickle is smaller than the array, the dataset leaves the array out.
    mapped = [each for each in travel.mapped if _LARGE <= each[1] <= travel.bytes]
    if not mapped:
        return None
    path, held = mapped[0]
    return Finding(
        f"In main, `{path}` maps {size(held)} of a file. Each of the {parts.workers} workers "
        f"gets its own copy of that, in a pickle of {size(travel.bytes)}.",
        ", ".join(f"`{each}`" for each, _ in mapped),
        f"Keep the path of the file in {parts.dataset}, and open the `np.memmap` in each "
        "worker, on first use.",
    )


def kept_batches(evidence: Evidence) -> Finding | None:
    """The loop still holds earlier batches in memory, and more and more of them."""
    parts, again = evidence.parts, evidence.called_again
    if not (parts.loop and parts.workers):
        return None
    # If a loop keeps a little of each batch, that may show only after several calls.
    runs = [run for run in (evidence.run, again) if run is not None and _keeps_more_and_more(run)]
    for run in runs:
        # Count only the bytes of the tensors, because storages that are larger than their tensors
        # are a different failure mode.
        kept = min(run.kept_bytes, run.kept * run.batch_bytes or run.kept_bytes) / MB
        whole = kept / run.batches * max(parts.batches or 0, run.batches)
        if kept < 4 or whole < 8 or (run is again and run.kept <= max(map(len, run.passes))):
            continue
        growing = f"Over an epoch, that's {whole:,.0f} MB."
        if run is again:
            growing = f"That's more than one of these {len(run.passes)} epochs has."
        return Finding(
            f"After {run.batches} batches, your loop still held the memory of {run.kept} that it "
            f"had taken three or more batches earlier: {kept:.0f} MB. {growing} A loop that lets "
            "go of its batches holds none.",
            "your training loop",
            "If the loop collects something, keep a number from .item() or a copy from .clone(). "
            "Call detach() on anything with a graph, and validate under torch.no_grad().",
        )
    return None


def _keeps_more_and_more(run: Measures) -> bool:
    # Return whether the loop kept more batches at the end than earlier. A loop that didn't may only
    # have a buffer of a fixed size.
    batches, kept = run.batches, run.kept
    earlier = [count for at, count in run.kept_then if at <= 0.7 * batches]
    return kept >= 6 and bool(earlier) and kept > 1.25 * earlier[-1]


def reference_cycle(evidence: Evidence) -> Finding | None:
    """Workers hold a lot of memory that a garbage collection after each batch frees."""
    memory = evidence.memory
    if memory is None or memory.peak_collected < 0:
        return None
    peak, collected = memory.peak_as_it_is, memory.peak_collected
    if peak - collected < 10 or collected > 0.5 * peak:
        return None
    if memory.peak_returned >= 0 and memory.peak_returned < 0.5 * peak:
        return None  # the C library holds the memory
    return Finding(
        f"Each worker grew by {peak:.0f} MB in {memory.samples} samples, but by {collected:.0f} MB "
        "with a gc.collect() after each batch. So it was holding reference cycles.",
        evidence.parts.where,
        f"Find the cycle in what {evidence.parts.where} makes: a part that holds the whole, a "
        "caught exception, or a bound method that its owner keeps. Give the part only what it "
        "needs, or a weakref.ref.",
    )


_ENOUGH: Final = 16  # samples from one worker; with fewer, growth may be only start-up


_MUCH: Final = 200.0  # MB that a worker grows by before its heap levels off; less does no harm
# A heap has leveled off if later epochs add less than this share of the growth that the first one
# has after a third of its samples.
_LEVELED: Final = 0.5
# Samples, at one tensor each, before a heap levels off (see dltutor/failures/heap_growth.py).
_LEVEL: Final = 128


def heap_growth(evidence: Evidence) -> Finding | None:
    """Workers grow, but much less when freed blocks go back to the operating system."""
    memory = evidence.memory
    if memory is None or memory.peak_returned < 0:
        return None
    peak, returned = memory.peak_as_it_is, memory.peak_returned
    late = memory.late_as_it_is
    if peak - returned < 24 or returned > 0.4 * peak or late < 10:
        return None
    if memory.samples < _ENOUGH or late / memory.late_samples * _LEVEL < _MUCH:
        return None  # there are too few samples to tell, or growth levels off before it matters
    if 0 <= memory.later_epochs < _LEVELED * late:
        return None  # in later epochs, the same workers grow much less
    if memory.late_returned > 0.4 * late or memory.peak_collected < 0.6 * peak:
        return None
    return Finding(
        f"Each worker grew by {peak:.0f} MB in {memory.samples} samples, {late:.0f} MB of it after "
        f"the first third. With mallopt(M_MMAP_THRESHOLD, 65536), it grew by {returned:.0f} MB. "
        "Garbage collection doesn't help, because the memory is freed but never reused.",
        evidence.parts.where,
        "Call mallopt(M_MMAP_THRESHOLD, 65536) in worker_init_fn, or set "
        "MALLOC_MMAP_THRESHOLD_=65536 in the environment. Or write into buffers that each worker "
        "makes once.",
    )


def shm_exhausted(evidence: Evidence) -> Finding | None:
    """The run reported that shared memory ran out, but a run that needs less gets through."""
    run, lighter, parts = evidence.run, evidence.lighter, evidence.parts
    ways = (
        ("one worker and one batch ahead", lighter),
        ("numpy arrays instead of tensors", evidence.arrays),
    )
    through = [(way, each.batches) for way, each in ways if each and each.well and each.batches]
    if run.well or "shm_exhausted" not in run.named or not through:
        return None
    ahead = parts.workers * parts.prefetch
    size = lighter.batch_bytes / MB if lighter is not None else 0
    weighs = f" A batch is {size:.1f} MB, and {ahead} are loaded ahead." if size else ""
    got = ", and ".join(f"with {way}, it got through {count} batches" for way, count in through)
    ended = run.error or f"it {run.end}, and a worker wrote that no space was left"
    return Finding(
        f"/dev/shm is {parts.shm:,.0f} MB in all.{weighs} The run ended after {run.batches} "
        f"batches: {ended[:160]}. But {got}.",
        parts.where,
        f"Give the container a larger /dev/shm (`docker run --shm-size`), or use less of it: "
        f"prefetch_factor=1 instead of {parts.prefetch}, bytes instead of floats, smaller batches.",
        ends=True,
    )


def too_many_open_files(evidence: Evidence) -> Finding | None:
    """File descriptors run out, or will, unless the loop keeps no batch or the limit is higher."""
    run, parts = evidence.run, evidence.parts
    kept, more = evidence.nothing_kept, evidence.more_files
    let_go = kept is not None and kept.well
    if run.well:
        by_the_end = evidence.files_by_the_end
        if not let_go or by_the_end < 0.9 * parts.files:
            return None
        return Finding(
            f"After {run.batches} batches, main had {run.files} more file descriptors than at the "
            f"first one, because your loop still held {run.kept} batches. By the end of the epoch, "
            f"that's {by_the_end:,.0f}, and a process may have {parts.files:,}.",
            "your training loop",
            _FIX,
        )
    with_more = more is not None and more.well
    if "too_many_open_files" not in run.named or not (let_go or with_more):
        return None
    said = f"A process may have {parts.files:,} file descriptors here. The run ended after "
    said += f"{run.batches} batches: {run.error[:160] or run.end}."
    if kept is not None and let_go:
        said += f" A loop that keeps nothing got through {kept.batches} batches."
    elif run.tensors:
        said += f" A batch has {run.tensors:.0f} tensors."
    if more is not None and with_more:
        said += f" With a higher limit, it got through {more.batches}."
    return Finding(said, "your training loop" if let_go else run.line, _FIX, ends=True)


_FIX: Final = (
    "If the loop collects something, keep a copy: `labels.clone()` or `labels.tolist()`. Pack the "
    "many tensors of a batch into one, and close the files that you open. Only then raise the "
    "limit with `ulimit -n`."
)
