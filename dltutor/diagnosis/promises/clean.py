"""Find what a run leaves behind."""

from __future__ import annotations

from collections.abc import Iterator

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.promises.broken import Broken


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
