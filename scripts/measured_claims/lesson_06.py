"""Lesson 06: what a worker has by each start method."""

from __future__ import annotations

import ctypes
import multiprocessing
import sys
import time
from multiprocessing.shared_memory import SharedMemory
from typing import Any, Final

import numpy as np
import psutil
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor import Observation, observe
from dltutor.failures import global_only_in_parent
from dltutor.failures.main_only_class import Squares
from dltutor.failures.tools.contract import load
from dltutor.failures.unpicklable_handle import Records, records_folder
from dltutor.lessons.lesson_06 import told
from measured_claims import DEEP_DIVE, NOT_STARTING, Claim, Measured

_METHODS: Final = ("fork", "spawn", "forkserver")
_ROWS: Final = 40_000  # of 64 numbers: 20 MB
_PATIENCE: Final = 100.0  # seconds: a new interpreter starts late on a busy machine
FILLED = False


class _Asks(Dataset[torch.Tensor]):
    """Whether the process that reads a sample has what main wrote into a global."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(FILLED)


class Loaded(Dataset[torch.Tensor]):
    """A table that main has loaded, and every row of which is read."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.as_tensor(self.rows[index::64].sum())


class InSharedMemory(Loaded):
    """A table in shared memory, held as an array, as the sample of the article does."""

    def __init__(self, name: str, shape: tuple[int, int]) -> None:
        self.memory = SharedMemory(name)
        self.rows = np.ndarray(shape, buffer=self.memory.buf)


class ByName(InSharedMemory):
    """The same, and its pickle has the name of the memory alone."""

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.memory.name, "shape": self.rows.shape}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _forks() -> Measured:
    global FILLED
    FILLED = True
    has = {}
    for method in _METHODS:
        loader = DataLoader(_Asks(), num_workers=1, multiprocessing_context=method)
        has[method] = all(bool(batch) for batch in loader)
    shown = ", ".join(f"{method} {'yes' if value else 'no'}" for method, value in has.items())
    python = ".".join(map(str, sys.version_info[:2]))
    return Measured(
        f"Does a worker have what main wrote into a global? {shown}. The default of Python "
        f"{python} on {sys.platform} is {multiprocessing.get_start_method()}.",
        "holds under fork, and for no other start method."
        if has == {"fork": True, "spawn": False, "forkserver": False}
        else "unclear.",
    )


def _run(loader: DataLoader[Any]) -> Observation:
    return observe(loader, deadline=_PATIENCE)


def _global() -> Measured:
    ends = {
        method: told(_run(global_only_in_parent.broken(start_method=method).loader))
        for method in _METHODS
    }
    shown = "; ".join(f"{method}: {end}" for method, end in ends.items())
    hangs = "hung" in ends.values()
    return Measured(
        f"{shown}.",
        "holds." if hangs else "refuted: it runs under fork, raises otherwise, and hangs nowhere.",
    )


def _private_copies(dataset: Loaded, method: str) -> int:
    # How many copies of the dataset's table does each of two workers hold for itself?
    def private(dataset: Loaded) -> float:
        loader = DataLoader(dataset, 4, num_workers=2, multiprocessing_context=method)
        seen = observe(loader, consume=_private_memory, deadline=_PATIENCE)
        return float(seen.result)  # type: ignore[arg-type]

    without = private(Loaded(dataset.rows[:64]))
    copies: float = (private(dataset) - without) / dataset.rows.nbytes
    return round(copies)


def _private_memory(loader: DataLoader[Any]) -> float:
    batches = iter(loader)
    for _ in range(len(loader)):  # the workers live until the end is asked for
        next(batches)
    workers = [psutil.Process(each.pid) for each in multiprocessing.active_children()]
    return sum(float(each.memory_full_info().uss) for each in workers) / len(workers)


def _own_copy() -> Measured:
    rows = torch.ones(_ROWS, 64, dtype=torch.float64)
    kinds = {"numpy array": rows.numpy(), "tensor": rows}
    copies = {
        (kind, method): _private_copies(Loaded(table), method)
        for kind, table in kinds.items()
        for method in _METHODS
    }
    shown = "; ".join(f"{kind}, {method}: {count}" for (kind, method), count in copies.items())
    only = [key for key, count in copies.items() if count]
    expected = [("numpy array", "spawn"), ("numpy array", "forkserver")]
    return Measured(
        f"Copies that each worker holds for itself: {shown}.",
        "refuted under fork, and for tensors; holds for an array in a new interpreter."
        if only == expected
        else "unclear.",
    )


