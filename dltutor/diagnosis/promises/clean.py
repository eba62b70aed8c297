"""Find processes, workers, threads, and temporary files that a run leaves behind."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Finding

_finding: Final = partial(Finding, promise="clean")


def processes(evidence: Evidence) -> Iterator[Finding]:
    """Find processes that a worker starts and leaves running."""
    run, parts = evidence.run, evidence.parts
    if not run.left:
        return
    started = "process that a worker" if run.left == 1 else "processes that workers"
    yield _finding(
        f"{run.left} {started} had started kept running after the epoch, when all workers had "
        "exited.",
        f"worker_init_fn={parts.init}" if parts.init else parts.where,
        "End what a worker starts with `multiprocessing.util.Finalize(None, stop, "
        "exitpriority=10)`, or have the child exit when its standard input closes.",
        cause="Before Python 3.13, a worker exits without running `atexit` functions, and a "
        "child process that nothing else ends keeps running without it.",
    )


def workers(evidence: Evidence) -> Iterator[Finding]:
    """Find a loop that leaves more workers running each time that it runs."""
    left, parts = evidence.leftover, evidence.parts
    if left is None or left.again <= left.alive or left.freed or left.held:
        return
    said = (
        f"{left.alive} workers were still running after your loop had returned, and {left.again} "
        "after it had run once more."
    )
    if evidence.run.others:
        yield _finding(
            said,
            "",
            "Make that loader once, before the loop, or don't give it persistent workers.",
            cause="The loop makes another loader each time, for example one for validation. Its "
            "workers are persistent, and something keeps it: a list, a logger, or an object that "
            "prepares loaders.",
        )
        return
    yield _finding(
        said,
        parts.where if parts.loader == "DataLoader" else parts.loader,
        "When the loop stops early, end what holds the iterator: a reader thread with an "
        "`Event` that it checks, a generator with `finally`.",
        cause="Something that keeps running still holds their iterator, for example a thread "
        "that reads ahead and waits for room in its queue.",
    )


def threads(evidence: Evidence) -> Iterator[Finding]:
    """Find persistent workers in which threads pile up from iteration to iteration."""
    workers, parts = evidence.leftover, evidence.parts
    if workers is None or len(workers.threads) < 3:
        return
    _, *counts = workers.threads  # leave out the first run, because it may start a thread pool
    steps = [after - before for before, after in pairwise(counts)]
    if min(steps) < 0 or sum(steps) < len(steps):
        return
    yield _finding(
        "Each time the loader was iterated, the workers that stay had more threads: "
        f"{', '.join(map(str, workers.threads))}, all workers together.",
        parts.where,
        "End the thread when the iteration ends, even if the loop leaves early: use `try: "
        "... finally:` around the `yield`, set an `Event` there, and have the thread look "
        "at it.",
        cause="A worker starts a thread for each iteration. That thread goes on waiting, "
        "for example for room in a queue, and keeps what it has read.",
    )


def temporary_files(evidence: Evidence) -> Iterator[Finding]:
    """Find new workers that leave temporary files in each epoch."""
    parts, samples = evidence.parts, evidence.samples
    if samples is not None and any(what == "temporary files" for what, *_ in samples.left or ()):
        return  # samples leave files in main, too, so the end of a worker isn't to blame
    counts = (run.temporary for run in evidence.as_it_is if len(run.temporary) == 2)
    first, second = next(counts, (0, 0))
    if not parts.workers or parts.persistent or second - first < parts.workers:
        return
    yield _finding(
        f"The second epoch, with new workers, left {second - first} more temporary files or "
        "folders than the first one had.",
        parts.where,
        "Make the folder in the main process, once. Or remove it in the worker with "
        "`multiprocessing.util.Finalize(None, folder.cleanup, exitpriority=10)`.",
        cause="Before Python 3.13, a worker exits without running `atexit` functions or the "
        "finalizers of what it still holds, so nothing removes what it made.",
    )


def by_samples(evidence: Evidence) -> Iterator[Finding]:
    """Find threads, processes, and temporary files that samples leave behind in main."""
    samples, parts = evidence.samples, evidence.parts
    for what, count, draws in (samples.left or ()) if samples is not None else ():
        yield _finding(
            f"Drawing samples {draws} times in the main process left {count} {what} behind, though "
            "the same samples had been drawn before.",
            parts.where,
            "End what a sample starts and remove what it makes, in a `with` block or `finally`. Or "
            "make it once per worker.",
            cause=f"Samples leave {what} behind in every worker, for as long as it runs or longer.",
        )
