"""What notebook 06 shows and measures, and the starters of "06.fix" and "06.transfer"."""

from __future__ import annotations

import multiprocessing
import os
import re
import threading
import time
import warnings
from multiprocessing import forkserver
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures import (
    children_of_workers,
    generator_attribute,
    global_only_in_parent,
    missing_main_guard,
)
from dltutor.failures.main_only_class import Squares
from dltutor.failures.unpicklable_handle import Records, records_folder
from dltutor.lessons.lesson_06.travel import import_file
from dltutor.observation import Observation, observe
from dltutor.observation.texts import said, tidy
from dltutor.system.process_memory import pss
from dltutor.system.processes import descendants
from dltutor.tables import MB, Table

#: Failures that leave main without complaint.
ON_ARRIVAL: Final = (
    missing_main_guard.FAILURE,
    generator_attribute.FAILURE,
    global_only_in_parent.FAILURE,
    children_of_workers.FAILURE,
)

SIZE: Final = 8  # bytes of a record


class Cache:
    """The tiles that were read so far."""

    def __init__(self) -> None:
        self.tiles: dict[int, torch.Tensor] = {}
        self.turn = threading.Lock()


class Reader:
    """Reads a tile, and keeps it."""

    def __init__(self, side: int) -> None:
        self.side = side
        self.cache = Cache()

    def read(self, number: int) -> torch.Tensor:
        """One tile."""
        with self.cache.turn:
            tile = torch.full((self.side, self.side), float(number))
            return self.cache.tiles.setdefault(number, tile)


class Tiles(Dataset[torch.Tensor]):
    """The dataset of "06.diagnose": tiles of a satellite image, in a fixed random order."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(6)
        self.order = self.rng.permutation(16)
        self.reader = Reader(side=8)

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.reader.read(int(self.order[index]))


class MyRecords(Dataset[torch.Tensor]):
    """The starter of "06.fix": records of 8 bytes each, read from one large file."""

    def __init__(self, path: str | Path, count: int) -> None:
        self.path = path
        self.count = count
        self.handle = open(self.path, "rb")  # noqa: SIM115 - that is its fault

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        self.handle.seek(index * SIZE)
        return torch.tensor(list(self.handle.read(SIZE)))


class MyClips(Dataset[torch.Tensor]):
    """The starter of "06.transfer": clips of sound with noise, scaled to their loudest value."""

    def __init__(self, path: str | Path, seed: int) -> None:
        self.clips = torch.load(path)
        self.generator = torch.Generator().manual_seed(seed)
        self.scale = lambda clip: clip / clip.abs().max()

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, index: int) -> torch.Tensor:
        clip = self.clips[index]
        noise = 0.1 * torch.randn(clip.shape, generator=self.generator)
        return self.scale(clip + noise)  # type: ignore[no-any-return,no-untyped-call]  # a lambda


class Loaded(Dataset[torch.Tensor]):
    """A table that main has loaded, and every row of which is read."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.as_tensor(self.rows[index::64].sum())


def hide_the_warning() -> None:
    """Torch warns at every failure to start a worker; from now on it does not."""
    warnings.filterwarnings("ignore", "Got pickle error")


def told(seen: Observation) -> str:
    """How a run ended: what main raised, and below it what a dead worker wrote."""
    if not seen.chain:
        return seen.end
    main = tidy(said(*seen.chain[0])).split("\n")[0]
    wrote = re.search(r"^(\w*Error:)\s+(.+)", tidy(seen.stderr), re.MULTILINE)
    return main + (f"\n  on stderr: {wrote[1]} {wrote[2]}" if wrote else "")


def costs() -> Table:
    """What two workers cost by each start method, with the fork server and its imports.

    The server is stopped before each run but the last, so that none is handed down.
    """
    found, server = {}, forkserver._forkserver
    for name, method, preload in (
        ("fork", "fork", []),
        ("spawn", "spawn", []),
        ("forkserver", "forkserver", []),
        ("forkserver, preloaded", "forkserver", ["torch", "dltutor.failures.main_only_class"]),
    ):
        server._stop()  # type: ignore[attr-defined]
        multiprocessing.get_context("forkserver").set_forkserver_preload(preload)
        before = _memory()
        found[name] = _first_batch(method, before)
    found["the same server, next epoch"] = again = _first_batch(method, before)
    assert found["spawn"][0] > 3 * found["fork"][0], "a new interpreter should take longer"
    assert found[name][0] > 3 * found["fork"][0], "and so should a new server"
    assert found["spawn"][0] > 3 * again[0], "once it runs, it should not"
    assert found["spawn"][1] > 3 * found["fork"][1], "an interpreter should take more memory"
    rows = [(name, f"{seconds:.2f} s", f"{mb:.0f} MB") for name, (seconds, mb) in found.items()]
    header = ("start method", "first batch after", "memory that is added")
    return Table("Two workers, and all that is started for them", tuple(rows), header)


def _first_batch(method: str, before: float) -> tuple[float, float]:
    # Seconds to the first batch, and MB that all processes take at the last, more than before.
    started = time.perf_counter()
    batches = iter(DataLoader(Squares(16), 4, num_workers=2, multiprocessing_context=method))
    next(batches)
    seconds = time.perf_counter() - started
    for _ in range(3):
        next(batches)
    return seconds, (_memory() - before) / MB


def _memory() -> float:
    return sum(map(pss, {os.getpid(), *descendants(os.getpid())}))


def verify(path: Path) -> Table:
    """The broken class of the lesson, and that of a file, beside 0 workers; main has read one."""
    rows = []
    file = records_folder() / "records.bin"
    for title, dataset in (
        ("Records", Records(records_folder())),
        ("MyRecords", import_file(path).MyRecords(file, 16)),
    ):
        alone = [dataset[index] for index in range(16)]
        for method in ("fork", "spawn"):
            loader = DataLoader(dataset, 4, num_workers=2, multiprocessing_context=method)
            seen = observe(loader, consume=lambda loader: [*torch.cat([*loader]).clone()])
            right = sum(map(torch.equal, seen.result or (), alone))  # type: ignore[call-overload]
            rows.append((title, method, told(seen), f"{right} of 16"))
    return Table("Two workers", tuple(rows), ("dataset", "method", "end", "as with 0 workers"))


def private_copies(dataset: Loaded, method: str) -> int:
    """How many copies of the dataset's table does each of two workers hold for itself?"""

    def private(dataset: Loaded) -> float:
        loader = DataLoader(dataset, 4, num_workers=2, multiprocessing_context=method)
        seen = observe(loader, consume=_private_memory, deadline=60)
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
