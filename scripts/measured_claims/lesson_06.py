"""Measure the claims for lesson 06: what a worker has under each start method."""

from __future__ import annotations

import ctypes
import multiprocessing
import sys
import time
from multiprocessing.shared_memory import SharedMemory
from typing import Any, Final

import numpy as np
import torch

from dltutor import observe
from dltutor.failures import global_only_in_parent
from dltutor.failures.main_only_class import Squares
from dltutor.failures.tools.contract import load
from dltutor.failures.unpicklable_handle import Records, records_folder
from dltutor.lessons.lesson_06 import told
from dltutor.tables import MB
from measured_claims import METHODS, Facts, Samples, Sized, by_start_method, numbers, private

_ROWS: Final = 40_000  # rows of 64 numbers, 20 MB in total
_PATIENCE: Final = 100.0  # the most seconds for a run. On a busy machine, new workers start slowly.
FILLED = False


def _filled(index: int) -> bool:
    return FILLED


def forks() -> Facts:
    global FILLED
    FILLED = True
    return {
        "has": by_start_method(lambda method: all(numbers(load(Samples(_filled), 1, method)))),
        "python": ".".join(map(str, sys.version_info[:2])),
        "system": sys.platform,
        "default": multiprocessing.get_start_method(),
    }


def filled_by_main() -> Facts:
    cases = {method: global_only_in_parent.broken(start_method=method) for method in METHODS}
    ends = {way: told(observe(case.loader, deadline=_PATIENCE)) for way, case in cases.items()}
    return {"ends": ends, "hangs": "hung" in ends.values()}


class Loaded(Sized):
    """A dataset whose samples together read every row of a table that main has loaded."""

    length = 64

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.as_tensor(self.rows[index::64].sum())


class InSharedMemory(Loaded):
    """A dataset with an array in shared memory. Pickling the dataset copies the array."""

    def __init__(self, name: str, shape: tuple[int, int]) -> None:
        self.memory = SharedMemory(name)
        super().__init__(np.ndarray(shape, buffer=self.memory.buf))


class ByName(InSharedMemory):
    """A dataset with a table in shared memory, whose pickle has the memory's name, not a copy."""

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.memory.name, "shape": self.rows.shape}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _copies(dataset: Loaded, method: str) -> int:
    # Return how many private copies of the dataset's table a worker has, averaged over two workers.
    few = Loaded(dataset.rows[:64])
    whole, without = (private(load(each, 2, method), len(each) // 4) for each in (dataset, few))
    return round((whole - without) * MB / dataset.rows.nbytes)


def own_copy() -> Facts:
    rows = torch.ones(_ROWS, 64, dtype=torch.float64)
    kinds = {"numpy array": rows.numpy(), "tensor": rows}
    copies = {
        f"{kind}, {method}": _copies(Loaded(table), method)
        for kind, table in kinds.items()
        for method in METHODS
    }
    return {"copies": copies, "copied": [kind for kind, count in copies.items() if count]}


def shared() -> Facts:
    array = np.ones((_ROWS, 64))
    memory = SharedMemory(create=True, size=array.nbytes)
    try:
        np.ndarray(array.shape, array.dtype, memory.buf)[:] = array
        copies = {
            f"{title}, {method}": _copies(kind(memory.name, array.shape), method)
            for title, kind in (("as in the sample", InSharedMemory), ("by name", ByName))
            for method in ("fork", "forkserver")
        }
    finally:
        memory.unlink()
    return {"copies": copies}


class Pointing(Sized):
    """A dataset that reads numbers through a C pointer, like a native library."""

    def __init__(self) -> None:
        self.numbers = ctypes.pointer((ctypes.c_double * self.length)(*[7] * self.length))

    def __getitem__(self, index: int) -> float:
        return float(self.numbers.contents[index])


def layout() -> Facts:
    ends = {}
    for method in METHODS:
        seen = observe(load(Pointing(), 1, method), consume=numbers, deadline=_PATIENCE)
        ends[method] = "right" if seen.result == [7] * 4 else told(seen)
    return {"ends": ends, "right": [method for method in METHODS if ends[method] == "right"]}


def faster() -> Facts:
    seconds = {}
    for method in ("fork", "spawn"):
        started = time.perf_counter()
        next(iter(load(Squares(16), 2, method)))
        seconds[method] = time.perf_counter() - started
    return {"slower": seconds["spawn"] > 4 * seconds["fork"]}


def pass_spawn() -> Facts:
    datasets = {
        "a dataset of numbers": Squares(16),
        "a dataset of an open file": Records(records_folder()),
    }
    ends = {
        title: told(observe(load(dataset, 1, "spawn"), deadline=_PATIENCE))
        for title, dataset in datasets.items()
    }
    whole, handle = ends.values()
    return {"ends": ends, "handle fails": whole == "finished" != handle}
