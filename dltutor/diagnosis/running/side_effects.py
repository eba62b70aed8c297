"""Find what drawing a sample reads, opens, and leaves behind, and what your code catches."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from stat import S_ISREG
from types import FrameType
from typing import Any, Final

import psutil

from dltutor.observation.errors import is_yours
from dltutor.observation.foreign import message_of

_MOST: Final = 50_000  # the most temporary files to count
_DEEP: Final = 12
_OTHERS: Final = ("dlt", "pymp-")  # how dltutor's and multiprocessing's folder names begin


class Reading:
    """A count of what this process reads and opens, with an audit hook that can't be removed."""

    def __init__(self) -> None:
        self._files: dict[tuple[int, int], int] = {}
        self._open = self._descriptors()
        self._before = _read()
        sys.addaudithook(self._note)

    def counts(self) -> dict[str, int]:
        """Return what has happened since this object was made, as fields of Samples.

        Returns:
            `read` (the bytes that were read), `of_files` (the size in bytes of all files that were
            open or were opened), and `opened` (how many new descriptors are open now).
        """
        read = _read() - self._before
        now = self._descriptors()
        return {
            "read": read,
            "of_files": sum(self._files.values()),
            "opened": len(now - self._open),
        }

    def _descriptors(self) -> set[int]:
        # A library may open files that Python's audit hooks don't see, and keep them open.
        found = set()
        with suppress(OSError):
            for name in os.listdir("/proc/self/fd"):
                with suppress(OSError):
                    self._take(os.fstat(int(name)))
                    found.add(int(name))
        return found

    def _note(self, event: str, given: tuple[Any, ...]) -> None:
        # A path may be any object. If this raised an exception, `open` would raise it, too.
        if event == "open":
            with suppress(Exception):
                self._take(os.stat(given[0]))

    def _take(self, status: os.stat_result) -> None:
        if S_ISREG(status.st_mode):
            self._files[status.st_dev, status.st_ino] = status.st_size


def _read() -> int:
    with suppress(Exception):  # some systems don't count what a process reads
        return int(psutil.Process().io_counters().read_chars)
    return 0


@contextmanager
def profiled(note: Callable[[FrameType, str, Any], object]) -> Iterator[None]:
    """Call `note` for the calls and returns in the block, as `sys.setprofile` does."""
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)


def things_left() -> dict[str, int]:
    """Return how many threads, child processes, and temporary files there are now, by kind."""
    return {
        "threads": threading.active_count(),
        "child processes": len(psutil.Process().children(recursive=True)),
        "temporary files": temporary_files(),
    }


def temporary_files() -> int:
    """Count temporary files and folders, except dltutor's and multiprocessing's own.

    Stop counting at about 50,000, and look only about 12 folders deep.
    """
    count = 0
    for folder, folders, files in os.walk(tempfile.gettempdir()):
        folders[:] = [each for each in folders if not each.startswith(_OTHERS)]
        count += len(folders) + len(files) if count < _MOST else 0
        if count >= _MOST or folder.count(os.sep) > _DEEP:
            folders.clear()
    return count


def caught_while(draw: Callable[[], Any]) -> tuple[str, str, str] | None:
    """Return the first exception that passes through your code while a sample is drawn.

    StopIteration and GeneratorExit don't count.

    Args:
        draw: A function that draws a sample.

    Returns:
        The exception's type, the first line of its message, and your line. None if there's no such
        exception, or if `draw` raises one, because then your code didn't catch it.
    """
    seen: list[tuple[str, str, str]] = []

    def trace(frame: FrameType, event: str, given: Any) -> Any:
        if event == "exception" and is_yours(frame.f_code.co_filename):
            kind, error, _ = given
            if not issubclass(kind, (StopIteration, GeneratorExit)):
                line = f"{os.path.basename(frame.f_code.co_filename)}, line {frame.f_lineno}"
                text = message_of(error) if isinstance(error, BaseException) else str(error)
                seen.append((kind.__name__, text.partition("\n")[0][:200], line))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        draw()
    except Exception:
        return None
    finally:
        sys.settrace(before)
    return seen[0] if seen else None
