"""PerProcess: something that every process must open for itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class PerProcess(Generic[T]):
    """Opens a handle when a process first asks for it, and never hands one to another process.

    Args:
        open: Opens the handle. It must be possible to pickle it, for `spawn` and `forkserver`.
    """

    def __init__(self, open: Callable[[], T]) -> None:
        self._open = open
        self._opened_by: int | None = None
        self._handle: T | None = None

    def get(self) -> T:
        """The handle of this process."""
        if self._handle is None or self._opened_by != os.getpid():
            self._handle = self._open()
            self._opened_by = os.getpid()
        return self._handle

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_handle": None, "_opened_by": None}
