"""Run our own code as a worker starts, before or after the user's own `worker_init_fn`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

InWorker = Callable[[int], object]


@dataclass(frozen=True)
class WorkerInit:
    """A `worker_init_fn` that wraps the user's own, with a function before and one after it.

    Each function takes the worker's number, and each may be None.
    """

    own: Any
    before: InWorker | None = None
    after: InWorker | None = None

    def __call__(self, worker: int) -> None:
        for each in (self.before, self.own, self.after):
            if each is not None:
                each(worker)


def own_init(loader: Any) -> Any:
    """Return the user's own `worker_init_fn` from a DataLoader, or None if there isn't one."""
    init = loader.worker_init_fn
    return init.own if isinstance(init, WorkerInit) else init
