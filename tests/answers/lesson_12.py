"""Define right and wrong answers to the exercises of lesson 12."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import ceil
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from cells import run_copied
from torch.utils.data import IterableDataset, get_worker_info

from answers import RightAnswers, WrongFixes, like
from dltutor.lessons.lesson_12.helpers import Signals
from dltutor.lessons.lesson_12.job import ByRankAndWorker

# Answers to "12.fix"


class Keyed(Signals):
    """A right answer to "12.fix", and the base class of other answers.

    Each sample's noise comes from its own generator, seeded by the seed, the epoch, and the index.
    """

    def __init__(self, signals: torch.Tensor, seed: int) -> None:
        self.signals = signals
        self.seed = seed
        self.epoch = torch.tensor(0).share_memory_()

    def noise(self, index: int) -> torch.Tensor:
        rng = np.random.default_rng((self.seed, int(self.epoch), index))
        return torch.from_numpy(rng.normal(size=4))

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.signals[index] + self.noise(index)


def drawn(noise: Callable[[Any, int], Any]) -> type:
    """Make a class whose noise for a sample is `noise(dataset, index)`."""

    class Drawn(Keyed):
        def noise(self, index: int) -> torch.Tensor:
            return torch.as_tensor(noise(self, index))

    return Drawn


def rng_of(*seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=4)


def key_of(self: Any, index: int) -> int:
    return int(self.seed * 10_000_000 + int(self.epoch) * 10_000 + index)


def by_torch(self: Any, index: int) -> torch.Tensor:
    generator = torch.Generator()
    generator.manual_seed(key_of(self, index))
    return torch.randn(4, generator=generator, dtype=torch.float64)


def by_python(self: Any, index: int) -> list[float]:
    chance = random.Random(f"{self.seed} {int(self.epoch)} {index}")
    return [chance.gauss(0, 1) for _ in range(4)]


def with_fork_rng(self: Any, index: int) -> torch.Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key_of(self, index))
        return torch.randn(4, dtype=torch.float64)


def seeds_numpy(self: Any, index: int) -> Any:
    np.random.seed(key_of(self, index))
    return np.random.normal(size=4)


def by_length(self: Any, index: int) -> Any:
    return rng_of(self.seed, int(self.epoch) * len(self) + index)


def by_hash_of_a_text(self: Any, index: int) -> Any:
    return rng_of(hash(f"{self.seed}-{int(self.epoch)}-{index}") & 0xFFFFFFFF)


class InEachWorker(Signals):
    """Wrong: each process makes a generator, so the noise differs each time the workers start."""

    made_in: int | None = None

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.made_in != os.getpid():
            self.rng, self.made_in = np.random.default_rng(torch.initial_seed()), os.getpid()
        return super().__getitem__(index)


class AnewInSetEpoch(Signals):
    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        self.rng = np.random.default_rng((self.seed, epoch))


class PlainEpoch(Keyed):
    def set_epoch(self, epoch: int) -> None:
        self.epoch = torch.tensor(epoch)


class AddsInPlace(Keyed):
    def __getitem__(self, index: int) -> torch.Tensor:
        sample = self.signals[index]
        sample += self.noise(index)
        return sample


# Answers to "12.transfer"

Read = Callable[[], Iterable[int]]


def here() -> tuple[int, int]:
    info = get_worker_info()
    return (info.id, info.num_workers) if info else (0, 1)


class Rounds(IterableDataset[int]):
    """A right answer to "12.transfer", and the base class of other answers.

    Each rank gets one of every `ranks` records. If fewer remain at the end, no rank gets them.
    """

    def __init__(self, read: Read, rank: int, ranks: int) -> None:
        self.read, self.rank, self.ranks = read, rank, ranks

    def mine(self) -> Iterator[int]:
        for full in zip(*[iter(self.read())] * self.ranks, strict=False):
            yield full[self.rank]

    def __iter__(self) -> Iterator[Any]:
        me, workers = here()
        return islice(self.mine(), me, None, workers)


class InBlocks(Rounds):
    """Right: each rank takes a block of the stream, and each worker takes a part of that block."""

    def __iter__(self) -> Iterator[int]:
        records, (me, workers) = list(self.read()), here()
        share = len(records) // self.ranks
        block = records[self.rank * share : (self.rank + 1) * share]
        each = ceil(len(block) / workers)
        yield from block[me * each : (me + 1) * each]


class WorkerBeforeRank(Rounds):
    """Wrong, because each worker drops the end of its own records, so too many are left out."""

    def __iter__(self) -> Iterator[int]:
        me, workers = here()
        mine = islice(self.read(), me, None, workers)
        for full in zip(*[mine] * self.ranks, strict=False):
            yield full[self.rank]


class KeptIterator(Rounds):
    """Wrong: `__init__` makes the only iterator, so a second epoch may find it used up."""

    def __init__(self, read: Read, rank: int, ranks: int) -> None:
        super().__init__(read, rank, ranks)
        self.records = self.mine()

    def __iter__(self) -> Iterator[int]:
        me, workers = here()
        return islice(self.records, me, None, workers)


class Numbers(Rounds):
    """Wrong, because it delivers the positions of the records instead of the records."""

    def mine(self) -> Iterator[int]:
        for number, _ in enumerate(super().mine()):
            yield number * self.ranks + self.rank


class TwoOfARank(Rounds):
    """Wrong, because ranks with equally many records get different numbers of batches.

    Workers take turns after five records on rank 0, but after each record on rank 1.
    """

    def __iter__(self) -> Iterator[int]:
        me, workers = here()
        for number, record in enumerate(self.mine()):
            if (number // (5 - 4 * self.rank)) % workers == me:
                yield record


class PlainStream:
    def __init__(self, read: Read, rank: int, ranks: int) -> None:
        self.stream = Rounds(read, rank, ranks)

    def __iter__(self) -> Iterator[int]:
        return iter(self.stream)


RIGHT_ANSWERS: RightAnswers = {
    "12.fix": {
        "default_rng of a tuple": Keyed,
        "a torch.Generator": drawn(by_torch),
        "random.Random of a text": drawn(by_python),
        "torch's own, set back": drawn(with_fork_rng),
    },
    "12.transfer": {
        "full rounds": Rounds,
        "blocks": InBlocks,
        "the method in On call": like(
            ByRankAndWorker, __iter__=run_copied("12", "on-call-code")["__iter__"]
        ),
        "records as tensors": like(
            Rounds, __iter__=lambda self: map(torch.tensor, Rounds.__iter__(self))
        ),
    },
}


WRONG_FIXES: WrongFixes = {
    "12.fix": {
        "a generator in each worker": (InEachWorker, "other-noise-the-second-time"),
        "a pair": (
            like(Keyed, __getitem__=lambda self, index: (index, Keyed.__getitem__(self, index))),
            "other-sample",
        ),
        "a generator for each epoch": (AnewInSetEpoch, "repeated"),
        "the sum": (
            drawn(lambda self, index: rng_of(self.seed + int(self.epoch) + index)),
            "repeated",
        ),
        "index and epoch": (
            drawn(lambda self, index: rng_of(int(self.epoch), index)),
            "repeated-for-another-seed",
        ),
        "hash of a text": (drawn(by_hash_of_a_text), "hash-of-a-string"),
        "epoch times the length, beside the seed": (drawn(by_length), "two-noises"),
        "the global generator, seeded": (drawn(seeds_numpy), "moved-globals"),
        "an epoch of main's": (PlainEpoch, "repeated-in-another-epoch"),
        "added in place": (AddsInPlace, "changed-signals"),
        "one number four times": (
            drawn(lambda self, index: [rng_of(self.seed, int(self.epoch), index)[0]] * 4),
            "not-four-numbers",
        ),
        "uniform": (
            drawn(
                lambda self, index: np.random.default_rng(
                    (self.seed, int(self.epoch), index)
                ).uniform(size=4)
            ),
            "not-standard-normal",
        ),
    },
    "12.transfer": {
        "by rank and worker, uneven": (ByRankAndWorker, "uneven-ranks"),
        "no IterableDataset": (PlainStream, "not-iterable"),
        "the rank of a process group": (
            like(
                Rounds,
                mine=lambda self: islice(self.read(), dist.get_rank(), None, dist.get_world_size()),
            ),
            "raised",
        ),
        "by rank alone": (
            like(Rounds, __iter__=lambda self: self.mine()),
            "repeated-records",
        ),
        "worker before rank": (WorkerBeforeRank, "too-few-records"),
        "one worker does it all": (
            like(Rounds, __iter__=lambda self: iter(()) if here()[0] else self.mine()),
            "idle-worker",
        ),
        "an iterator of __init__": (KeptIterator, "used-up"),
        "numbers for records": (Numbers, "no-such-record"),
        "ranks that share differently": (TwoOfARank, "uneven-batches"),
    },
}
