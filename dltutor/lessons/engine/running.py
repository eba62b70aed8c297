"""Run a learner's code, and describe what it raised, started, or changed."""

from __future__ import annotations

import hashlib
import importlib
import io
import os
import pickle
import random
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import SemLock
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final
from unittest.mock import patch

import cloudpickle
import numpy as np
import torch

from dltutor.lessons.engine.outcomes import Outcome, Rejected, Result, not_yet
from dltutor.observation import Frame, errors
from dltutor.observation.texts import said, tidy
from dltutor.observation.time_limits import DeadlinePassed, deadline
from dltutor.system import processes

_ENDING: Final = 1.0  # the most seconds to wait for an answer's processes to end
_WRONG_CALL: Final = re.compile(r"\S+\(\) (?:takes|missing|got) ")
_HELPERS: Final = (b"multiprocessing.resource_tracker", b"multiprocessing.forkserver", b"torch_shm")

_on_path: set[str] = set()  # the folders that `imported` has put on sys.path


@contextmanager
def theirs() -> Iterator[None]:
    """Turn an exception from the block into a `Rejected` that reports an error in the answer.

    Raises:
        DeadlinePassed: The block ran past a deadline.
        Rejected: The block raised any other exception. If the block raised `Rejected` itself, that
            exception stays as it is.
    """
    try:
        yield
    except (Rejected, DeadlinePassed):
        raise
    except BaseException as error:  # even SystemExit, so that the check has a result
        raise Rejected(failed_in_main(error)) from error


def takes_other_arguments(error: BaseException) -> bool:
    """Return whether a call failed because its arguments don't match the function's signature.

    If a grader made the call, that function is the learner's, because mypy has checked every call
    to our own functions.
    """
    return type(error) is TypeError and bool(_WRONG_CALL.match(str(error)))


def made(
    make: Callable[..., Any],
    *arguments: object,
    call: str,
    within: float,
) -> Any:
    """Call the learner's class or function, and return what it makes.

    Args:
        make: The learner's class or function.
        arguments: The values to pass to `make`.
        call: The call as the lesson writes it, such as "MyDataset(root)", for a message.
        within: Time limit for the call in seconds.

    Raises:
        Rejected: The call takes too long ("not-ready"), or raises an exception ("raised").
    """
    try:
        with theirs(), deadline(within):
            return make(*arguments)
    except DeadlinePassed:
        not_yet("not-ready", call=call, seconds=f"{within:g}")


@contextmanager
def starts() -> Iterator[list[str]]:
    """Yield a list that collects the names of `multiprocessing` processes started in the block."""
    started: list[str] = []
    process: Any = BaseProcess
    own = process.start

    def start(self: Any) -> None:
        own(self)
        started.append(self.name)

    with patch.object(process, "start", start):
        yield started


def still_running() -> str:
    """Wait up to 1 s for this process's descendants to end, and say how many are left.

    The helper processes of multiprocessing and torch don't count.

    Returns:
        "a process", or a number such as "3 processes", or "" if all have ended.
    """
    until = time.monotonic() + _ENDING
    while left := [
        pid
        for pid in processes.descendants(os.getpid())
        if processes.is_alive(pid) and not processes.has_name(pid, *_HELPERS)
    ]:
        if time.monotonic() > until:
            return "a process" if len(left) == 1 else f"{len(left)} processes"
        time.sleep(0.02)
    return ""


def contents(folder: Path) -> dict[str, tuple[int, str]]:
    """Return the mode and a digest of each file and subfolder, by its path in the folder.

    A subfolder, or a file that this process can't read, gets the digest of an empty file.
    """
    found = {}
    for path in folder.rglob("*"):
        readable = path.is_file() and os.access(path, os.R_OK)
        digest = hashlib.sha256(path.read_bytes() if readable else b"").hexdigest()
        found[path.relative_to(folder).as_posix()] = path.lstat().st_mode, digest
    return found


