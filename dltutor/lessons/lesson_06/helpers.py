"""Provide datasets and measurements for notebook 06."""

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
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures import generator_attribute, global_only_in_parent
from dltutor.failures.main_only_class import Squares
from dltutor.observation import Observation, observe
from dltutor.observation.texts import said, tidy
from dltutor.system.process_memory import pss
from dltutor.tables import MB, Table

#: Failure modes whose dataset main sends without an error, but which fail in the worker.
ON_ARRIVAL: Final = (generator_attribute.FAILURE, global_only_in_parent.FAILURE)

SIZE: Final = 8  # bytes per record


class Cache:
    """A cache of the tiles that a reader has read so far."""

    def __init__(self) -> None:
        self.tiles: dict[int, torch.Tensor] = {}
        self.turn = threading.Lock()


class Reader:
    """A reader that keeps each tile in a cache."""

    def __init__(self, side: int) -> None:
        self.side = side
        self.cache = Cache()

    def read(self, number: int) -> torch.Tensor:
        """Return the tile with this number, of shape (side, side), from the cache if it's there."""
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
    """The notebook's starter for "06.fix", which reads 8-byte records from one large file."""

    def __init__(self, path: str | Path, count: int) -> None:
        self.path = path
        self.count = count
        self.handle = open(self.path, "rb")  # noqa: SIM115 - this is the bug

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        self.handle.seek(index * SIZE)
        return torch.tensor(list(self.handle.read(SIZE)))


class MyClips(Dataset[torch.Tensor]):
    """The notebook's starter for "06.transfer", which adds noise to sound clips and scales them."""

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


def hide_the_warning() -> None:
    """Turn off the warning that torch gives each time it can't pickle a dataset for a worker."""
    warnings.filterwarnings("ignore", "Got pickle error")


def told(seen: Observation) -> str:
    """Return the first line of main's error, with the first error that a worker wrote to stderr.

    If main raised no error, return how the run ended, such as "hung".
    """
    if not seen.chain:
        return seen.end
    main = tidy(said(*seen.chain[0])).split("\n")[0]
    wrote = re.search(r"^(\w*Error:)\s+(.+)", tidy(seen.stderr), re.MULTILINE)
    return main + (f"\n  on stderr: {wrote[1]} {wrote[2]}" if wrote else "")


def costs() -> Table:
    """Show the time to a worker's first batch, and the memory that starting the worker adds.

    The table has a row for each start method. Before measuring, stop a fork server that's already
    running, so that forkserver's row includes the start of a server.

    Raises:
        AssertionError: Spawn or forkserver wasn't slower than fork.
    """
    found: dict[str, tuple[float, float]] = {}
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
    for method in ("fork", "spawn", "forkserver"):
        before = _memory()

        def epoch(loader: Any, method: str = method, before: float = before) -> None:
            started, batches = time.perf_counter(), iter(loader)
            next(batches)
            seconds = time.perf_counter() - started
            next(batches)
            found[method] = seconds, (_memory() - before) / MB
            list(batches)  # reads the rest, so that the worker ends

        loader = DataLoader(Squares(16), 4, num_workers=1, multiprocessing_context=method)
        observe(loader, consume=epoch, deadline=45)
    assert min(found["spawn"], found["forkserver"]) > found["fork"]  # the notebook claims this
    rows = [(name, f"{seconds:.2f} s", f"{mb:.0f} MB") for name, (seconds, mb) in found.items()]
    header = ("start method", "time to the first batch", "added memory")
    return Table("One worker, and whatever it takes to start it", tuple(rows), header)


def _memory() -> float:
    # Return the bytes (PSS) that main, its workers, and the fork server use. Leave out main's other
    # children.
    workers = [each.pid for each in multiprocessing.active_children()]
    server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    return sum(pss(pid) for pid in (os.getpid(), server, *workers) if pid)
