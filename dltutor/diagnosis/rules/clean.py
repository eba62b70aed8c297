"""Failure modes in which something is left behind."""

from __future__ import annotations

from dltutor.diagnosis.evidence import Evidence, Fit


def leftover_iterator(evidence: Evidence) -> Fit | None:
    """Workers are alive when the loop has returned, of an iterator that nothing wants."""
    left = evidence.leftover
    if left is None or not left.alive or not (left.freed or left.held):
        return None
    said = f"{left.alive} workers are alive after the loop has returned. "
    if left.held:
        said += f"The traceback of a {left.kind} that is kept holds their iterator."
    elif left.kind:
        said += f"A {left.kind} that the loop caught and their iterator hold each other: the "
        said += "garbage collector frees them, and nothing else does."
    else:
        said += (
            "Their iterator is garbage in a reference cycle: only the garbage collector frees it."
        )
    samples = evidence.samples
    where = (
        next((line for _, kind, _, line in samples.failed if kind == left.kind), "")
        if (samples)
        else ""
    )
    return Fit("memory", "shown", said, where)


def orphaned_segments(evidence: Evidence) -> Fit | None:
    """A run that was killed with all its processes left batches behind."""
    segments = evidence.segments
    if segments is None or not segments.left:
        return None
    # Under the other strategy one is left now and then: killed before its name was taken away.
    if "file_system" not in (segments.in_workers, segments.in_main):
        return None
    who = "The workers share" if segments.in_workers == "file_system" else "Main shares"
    init = evidence.parts.init
    return Fit(
        "memory",
        "shown",
        f"{who} batches by the strategy file_system. A run with {segments.batches} batches in hand "
        f"was killed with all its processes, and left {segments.left} segments in /dev/shm that "
        "belong to nobody. They have been removed.",
        where=f"worker_init_fn={init}" if init and segments.in_main != "file_system" else "",
        fix="Leave the sharing strategy at file_descriptor"
        + (f": take set_sharing_strategy out of {init}. " if init else ". ")
        + "Against too many open files keep fewer tensors, or raise the limit.",
    )
