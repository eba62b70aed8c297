"""Whether what workers write is guarded by a lock: does any of them write while main holds it?"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.synchronize import SemLock
from typing import Any, Final

from torch.utils.data import DataLoader

_WAIT: Final = 1.0  # seconds without a write; without a lock the first comes in a millisecond
_TOGETHER: Final = 6.0  # seconds that main waits for the workers to start


def guarded(
    dataset: Any, started: Any, number: Callable[[], Any]
) -> Callable[[DataLoader[Any]], bool]:
    """A training loop that holds the dataset's locks while its workers begin.

    Args:
        dataset: The dataset, whose attributes are looked through for locks.
        started: A barrier for main and all workers, which wait there in `worker_init_fn`.
        number: Reads what the workers write.

    Returns:
        A function that iterates a loader to its end and says whether nobody wrote meanwhile.
    """

    def train(loader: DataLoader[Any]) -> bool:
        with ExitStack() as held:
            for lock in _locks(dataset):
                held.enter_context(lock)
            before = number()
            batches = iter(loader)
            started.wait(_TOGETHER)
            until = time.monotonic() + _WAIT
            waited = True
            while waited and time.monotonic() < until:
                time.sleep(0.01)
                waited = bool(number() == before)
        for _ in batches:
            pass
        return waited

    return train


def _locks(dataset: Any) -> list[Any]:
    found = []
    for value in vars(dataset).values():
        if isinstance(value, SemLock):
            found.append(value)
        elif hasattr(value, "get_lock"):  # multiprocessing.Value and Array
            found.append(value.get_lock())
    return found