def _shared() -> Measured:
    array = np.ones((_ROWS, 64))
    memory = SharedMemory(create=True, size=array.nbytes)
    try:
        np.ndarray(array.shape, array.dtype, memory.buf)[:] = array
        copies = {
            (title, method): _private_copies(kind(memory.name, array.shape), method)
            for title, kind in (("as in the sample", InSharedMemory), ("by name", ByName))
            for method in ("fork", "forkserver")
        }
    finally:
        memory.unlink()
    shown = "; ".join(f"{title}, {method}: {count}" for (title, method), count in copies.items())
    return Measured(
        f"Copies that each worker holds for itself: {shown}.",
        "refuted in a new interpreter: the array is an attribute, and its values are in the "
        "pickle. A `__getstate__` that sends only the name avoids the copies; under fork there "
        "are none to avoid."
        if list(copies.values()) == [0, 1, 0, 0]
        else "unclear.",
    )


class Pointing(Dataset[float]):
    """Reads numbers through a pointer of C, as a native library does."""

    def __init__(self) -> None:
        self.numbers = ctypes.pointer((ctypes.c_double * 4)(7, 7, 7, 7))

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> float:
        return float(self.numbers.contents[index])


def _layout() -> Measured:
    def right(loader: Any) -> bool:
        return all(bool((batch == 7).all()) for batch in loader)

    ends = {}
    for method in _METHODS:
        seen = observe(load(Pointing(), 1, method), consume=right, deadline=_PATIENCE)
        ends[method] = "right" if seen.result else told(seen)
    shown = "; ".join(f"{method}: {end}" for method, end in ends.items())
    return Measured(
        f"Numbers read in a worker: {shown}.",
        "refuted under fork, which keeps every address; by the other start methods main raises."
        if [method for method in _METHODS if ends[method] == "right"] == ["fork"]
        else "unclear.",
    )


def _faster() -> Measured:
    seconds = {}
    for method in ("fork", "spawn"):
        started = time.perf_counter()
        next(iter(DataLoader(Squares(16), 4, num_workers=2, multiprocessing_context=method)))
        seconds[method] = time.perf_counter() - started
    slower = seconds["spawn"] > 4 * seconds["fork"]
    return Measured(
        f"The first batch takes spawn {'more' if slower else 'less'} than 4 times as long as fork.",
        "holds for the start of an epoch; a new interpreter imports torch."
        if slower
        else "unclear.",
    )


def _pass_spawn() -> Measured:
    ends = {
        title: told(_run(load(dataset, 1, "spawn")))
        for title, dataset in (
            ("numbers", Squares(16)),
            ("an open file", Records(records_folder())),
        )
    }
    shown = "; ".join(f"a dataset of {title}: {end}" for title, end in ends.items())
    holds = ends["numbers"] == "finished" != ends["an open file"]
    return Measured(
        f"{shown}.",
        "holds for a dataset that can be pickled; any other ends in main, before the first batch. "
        "With CUDA and OpenCV it was not measured."
        if holds
        else "unclear.",
    )


CLAIMS: Final = (
    Claim(
        "The workers are forks, and inherit the state of their parent process.",
        NOT_STARTING,
        "Main writes to a global after import; one worker of each start method is asked for it.",
        _forks,
        120,
    ),
    Claim(
        "Data that is loaded once into a module global may hang the workers.",
        NOT_STARTING,
        "A global that only main has filled is read by two workers of each start method.",
        _global,
        320,
    ),
    Claim(
        "Loading the data in `__init__` ensures that each worker has its own copy.",
        NOT_STARTING,
        "A table of 20 MB in the dataset; two workers read all of it. The memory that each has for "
        "itself (USS), less that with an empty table, in tables.",
        _own_copy,
        300,
    ),
    Claim(
        "An array in shared memory, held by the dataset, saves each worker its copy.",
        NOT_STARTING,
        "The sample's class with its import put right, and one whose pickle has the name of the "
        "memory instead of the array; the same table and count as above.",
        _shared,
        200,
    ),
    Claim(
        "Structures that rely on the parent's memory layout fail in workers that inherit them.",
        NOT_STARTING,
        "A dataset reads numbers of main through a pointer of `ctypes`, in one worker of each "
        "start method.",
        _layout,
        320,
    ),
    Claim(
        "Fork avoids some copying and is therefore much faster than spawn.",
        DEEP_DIVE,
        "The time to the first batch of two workers, on numbers that cost nothing.",
        _faster,
        120,
    ),
    Claim(
        "Where fork gives trouble, as with CUDA or OpenCV, pass `multiprocessing_context='spawn'`.",
        DEEP_DIVE,
        "The same loader with a dataset that can be pickled, and with one that holds an open file.",
        _pass_spawn,
        320,
    ),
)
