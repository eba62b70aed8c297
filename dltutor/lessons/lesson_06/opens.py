"""How often each worker opens a file."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CountOpens:
    """A `worker_init_fn` for forked workers: notes each opening of a file in its worker.

    Args:
        path: The file.
        folder: Where each worker keeps its notes, one byte for each time: `W0`, `W1`, ...
    """

    path: str
    folder: str

    def __call__(self, worker_id: int) -> None:
        log = os.open(f"{self.folder}/W{worker_id}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        # The hook cannot be taken away again, and need not: it ends with the worker.
        sys.addaudithook(lambda event, args: self._note(log, event, args))

    def _note(self, log: int, event: str, args: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(args[0], (str, bytes, os.PathLike)):
            return
        if os.fsdecode(args[0]) == self.path:
            os.write(log, b".")
