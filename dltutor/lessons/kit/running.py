"""Running what a learner wrote, and telling how it ended: what all graders have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from types import FunctionType
from typing import Any

import cloudpickle

from dltutor.lessons.kit.outcomes import (
    Outcome,
    Rejected,
    Result,
    error_in_your_code,
    not_yet,
)
from dltutor.observation import Frame, Observation, errors
from dltutor.observation.report import End
from dltutor.observation.texts import said, tidy
from dltutor.observation.time_limits import DeadlinePassed, deadline


@contextmanager
def theirs() -> Iterator[None]:
    """A block that calls the learner's code: whatever it raises is the learner's error.

    Raises:
        Rejected: Something was raised in the block.
    """
    try:
        yield
    except (Rejected, DeadlinePassed):
        raise
    except BaseException as error:  # also SystemExit and KeyboardInterrupt: a check goes on
        raise Rejected(failed_in_main(error)) from error


def made(
    make: Callable[..., Any],
    *arguments: object,
    call: str,
    within: float,
    question: str = "What does it wait for?",
) -> Any:
    """Make what the learner's class or function makes.

    Args:
        make: The class or function.
        arguments: What it takes.
        call: How the lesson writes the call, such as "MyDataset(root)".
        within: Seconds that it may take.
        question: What to ask where it takes longer.

    Raises:
        Rejected: It takes longer, or raises.
    """
    try:
        with theirs(), deadline(within):
            return make(*arguments)
    except DeadlinePassed:
        not_yet(f"`{call}` was not ready after {within:g} s. {question}")


def send_cells() -> None:
    """Let what was typed into cells reach new interpreters from now on, in this process.

    A spawned worker imports the classes and functions that it needs, and a cell cannot be imported:
    lesson 06 shows what happens then. So they travel by value. All else travels as it always does.
    """

    def by_value(pickler: ForkingPickler, thing: Any) -> Any:
        typed = isinstance(thing, (type, FunctionType)) and thing.__module__ == "__main__"
        if not typed or "<" in thing.__qualname__:  # what a file defines inside a function
            return NotImplemented  # cannot travel either
        return cloudpickle.loads, (cloudpickle.dumps(thing),)

    ForkingPickler.reducer_override = by_value  # type: ignore[method-assign, assignment]


def failed_in_main(error: BaseException) -> Result:
    """Tell a learner of an exception that their code raised in the main process."""
    read = errors.read(error)
    return Result(Outcome.ERROR, _sentence(*read.chain[0], read.traceback))


def failed_in_loader(observation: Observation) -> Result:
    """Tell a learner of an exception that ended an observed run."""
    kind, message = observation.chain[0]
    return Result(Outcome.ERROR, _sentence(kind, message, observation.traceback))


def _sentence(kind: str, message: str, frames: tuple[Frame, ...]) -> str:
    text = tidy(said(kind, message))
    if not frames:
        return f"`{text}`."
    place = frames[-1]
    # The folder that a lesson makes for its files has another name on every run.
    file = re.sub(r"^dltutor-\w+/", "", place.file)
    where = "of your cell" if file == "your cell" else f"of {file}"
    return f"`{text}` in `{place.function}`, line {place.line} {where}."


@dataclass(frozen=True)
class Ending:
    """How an observed run of an answer ended: what a judge needs of an Observation.

    Args:
        end: As in an Observation.
        deadline: Seconds that the run had.
        fates: The workers in words, where one has died: "W0 killed by SIGKILL (exit code -9)".
        kind: The type of the exception that ended it, or "".
        message: Its text.
        raised_in_worker: The type of the exception as the worker raised it, or None.
        failed_worker: The number of that worker, or None.
        error: The exception and its place in one sentence, or "".
        stood: Where the processes stood that did not end, with the workers' names.
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
    last_words: str = ""


def ending(seen: Observation) -> Ending:
    """What a judge needs of an Observation, as plain text that can be recorded."""
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
        error=failed_in_loader(seen).text if seen.end == "raised" else "",
        stood=_where_they_stood(seen),
        last_words=lines[-1] if lines else "",
    )


def ended_well(
    run: Ending, where: str = "", *, hung: str = "What does your class wait for?", died: str = ""
) -> None:
    """Go on only where a run finished.

    Args:
        run: The run.
        where: Under which circumstances, such as "with 2 workers under fork"; may be empty.
        hung: What to ask where it did not end.
        died: What to ask where a worker died.

    Raises:
        Rejected: It did not finish; the text says how it ended.
    """
    if run.end == "finished":
        return
    lead = f"{where}, " if where else ""
    if run.end == "hung":
        stood = f" {run.stood}" if run.stood else ""
        not_yet(f"{lead}the run did not end within {run.deadline:g} s.{stood} {hung}")
    if run.end == "raised":
        if where:
            error_in_your_code(f"{lead}{run.error}")
        error_in_your_code(run.error)
    words = f", with the last words `{run.last_words}`" if run.last_words else ""
    died = died or "What in your class ends a process?"
    not_yet(f"{lead}{run.fates or 'the process that ran the loop ended'}{words}. {died}")


def _where_they_stood(seen: Observation) -> str:
    if seen.end != "hung":
        return ""
    names: dict[str, list[str]] = {}
    for worker in seen.workers:
        # One that waits to be asked for a sample is idle.
        if worker.stack and "index_queue" not in worker.stack[0].code:
            names.setdefault(str(worker.stack[0]), []).append(worker.name)
    if not names and seen.traceback:
        return f"Main was at {seen.traceback[-1]}."
    return " ".join(f"{' and '.join(who)} stood at {place}." for place, who in names.items())
