"""A thread in main holds a lock when main forks the workers, and no worker can ever take that lock.

Symptom: the epoch doesn't start, without an error, and no core is busy. In a stack dump of a worker
(`py-spy dump`, `faulthandler`), the innermost line is a line of yours that takes a lock. No dump
shows `acquire`, because a lock is written in C and has no frame. The first epoch may pass and a
later one may hang, because the hang depends on what a thread does at the moment of the fork.

NOTE [ A Lock Without An Owner ]

fork copies all of main's memory, but only the thread that called fork. A lock is memory, so if
another thread holds the lock at that moment, the copy is also held. The thread that would release
the copy doesn't exist in the worker, so no thread can. In main, that thread releases the lock a
little later, as always, so main never shows what's wrong.

The thread doesn't have to be yours. A library may have started the thread to save, report,
prefetch, or talk to a cloud store. Python takes care of its own locks: `logging`, `threading`, and
the standard streams make new ones in the child (`os.register_at_fork`).

Fix: make the lock and the data again in each worker, in `worker_init_fn`. A new lock alone isn't
enough, because the thread may have left what the lock guards half changed, unless your code keeps
the guarded data whole at every moment (build a new value, then assign it). Or hold the lock during
the fork, as `logging` does with `os.register_at_fork`: call `lock.acquire` before the fork, and
`lock.release` after it, in parent and child. If the lock isn't yours, start the workers while no
thread is at work, or don't fork, because spawn and forkserver copy no locks. `timeout=` only turns
the hang into an error.

Seen in: pytorch#1355, pytorch#75147, s3fs#369.
"""

from __future__ import annotations

import io
import pickle
import threading
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.tools import Case, Failure, Says, facts_of, load


class Cache:
    """A cache of computed values that any thread may use."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.kept: dict[str, list[int]] = {}

    def get(self, key: str, compute: Callable[[str], list[int]]) -> list[int]:
        with self.lock:
            if key not in self.kept:
                self.kept[key] = compute(key)
            return self.kept[key]

    def save(self, file: io.RawIOBase) -> None:
        with self.lock:
            pickle.dump(self.kept, file)


CACHE = Cache()


class Sentences(Dataset[torch.Tensor]):
    """A dataset of sentences as numbers. A cache keeps the numbers for later epochs."""

    def __init__(self, sentences: list[str]) -> None:
        self.sentences = sentences

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(CACHE.get(self.sentences[index], self.tokenize))

    def tokenize(self, sentence: str) -> list[int]:
        return [ord(letter) for letter in sentence]


def own_cache(worker_id: int) -> None:
    """Give a worker a new cache, with a lock that no thread holds."""
    global CACHE
    CACHE = Cache()


class SlowDisk(io.BytesIO):
    """A file whose writes last until main has forked the workers.

    In practice, writing a large cache sometimes takes that long.
    """

    def __init__(self) -> None:
        super().__init__()
        self.writing = threading.Event()
        self.forked = threading.Event()

    def write(self, data: Any) -> int:
        self.writing.set()
        self.forked.wait()
        return super().write(data)


def train(loader: DataLoader[Any]) -> None:
    """Run an epoch whose workers start while a thread saves the cache."""
    disk = SlowDisk()
    saver = threading.Thread(target=CACHE.save, args=(disk,))
    saver.start()
    try:
        disk.writing.wait()
        batches = iter(loader)
        disk.forked.set()
        for _ in batches:
            pass
    finally:
        disk.forked.set()
        saver.join()


SENTENCES: Final = [f"sentence {number:02}" for number in range(16)]


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose workers use the cache that they inherit from main."""
    return Case(load(Sentences(SENTENCES), workers, start_method), train)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that gives each worker a cache of its own."""
    loader = load(Sentences(SENTENCES), workers, start_method, worker_init_fn=own_cache)
    return Case(loader, train)


FAILURE: Final = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Says("hung", ("in get: with self.lock:",)),
    start_methods=("fork",),
    deadline=3,
)
