"""Make cases for `confine`, in a module that its child process and spawned workers can import."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from dltutor.failures import Case

MB = 1 << 20


def case(
    dataset: Dataset[Any],
    batch_size: int = 4,
    consume: Any = None,
    *,
    workers: int = 2,
    method: str = "fork",
) -> Case:
    loader: Any = DataLoader(
        dataset, batch_size, num_workers=workers, multiprocessing_context=method
    )
    return Case(loader, consume)


class Samples(Dataset[torch.Tensor]):
    """A dataset of samples of `size` bytes. W0 keeps `kept` bytes for each sample that it makes."""

    def __init__(self, length: int, size: int, kept: int = 0) -> None:
        self.length = length
        self.size = size
        self.kept = kept
        self.keeps: list[bytearray] = []

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        worker = get_worker_info()
        if worker is not None and worker.id == 0:
            self.keeps.append(bytearray(b"x") * self.kept)
        return torch.full((self.size,), index % 256, dtype=torch.uint8)


class Stuck(Samples):
    """A dataset whose samples never arrive."""

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(3600)
        raise AssertionError


def modest() -> Case:
    """Return a case that finishes, with 16 samples of 1 kB."""
    return case(Samples(16, 1024))


def growing() -> Any:
    """Return a loader (not a Case) in which W0 keeps 4 MB for each sample that it makes."""
    return case(Samples(4000, 1024, kept=4 * MB), batch_size=1).loader


def large_batches() -> Case:
    """Return a case with batches of 80 MB, which default_collate puts into /dev/shm."""
    return case(Samples(32, 10 * MB), batch_size=8)


def stuck() -> Case:
    return case(Stuck(16, 16))


def served() -> Case:
    """Return a case with stuck workers that the fork server starts, so main isn't their parent."""
    return case(Stuck(16, 16), method="forkserver")


def stop_main(loader: DataLoader[Any]) -> None:
    for _ in loader:
        time.sleep(1)  # long enough for `confine` to sample the memory
        os.kill(os.getpid(), signal.SIGTERM)


def main_killed() -> Case:
    """Return a case whose loop sends main SIGTERM a second after the first batch."""
    return case(Samples(16, 16), consume=stop_main)


def kill_itself(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def crash(loader: DataLoader[Any]) -> None:
    for _ in loader:
        ctypes.string_at(0)


def main_crashes() -> Case:
    """Return a case whose loop crashes main by reading from address 0."""
    return case(Samples(16, 16), consume=crash)


def wait_in_c(loader: DataLoader[Any]) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    for _ in loader:
        time.sleep(3600)


def deaf() -> Case:
    """Return a case whose loop blocks SIGALRM and sleeps, so a deadline can't interrupt main."""
    return case(Samples(16, 16), consume=wait_in_c)


def unreadable() -> Case:
    raise FileNotFoundError(2, "No such file or directory", "labels.csv")


def only_a_dataset() -> Any:
    return Samples(16, 16)


class Scores(Dataset[int]):
    """A dataset whose samples are the `oom_score_adj` of the process that makes them."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return int(Path("/proc/self/oom_score_adj").read_text())


def gather(loader: DataLoader[Any]) -> list[int]:
    return sorted({int(score) for batch in loader for score in batch})


def scores(*, workers: int = 2) -> Case:
    return case(Scores(), 1, gather, workers=workers)
