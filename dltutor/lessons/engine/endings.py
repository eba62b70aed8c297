"""Run a learner's dataset in a loader, and describe how the run ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_tb
from typing import Any, Final, TypeVar

from torch.utils.data import DataLoader

from dltutor.lessons.engine.outcomes import error_in_your_code, not_yet
from dltutor.lessons.engine.running import failed_at, made, takes_other_arguments, theirs
from dltutor.observation import Observation, observe
from dltutor.observation.record import End
from dltutor.observation.texts import said, tidy

K = TypeVar("K")

_LESSONS: Final = str(Path(__file__).parents[1])


def run_loader(
    dataset: Any,
    loop: Callable[[DataLoader[Any]], object],
    *,
    workers: int,
    within: float,
    method: str = "fork",
    epochs: int = 1,
    **options: Any,
) -> Ending:
    """Run an answer's dataset in a loader, and return how the run ended.

    Args:
        dataset: The dataset that the answer made.
        loop: A function to call with the loader in each epoch.
        workers: Number of workers.
        within: Time limit in seconds for all epochs together.
        method: The workers' start method (default "fork"). A class from a cell needs "fork", unless
            the grader has called `running.send_cells`.
        epochs: Number of epochs (default 1). If there are several, the workers are persistent.
        options: More arguments for the DataLoader, such as another `persistent_workers`.

    Raises:
        Rejected: torch can't make the loader, or `loop` rejected what arrived.
        Exception: `loop` failed because of a mistake in the grader, not in the answer.
    """
    with theirs():
        loader: DataLoader[Any] = DataLoader(
            dataset,
            num_workers=workers,
            multiprocessing_context=method if workers else None,
            **{"persistent_workers": workers > 0 and epochs > 1} | options,
        )
    return run_loop(loader, loop, within=within, epochs=epochs)


def run_loop(
    loader: DataLoader[Any],
    loop: Callable[[DataLoader[Any]], object],
    *,
    within: float,
    epochs: int = 1,
) -> Ending:
    """Run a loader for an answer, and return how the run ended.

    Args:
        loader: The loader.
        loop: A function to call with the loader in each epoch.
        within: Time limit in seconds for all epochs together.
        epochs: Number of epochs (default 1).

    Raises:
        Rejected: `loop` rejected what arrived.
        Exception: `loop` failed because of a mistake in the grader, not in the answer.
    """
    ours: list[Exception] = []

    def guarded(loader: DataLoader[Any]) -> object:
        try:
            return loop(loader)
        except Exception as error:
            if takes_other_arguments(error):
                raise
            frames = (frame for frame, _ in walk_tb(error.__traceback__))
            if all(frame.f_code.co_filename.startswith(_LESSONS) for frame in frames):
                ours.append(error)
            raise

    seen = observe(loader, deadline=within, consume=guarded, epochs=epochs)
    if ours:
        raise ours[0]
    return ending(seen)


def arrivals(
    dataset: Any, keep: Callable[[Any], K], **how: Any
) -> tuple[Ending, tuple[tuple[K, ...], ...]]:
    """Run an answer's dataset in a loader, and record each sample that arrives.

    Args:
        dataset: The dataset that the answer made.
        keep: A function that takes a sample and returns what to record about it.
        how: Arguments for `run_loader`, which needs `workers` and `within`. Without a
            `collate_fn`, samples arrive uncollated.

    Returns:
        How the run ended, and each epoch's records in order of arrival.

    Raises:
        Rejected: torch can't make the loader, or `keep` rejected a sample.
    """
    epochs: list[list[K]] = []

    def note(loader: DataLoader[Any]) -> None:
        epochs.append([])
        for batch in loader:
            epochs[-1].extend(map(keep, batch))

    ending = run_loader(dataset, note, **{"collate_fn": list} | how)
    return ending, tuple(map(tuple, epochs))


def loader_of(data: Any, folder: Path, workers: int, within: float) -> DataLoader[Any]:
    """Call the learner's `make_loader`, and return the DataLoader that it makes.

    Args:
        data: The learner's module.
        folder: The folder with the data, which is the first argument of `make_loader`.
        workers: Number of workers, which is the second argument of `make_loader`.
        within: Time limit for the call in seconds.

    Raises:
        Rejected: The call fails, takes too long, or returns anything but a DataLoader with this
            many workers.
    """
    call = f"make_loader(folder, {workers})"
    loader = made(data.make_loader, folder, workers, call=call, within=within)
    if not isinstance(loader, DataLoader):
        not_yet("no-loader", kind=type(loader).__name__)
    if loader.num_workers != workers:
        not_yet("other-workers", asked=workers, workers=loader.num_workers)
    return loader


def where(workers: int, method: str = "fork") -> str:
    """Return a run's settings, such as "with 2 workers under fork" or "without workers"."""
    if not workers:
        return "without workers"
    return f"with {workers} worker{'s' if workers > 1 else ''} under {method}"