def changed(before: dict[str, tuple[int, str]], folder: Path) -> list[str]:
    """Return the sorted paths that were added, removed, or changed since `before`.

    Args:
        before: What `contents` returned for the folder.
        folder: The folder to compare.
    """
    return sorted(dict(before.items() ^ contents(folder).items()))


def global_generators() -> dict[str, bytes]:
    """Return the state of each global random generator, by the generator's module."""
    return {
        "random": pickle.dumps(random.getstate()),
        "np.random": pickle.dumps(np.random.get_state()),
        "torch": torch.get_rng_state().numpy().tobytes(),
    }


def moved_since(before: dict[str, bytes]) -> list[str]:
    """Return the modules whose global generator has moved since `global_generators` was called."""
    return [name for name, state in global_generators().items() if state != before[name]]


def imported(folder: Path, *names: str) -> list[ModuleType]:
    """Import modules from a folder as the files are now, even if older versions were imported.

    The folder goes to the front of `sys.path`, which spawned workers get from main. The folders of
    earlier calls leave `sys.path`, and their modules leave `sys.modules`.

    Args:
        folder: The folder with the learner's modules.
        names: The names of the modules to import.

    Returns:
        The modules, in the order of `names`.
    """
    own = {path.stem for path in folder.glob("*.py")}
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None) or ""
        if name in own or str(Path(file).parent) in _on_path:
            del sys.modules[name]
    sys.path[:] = [path for path in sys.path if path not in _on_path]
    sys.path.insert(0, str(folder))
    _on_path.add(str(folder))
    # Remove bytecode, because Python could use it for a file that changed within the same second.
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    importlib.invalidate_caches()
    return [importlib.import_module(name) for name in names]


class _Copier(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no type hints
    # Replace a lock or Value in a global or a class with a new one, because a worker that imports
    # the code from a file also gets a new one. The new Value is 0, whatever value the old one had.
    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, SemLock):
            return getattr(get_context("spawn"), type(thing).__name__), ()
        if isinstance(thing, Synchronized):
            return get_context("spawn").Value, (type(thing.get_obj()),)
        return super().reducer_override(thing)


def send_cells() -> None:
    """Let this process send classes and functions from cells to spawned workers.

    A spawned worker imports the classes and functions that it needs, but it can't import a cell, as
    lesson 06 shows. So this process pickles a cell's classes and functions by value from now on.
    """

    def by_value(pickler: ForkingPickler, thing: Any) -> Any:
        typed = isinstance(thing, (type, FunctionType)) and thing.__module__ == "__main__"
        # Leave out lambdas and whatever is defined in a function, because pickle can't send these
        # even from a file.
        if not typed or "<" in thing.__qualname__:
            return NotImplemented
        _Copier(copy := io.BytesIO()).dump(thing)
        return cloudpickle.loads, (copy.getvalue(),)

    ForkingPickler.reducer_override = by_value  # type: ignore[method-assign, assignment]


def failed_in_main(error: BaseException) -> Result:
    """Return the result for an exception that the learner's code raised in main."""
    return Result(Outcome.ERROR, "raised", {"error": in_words(error), "where": ""})


def in_words(error: BaseException) -> str:
    """Return a sentence that says what the learner's code raised, and where (see `failed_at`)."""
    read = errors.read(error)
    return failed_at(*read.chain[0], read.traceback)


def failed_at(kind: str, message: str, frames: tuple[Frame, ...]) -> str:
    """Return a sentence that says what the learner's code raised, and where.

    Args:
        kind: The exception's type.
        message: The exception's message.
        frames: The learner's frames, from the outermost to the innermost. If there are none, the
            sentence doesn't say where.
    """
    text = tidy(said(kind, message))
    if not frames:
        return f"`{text}`."
    place = frames[-1]
    # Leave out a lesson's temporary folder, because its name is different on every run.
    file = re.sub(r"^dltutor-\w+/", "", place.file)
    where = "of your cell" if file == "your cell" else f"of {file}"
    return f"`{text}` in `{place.function}`, line {place.line} {where}."
