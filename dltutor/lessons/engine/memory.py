"""Provide a dataset that takes no memory to read, to measure what an answer's dataset adds.

Even a run with this "empty" dataset uses memory: for library pages that a process touches for the
first time, for pages that it changes after a fork, and for the loader itself. The amount differs
between machines, Python versions, and builds of torch. So a grader that measures an answer first
measures the empty dataset in the same way.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache
from typing import Any, Final

import numpy as np
from torch.utils.data import DataLoader, Dataset

from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.engine.outcomes import could_not_check
from dltutor.observation import confine
from dltutor.tables import MB

# MB to assume if the system doesn't report PSS. An interpreter with torch uses about this much.
_WITHOUT_PSS: Final = 200


def trim_heap() -> None:
    """Let the C library return freed memory to Linux, if it can.

    Otherwise, an answer could reuse that memory without looking any larger in a measurement.
    """
    with suppress(OSError, AttributeError):  # few C libraries except glibc have malloc_trim
        ctypes.CDLL(None).malloc_trim(0)


class Empty(Dataset[Any]):
    """A dataset whose samples already exist, so that reading a sample takes no memory."""

    def __init__(self, samples: Any) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self.samples[index]


def finished(empty: Ending, place: str) -> None:
    """Give up the check if the empty run didn't finish, because that isn't the answer's fault.

    Args:
        empty: How the empty run ended.
        place: The run's settings, such as "with 2 workers under fork".

    Raises:
        Rejected: The empty run didn't finish, so the outcome is "Could not check here".
    """
    if empty.end != "finished":
        could_not_check("empty-run-failed", where=place, end=empty.end)


def room(more: int, *, workers: int) -> int:
    """Return a memory limit for `confine` that leaves the loader `more` MB.

    Args:
        more: MB beyond what main and the workers use with an empty dataset on this machine.
        workers: Number of forked workers.

    Returns:
        The limit in bytes.
    """
    return (_empty_run_mb(workers) + more) * MB


@cache
def _empty_run_mb(workers: int) -> int:
    curve = confine(loader_of_nothing, workers=workers).timeline.total_pss() / MB
    return round(max(curve[np.isfinite(curve)], default=_WITHOUT_PSS))


def loader_of_nothing(workers: int) -> DataLoader[Any]:
    """Return a loader of 8 batches for each worker, from an `Empty` dataset.

    `confine` calls this function in a new interpreter.

    Args:
        workers: Number of forked workers, at least 1.
    """
    samples: Any = Empty(range(64 * workers))
    return DataLoader(samples, 8, num_workers=workers, multiprocessing_context="fork")