@dataclass(frozen=True)
class Ending:
    """A record of how an answer's run ended, with what a grader's `judge` needs to know.

    Args:
        end: The Observation's `end`, such as "finished" or "hung".
        deadline: The run's time limit in seconds.
        fates: If `end` is "worker died", how each dead worker ended, such as
            "W0 killed by SIGKILL (exit code -9)". Otherwise "".
        kind: The name of the type of the exception that ended the run, or "".
        message: The type and message of this exception, or of the worker's exception that it
            reports, or "".
        raised_in_worker: The name of the type of the exception that a worker raised, or None.
        failed_worker: The number of the worker that raised this exception, or None.
        error: If `end` is "raised", a sentence with the exception, and with the learner's
            innermost line in the traceback if there is one. Otherwise "".
        stood: If the run hung, sentences that name the lines where the busy workers were, or the
            same as `main` if no worker was busy. Otherwise "".
        main: If the run hung, a sentence that names the learner's line where main was. If main was
            in no such line, or the run didn't hang, it's "".
        last_words: The last line that a worker wrote to stderr, or "".
    """

    end: End
    deadline: float
    fates: str = ""
    kind: str = ""
    message: str = ""
    raised_in_worker: str | None = None
    failed_worker: int | None = None
    error: str = ""
    stood: str = ""
    main: str = ""
    last_words: str = ""


def ending(seen: Observation) -> Ending:
    """Return the parts of an Observation that a `judge` needs, as values that tests can record."""
    kind, message = seen.chain[0] if seen.chain else ("", "")
    lines = tidy(seen.stderr).strip().splitlines()
    dead = [worker for worker in seen.workers if worker.exitcode is not None]
    return Ending(
        end=seen.end,
        deadline=seen.deadline,
        fates=" and ".join(map(str, dead)) if seen.end == "worker died" else "",
        kind=kind,
        message=tidy(said(kind, message)) if kind else "",
        raised_in_worker=seen.raised_in_worker,
        failed_worker=seen.failed_worker,
        error=failed_at(kind, message, seen.traceback) if seen.end == "raised" else "",
        stood=_where_they_stood(seen),
        main=_where_main_stood(seen),
        last_words=lines[-1] if lines else "",
    )


def check_ending(run: Ending, where: str = "", **fields: object) -> None:
    """Reject an answer whose run didn't finish.

    Args:
        run: How the run ended.
        where: The run's settings, such as "with 2 workers under fork", or "".
        fields: More values for the message, if a lesson has its own message for one of the codes.

    Raises:
        Rejected: The run didn't finish. The codes are "hung", "raised", and "worker-died", which
            is also the code if main died.
    """
    if run.end == "finished":
        return
    lead = f"{where}, " if where else ""
    if run.end == "hung":
        not_yet("hung", where=lead, seconds=f"{run.deadline:g}", stood=run.stood, **fields)
    if run.end == "raised":
        error_in_your_code("raised", where=lead, error=run.error, **fields)
    words = f", with the last words `{run.last_words}`" if run.last_words else ""
    fates = run.fates or "the process that ran the loop ended"
    not_yet("worker-died", where=lead, fates=fates, last_words=words, **fields)


def _where_they_stood(seen: Observation) -> str:
    if seen.end != "hung":
        return ""
    names: dict[str, list[str]] = {}
    for worker in seen.workers:
        # An idle worker waits for its next indices, so its line doesn't explain the hang.
        if worker.stack and "index_queue" not in worker.stack[0].code:
            names.setdefault(str(worker.stack[0]), []).append(worker.name)
    if not names:
        return _where_main_stood(seen)
    return " ".join(
        f"{' and '.join(who)} {'were' if len(who) > 1 else 'was'} at {place}."
        for place, who in names.items()
    )


def _where_main_stood(seen: Observation) -> str:
    if seen.end != "hung" or not seen.traceback:
        return ""
    return f"Main was at {seen.traceback[-1]}."
