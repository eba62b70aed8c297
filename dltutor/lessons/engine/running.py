"""Running what a learner wrote, and telling how it ended: what all graders have in common."""

from __future__ import annotations

import hashlib
import io
import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from multiprocessing.reduction import ForkingPickler
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import SemLock
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import cloudpickle

from dltutor.lessons.engine.outcomes import Outcome, Rejected, Result, not_yet
from dltutor.observation import Frame, errors
from dltutor.observation.texts import said, tidy
from dltutor.observation.time_limits import DeadlinePassed, deadline
from dltutor.system import processes

_ENDING: Final = 1.0  # seconds for what an answer has started to end
_WRONG_CALL: Final = re.compile(r"\S+\(\) (?:takes|missing|got) ")
_HELPERS: Final = (b"multiprocessing.resource_tracker", b"multiprocessing.forkserver", b"torch_shm")


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


def takes_other_arguments(error: BaseException) -> bool:
    """Whether a call failed because what was called takes other arguments.

    Where a grader made the call, that was the learner's function or method: type checking has seen
    all calls of our own.
    """
    return type(error) is TypeError and bool(_WRONG_CALL.match(str(error)))


def made(
    make: Callable[..., Any],
    *arguments: object,
    call: str,
    within: float,
) -> Any:
    """Make what the learner's class or function makes.

    Args:
        make: The class or function.
        arguments: What it takes.
        call: How the lesson writes the call, such as "MyDataset(root)".
        within: Seconds that it may take.

    Raises:
        Rejected: It takes longer ("not-ready"), or raises ("raised").
    """
    try:
        with theirs(), deadline(within):
            return make(*arguments)
    except DeadlinePassed:
        not_yet("not-ready", call=call, seconds=f"{within:g}")


@cache
def _forks() -> list[None]:
    forks: list[None] = []
    os.register_at_fork(after_in_parent=lambda: forks.append(None))
    return forks


def started() -> int:
    """How many processes this one has forked since this was asked first."""
    return len(_forks())


def still_running(spare: Collection[int] = ()) -> str:
    """How many processes still run that an answer started: "a process", "3 processes", or "".

    Args:
        spare: The pids of others that descend from this process.
    """
    until = time.monotonic() + _ENDING
    while left := [
        pid
        for pid in processes.descendants(os.getpid()).difference(spare)
        if processes.is_alive(pid) and not processes.has_name(pid, *_HELPERS)
    ]:
        if time.monotonic() > until:
            return "a process" if len(left) == 1 else f"{len(left)} processes"
        time.sleep(0.02)
    return ""


def contents(folder: Path) -> dict[str, tuple[int, str]]:
    """What a folder holds: each file by its path in the folder, with its mode and a digest.

    Two that differ tell what an answer did to the files that it was given: `changed`.
    """
    found = {}
    for path in folder.rglob("*"):
        readable = path.is_file() and os.access(path, os.R_OK)
        digest = hashlib.sha256(path.read_bytes() if readable else b"").hexdigest()
        found[path.relative_to(folder).as_posix()] = path.lstat().st_mode, digest
    return found


def changed(before: dict[str, tuple[int, str]], folder: Path) -> list[str]:
    """What is new in a folder, gone from it, or no longer as it was; sorted.

    Args:
        before: Its `contents` then.
        folder: The folder.
    """
    return sorted(dict(before.items() ^ contents(folder).items()))


class _Copier(cloudpickle.Pickler):  # type: ignore[misc]  # it has no type hints
    # A lock or Value in a global or a class is made anew, as the import of its module would do.
    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, SemLock):
            return getattr(get_context("spawn"), type(thing).__name__), ()
        if isinstance(thing, Synchronized):
            return get_context("spawn").Value, (type(thing.get_obj()),)
        return super().reducer_override(thing)


def send_cells() -> None:
    """Let what was typed into cells reach new interpreters from now on, in this process.

    A spawned worker imports the classes and functions that it needs, and a cell cannot be imported:
    lesson 06 shows what happens then. So they travel by value. All else travels as it always does.
    """

    def by_value(pickler: ForkingPickler, thing: Any) -> Any:
        typed = isinstance(thing, (type, FunctionType)) and thing.__module__ == "__main__"
        if not typed or "<" in thing.__qualname__:  # what a file defines inside a function
            return NotImplemented  # cannot travel either
        _Copier(copy := io.BytesIO()).dump(thing)
        return cloudpickle.loads, (copy.getvalue(),)

    ForkingPickler.reducer_override = by_value  # type: ignore[method-assign, assignment]


def failed_in_main(error: BaseException) -> Result:
    """Tell a learner of an exception that their code raised in the main process."""
    return Result(Outcome.ERROR, "raised", {"error": in_words(error), "where": ""})


def in_words(error: BaseException) -> str:
    """An exception that a learner's code raised here, and its place, in one sentence."""
    read = errors.read(error)
    return failed_at(*read.chain[0], read.traceback)


def failed_at(kind: str, message: str, frames: tuple[Frame, ...]) -> str:
    """An exception and its place in one sentence.

    Args:
        kind: Its type.
        message: Its text.
        frames: Where it was raised, the innermost frame last.
    """
    text = tidy(said(kind, message))
    if not frames:
        return f"`{text}`."
    place = frames[-1]
    # The folder that a lesson makes for its files has another name on every run.
    file = re.sub(r"^dltutor-\w+/", "", place.file)
    where = "of your cell" if file == "your cell" else f"of {file}"
    return f"`{text}` in `{place.function}`, line {place.line} {where}."
