"""Recognize failure modes in which a run leaves something behind."""

from __future__ import annotations

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Finding


def leftover_iterator(evidence: Evidence) -> Finding | None:
    """Workers are still alive after the loop has returned, and nothing needs their iterator."""
    left = evidence.leftover
    if left is None or not left.alive or not (left.freed or left.held):
        return None
    said = f"{left.alive} workers are still alive after your loop has returned. "
    if left.held:
        said += f"Your program keeps a {left.kind}, and its traceback holds their iterator."
    elif left.kind:
        said += f"A {left.kind} that the loop caught and their iterator refer to each other, so "
        said += "only the garbage collector can free them."
    else:
        said += "Their iterator is in a reference cycle, so only the garbage collector can free it."
    failed = evidence.samples.failed if evidence.samples is not None else ()
    return Finding(said, next((line for _, kind, _, line in failed if kind == left.kind), ""))


def orphaned_segments(evidence: Evidence) -> Finding | None:
    """A run left batches in `/dev/shm` when the doctor killed all its processes at once."""
    segments = evidence.segments
    if segments is None or not segments.left:
        return None
    # Ignore the strategy file_descriptor, which leaves segments only if a process dies before it
    # unlinks them.
    if "file_system" not in (segments.in_workers, segments.in_main):
        return None
    who = "The workers share" if segments.in_workers == "file_system" else "Main shares"
    init = evidence.parts.init
    return Finding(
        f"{who} batches with the strategy file_system. The doctor killed all processes of a run "
        f"with {segments.batches} batches in hand. It left {segments.left} segments in /dev/shm "
        "that no process owned, and the doctor removed them.",
        f"worker_init_fn={init}" if init and segments.in_main != "file_system" else "",
        "Leave the sharing strategy at file_descriptor"
        + (f": remove set_sharing_strategy from {init}. " if init else ". ")
        + "If you run into too many open files, keep fewer tensors or raise the limit.",
    )
