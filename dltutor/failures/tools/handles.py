"""Make a folder that Python removes at exit, and a handle that each process opens itself."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

T = TypeVar("T")


def own_folder() -> Path:
    """Make a temporary folder that Python removes at exit, and return its path."""
    folder = tempfile.mkdtemp(prefix="dltutor-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


class PerProcess(Generic[T]):
    """A handle that each process opens for itself, when the process first asks for it.

    Args:
        open: A function that opens the handle. Under `spawn` and `forkserver`, `open` has to be
            picklable.
    """

    def __init__(self, open: Callable[[], T]) -> None:
        self._open = open
        self._opened_by: int | None = None
        self._handle: T | None = None

    def get(self) -> T:
        """Return this process's handle. The first call in a process opens the handle."""
        if self._handle is None or self._opened_by != os.getpid():
            self._handle = self._open()
            self._opened_by = os.getpid()
        return self._handle

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_handle": None, "_opened_by": None}
