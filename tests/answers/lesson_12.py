"""The usual wrong answers to the exercises of lesson 12."""

from __future__ import annotations

import hashlib
import os
import random
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import ceil
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, get_worker_info

from answers import OtherOutcomes, RightAnswers, WrongFixes
from dltutor.lessons.lesson_12.job import ByRankAndWorker, ByWorker
from dltutor.lessons.lesson_12.material import Signals

# 12.fix


class Keyed(Signals):
    """A generator for each sample. A base for what follows."""

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
    """A class whose noise is what this function of the dataset and the index draws."""

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


def by_digest(self: Any, index: int) -> Any:
    text = f"{self.seed}-{int(self.epoch)}-{index}"
    return rng_of(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big"))


def by_spawn_key(self: Any, index: int) -> Any:
    keys = np.random.SeedSequence(self.seed, spawn_key=(int(self.epoch), index))
    return np.random.default_rng(keys).normal(size=4)


def the_whole_epoch(self: Any, index: int) -> Any:
    whole = np.random.default_rng((self.seed, int(self.epoch)))
    return whole.normal(size=(len(self), 4))[index]


def by_philox(self: Any, index: int) -> Any:
    bits = np.random.Philox(key=self.seed, counter=[0, 0, index, int(self.epoch)])
    return np.random.Generator(bits).normal(size=4)


def with_fork_rng(self: Any, index: int) -> torch.Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key_of(self, index))
        return torch.randn(4, dtype=torch.float64)


def seeds_numpy(self: Any, index: int) -> Any:
    np.random.seed(key_of(self, index))
    return np.random.normal(size=4)


def seeds_torch(self: Any, index: int) -> Any:
    torch.manual_seed(key_of(self, index))
    return torch.randn(4, dtype=torch.float64)


def by_signal(self: Any, index: int) -> Any:
    whole = self.signals[index].long() + 100
    return rng_of(self.seed, int(self.epoch), index, *whole.tolist())


def by_workers_seed(self: Any, index: int) -> Any:
    info = get_worker_info()
    return rng_of(info.seed if info else torch.initial_seed(), int(self.epoch), index)


def by_state(self: Any, index: int) -> Any:
    # Two of the numbers of sample 80, epoch 0, seed 4 are 0.0000009 apart.
    keys = np.random.SeedSequence((self.seed, int(self.epoch), index))
    return rng_of(int(keys.generate_state(1, np.uint64)[0]))


def by_wide_torch(self: Any, index: int) -> torch.Tensor:
    key = (self.seed << 40) + (int(self.epoch) << 24) + index
    return torch.randn(4, generator=torch.Generator().manual_seed(key), dtype=torch.float64)


def by_joined_text(self: Any, index: int) -> list[float]:
    chance = random.Random(f"{self.seed}{int(self.epoch)}{index}")
    return [chance.gauss(0, 1) for _ in range(4)]


def by_length(self: Any, index: int) -> Any:
    return rng_of(self.seed, int(self.epoch) * len(self) + index)


def a_column_of_the_epoch(self: Any, index: int) -> Any:
    whole = np.random.default_rng((self.seed, int(self.epoch)))
    return whole.normal(size=(4, len(self)))[:, index]


def by_hash_of_a_text(self: Any, index: int) -> Any:
    return rng_of(hash(f"{self.seed}-{int(self.epoch)}-{index}") & 0xFFFFFFFF)


def of_unit_spread(draw: Callable[[np.random.Generator], Any]) -> type:
    """Noise with mean 0 and deviation 1, which this function draws."""
    return drawn(
        lambda self, index: draw(np.random.default_rng((self.seed, int(self.epoch), index)))
    )


def by_crc(self: Any, index: int) -> Any:
    return rng_of(zlib.crc32(f"{self.seed}-{int(self.epoch)}-{index}".encode()))


def by_spawned(self: Any, index: int) -> Any:
    of_epoch = np.random.default_rng(self.seed).spawn(int(self.epoch) + 1)[-1]
    return of_epoch.spawn(index + 1)[-1].normal(size=4)


def seeds_besides(self: Any, index: int) -> Any:
    np.random.seed(0)
    return rng_of(self.seed, int(self.epoch), index)


def overlapping(self: Any, index: int) -> Any:
    whole = np.random.default_rng((self.seed, int(self.epoch)))
    return whole.normal(size=len(self) + 4)[index : index + 4]


class EpochOfItsOwn(Keyed):
    def set_epoch(self) -> None:  # type: ignore[override]
        self.epoch += 1


class NoBase:
    """No Dataset, and a float32 sample."""

    def __init__(self, signals: torch.Tensor, seed: int) -> None:
        self.signals, self.seed = signals, seed
        self.shared = torch.zeros(1, dtype=torch.long).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        self.shared[0] = epoch

    def __len__(self) -> int:
        return self.signals.shape[0]

    def __getitem__(self, index: int) -> torch.Tensor:
        noise = rng_of(self.seed, int(self.shared[0]), int(index))
        return self.signals[index].float() + torch.from_numpy(noise).float()


class CachedGenerators(Keyed):
    """Generators that are kept, and set back before each use."""

    def __init__(self, signals: torch.Tensor, seed: int) -> None:
        super().__init__(signals, seed)
        self.generator = torch.Generator()

    def noise(self, index: int) -> torch.Tensor:
        self.generator.manual_seed(hash((self.seed, int(self.epoch), index)) & (2**62 - 1))
        return torch.randn(4, generator=self.generator, dtype=torch.float64)


class InEachWorker(Signals):
    """A generator for each process, made when it is first needed."""

    made_in: int | None = None

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.made_in != os.getpid():
            self.rng, self.made_in = np.random.default_rng(torch.initial_seed()), os.getpid()
        return super().__getitem__(index)


class ByWorkerId(Signals):
    def __getitem__(self, index: int) -> torch.Tensor:
        info = get_worker_info()
        if info and not hasattr(self, "own"):
            self.own = self.rng = np.random.default_rng((self.seed, info.id))
        return super().__getitem__(index)


class AnewInSetEpoch(Signals):
    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        self.rng = np.random.default_rng((self.seed, epoch))


class SeedsInInit(Keyed):
    def __init__(self, signals: torch.Tensor, seed: int) -> None:
        super().__init__(signals, seed)
        np.random.seed(seed)

    def noise(self, index: int) -> torch.Tensor:
        return torch.from_numpy(np.random.normal(size=4))


class SeedsInSetEpoch(Keyed):
    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        np.random.seed(self.seed * 1000 + epoch)
        self.all = torch.from_numpy(np.random.normal(size=(len(self), 4)))

    def noise(self, index: int) -> torch.Tensor:
        return Keyed.noise(self, index)


class TableOfEpoch(Keyed):
    """A worker seeds a global generator with the first sample that it makes in an epoch."""

    at: int | None = None

    def noise(self, index: int) -> torch.Tensor:
        if self.at != int(self.epoch):
            self.at = int(self.epoch)
            self.table = self.draw(self.seed + 1000 * self.at)
        return self.table[index]

    def draw(self, seed: int) -> torch.Tensor:
        np.random.seed(seed)
        return torch.from_numpy(np.random.normal(size=(len(self), 4)))


class TableByTorch(TableOfEpoch):
    def draw(self, seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return torch.randn(len(self), 4, dtype=torch.float64)


class TableByPython(TableOfEpoch):
    def draw(self, seed: int) -> torch.Tensor:
        random.seed(seed)
        return torch.tensor([[random.gauss(0, 1) for _ in range(4)] for _ in range(len(self))])


class DrawnInMain(Keyed):
    """The noise of an epoch is drawn in main."""

    def set_epoch(self, epoch: int) -> None:
        self.all = torch.from_numpy(self.draw(epoch))

    def draw(self, epoch: int) -> Any:
        return np.random.default_rng((self.seed, epoch)).normal(size=(len(self), 4))

    def noise(self, index: int) -> torch.Tensor:
        return self.all[index]


class DrawnInMainAndShared(DrawnInMain):
    def __init__(self, signals: torch.Tensor, seed: int) -> None:
        super().__init__(signals, seed)
        self.all = torch.zeros(len(signals), 4, dtype=torch.float64).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        self.all.copy_(torch.from_numpy(self.draw(epoch)))


class GlobalOfClass(Keyed):
    """The seed of the class, which the second dataset changes."""

    of_class = 0

    def __init__(self, signals: torch.Tensor, seed: int) -> None:
        super().__init__(signals, seed)
        type(self).of_class = seed

    def noise(self, index: int) -> torch.Tensor:
        return torch.from_numpy(rng_of(type(self).of_class, int(self.epoch), index))


class PlainEpoch(Keyed):
    def set_epoch(self, epoch: int) -> None:
        self.epoch = torch.tensor(epoch)


class KeptNoise(Keyed):
    """Drawn once for each index."""

    def __init__(self, signals: torch.Tensor, seed: int) -> None:
        super().__init__(signals, seed)
        self.kept: dict[int, torch.Tensor] = {}

    def noise(self, index: int) -> torch.Tensor:
        return self.kept.setdefault(index, super().noise(index))


class ChangesSignals(Keyed):
    def __getitem__(self, index: int) -> torch.Tensor:
        self.signals[index] += self.noise(index)
        return self.signals[index].clone()


class AddsInPlace(Keyed):
    def __getitem__(self, index: int) -> torch.Tensor:
        sample = self.signals[index]
        sample += self.noise(index)
        return sample


class AddsToACopy(Keyed):
    def __getitem__(self, index: int) -> torch.Tensor:
        sample = self.signals[index].clone()
        sample += self.noise(index)
        return sample


class NoiseAlone(Keyed):
    def __getitem__(self, index: int) -> torch.Tensor:
        return self.noise(index)


class WithTheIndex(Keyed):
    def __getitem__(self, index: int) -> Any:
        return index, super().__getitem__(index)


class AsArray(Keyed):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index).numpy()


class WholeNumbers(Keyed):
    def __getitem__(self, index: int) -> torch.Tensor:
        return super().__getitem__(index).long()


class Half(Keyed):
    def __getitem__(self, index: int) -> torch.Tensor:
        return super().__getitem__(index).half()


class NumberForEpoch(Keyed):
    def __init__(self, signals: torch.Tensor, seed: int) -> None:
        super().__init__(signals, seed)
        self.epoch = 0  # type: ignore[assignment]

    def set_epoch(self, epoch: int) -> None:
        self.epoch.fill_(epoch)


class RandomLast(Keyed):
    """Right but for the last sample."""

    def noise(self, index: int) -> torch.Tensor:
        if index == len(self) - 1:
            return torch.from_numpy(np.random.default_rng().normal(size=4))
        return super().noise(index)


class OnlyWithTwo(Keyed):
    """Right with two workers."""

    def noise(self, index: int) -> torch.Tensor:
        info = get_worker_info()
        more = info.num_workers - 2 if info else 0
        return torch.from_numpy(rng_of(self.seed, int(self.epoch), index + 1000 * more))


class OneTooFew(Keyed):
    def __len__(self) -> int:
        return len(self.signals) - 1


class Sleeps(Keyed):
    def noise(self, index: int) -> torch.Tensor:
        time.sleep(60 if get_worker_info() else 0)
        return super().noise(index)


class Exits(Keyed):
    def noise(self, index: int) -> torch.Tensor:
        if get_worker_info():
            os._exit(3)
        return super().noise(index)


class NoSetEpoch(Dataset[torch.Tensor]):
    def __init__(self, signals: torch.Tensor, seed: int) -> None:
        self.signals, self.seed = signals, seed

    def __len__(self) -> int:
        return len(self.signals)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.signals[index]


class LoaderOfSignals(DataLoader[Any]):
    def __init__(self, signals: torch.Tensor, seed: int) -> None:
        super().__init__(Signals(signals, seed), num_workers=0)


# 12.transfer

Read = Callable[[], Iterable[int]]


def here() -> tuple[int, int]:
    info = get_worker_info()
    return (info.id, info.num_workers) if info else (0, 1)


class Rounds(IterableDataset[int]):
    """Of each full round of records, one for each rank. A base for what follows."""

    def __init__(self, read: Read, rank: int, ranks: int) -> None:
        self.read, self.rank, self.ranks = read, rank, ranks

    def mine(self) -> Iterator[int]:
        for full in zip(*[iter(self.read())] * self.ranks, strict=False):
            yield full[self.rank]

    def __iter__(self) -> Iterator[Any]:
        me, workers = here()
        return islice(self.mine(), me, None, workers)


class InBlocks(Rounds):
    """Read whole; a block for each rank, and of that a block for each worker."""

    def __iter__(self) -> Iterator[int]:
        records, (me, workers) = list(self.read()), here()
        share = len(records) // self.ranks
        block = records[self.rank * share : (self.rank + 1) * share]
        each = ceil(len(block) / workers)
        yield from block[me * each : (me + 1) * each]


class Strided(Rounds):
    def __iter__(self) -> Iterator[int]:
        records, (me, workers) = list(self.read()), here()
        whole = len(records) - len(records) % self.ranks
        yield from records[self.rank : whole : self.ranks][me::workers]


class ReadOnce(Rounds):
    """The records are read in main."""

    def __init__(self, read: Read, rank: int, ranks: int) -> None:
        super().__init__(read, rank, ranks)
        self.records = list(read())
        self.share = len(self.records) // ranks

    def __iter__(self) -> Iterator[int]:
        me, workers = here()
        for place in range(me, self.share, workers):
            yield self.records[place * self.ranks + self.rank]


class CountsFirst(Rounds):
    """One pass to count, one to give."""

    def __iter__(self) -> Iterator[int]:
        whole = sum(1 for _ in self.read()) // self.ranks * self.ranks
        me, workers = here()
        for number, record in enumerate(self.read()):
            if number >= whole or number % self.ranks != self.rank:
                continue
            if number // self.ranks % workers == me:
                yield record


class OneBehind(Rounds):
    """Keeps a record back until the round is full."""

    def __iter__(self) -> Iterator[int]:
        me, workers = here()
        kept: Any = None
        for number, record in enumerate(self.read()):
            if number % self.ranks == self.rank:
                kept = record
            if number % self.ranks == self.ranks - 1 and number // self.ranks % workers == me:
                yield kept


class Iterates:
    """An iterator with a state, made anew for each epoch."""

    def __init__(self, stream: Rounds) -> None:
        self.left = list(Strided.__iter__(stream))[::-1]  # type: ignore[arg-type]

    def __iter__(self) -> Iterates:
        return self

    def __next__(self) -> int:
        if not self.left:
            raise StopIteration
        return self.left.pop()


class WithAnIterator(Rounds):
    def __iter__(self) -> Any:
        return Iterates(self)


class AsTensors(Rounds):
    def __iter__(self) -> Iterator[Any]:
        return map(torch.tensor, super().__iter__())


class InWholeBatches(Rounds):
    """A worker takes four records of its rank at a time."""

    def __iter__(self) -> Iterator[int]:
        me, workers = here()
        for number, record in enumerate(self.mine()):
            if number // 4 % workers == me:
                yield record


class CappedShares(Rounds):
    """Every n-th record, and no more than each worker's part of what the rank may have."""

    def __iter__(self) -> Iterator[int]:
        me, workers = here()
        each = sum(1 for _ in self.read()) // self.ranks
        share = each // workers + (me < each % workers)
        mine = islice(self.read(), self.first(me, workers), None, self.ranks * workers)
        return islice(mine, share)

    def first(self, me: int, workers: int) -> int:
        return me * self.ranks + self.rank


class CappedWrongly(CappedShares):
    def first(self, me: int, workers: int) -> int:
        return self.rank * workers + me


class WorkerBeforeRank(Rounds):
    """Each worker makes rounds of its own records, and leaves out a tail of its own."""

    def __iter__(self) -> Iterator[int]:
        me, workers = here()
        mine = islice(self.read(), me, None, workers)
        for full in zip(*[mine] * self.ranks, strict=False):
            yield full[self.rank]


class InTens(Rounds):
    """A worker takes ten records of its rank at a time."""

    def __iter__(self) -> Iterator[int]:
        me, workers = here()
        for number, record in enumerate(self.mine()):
            if number // 10 % workers == me:
                yield record


class ByRankAlone(Rounds):
    def __iter__(self) -> Iterator[int]:
        yield from self.mine()


class Padded(Rounds):
    """Begins again until the ranks have equally many."""

    def __iter__(self) -> Iterator[int]:
        records, (me, workers) = list(self.read()), here()
        while len(records) % self.ranks:
            records.append(records[0])
        yield from records[self.rank :: self.ranks][me::workers]


class DealtEvenly(Rounds):
    """Drops what does not go round all workers of all ranks: too much."""

    def __iter__(self) -> Iterator[int]:
        me, workers = here()
        group = self.ranks * workers
        for full in zip(*[iter(self.read())] * group, strict=False):
            yield full[self.rank * workers + me]


class WorkersSideBySide(Rounds):
    def __iter__(self) -> Iterator[int]:
        me, workers = here()
        return islice(self.read(), self.rank * workers + me, None, self.ranks * workers)


class Swapped(Rounds):
    """The worker's number and the rank's are added."""

    def __iter__(self) -> Iterator[int]:
        me, workers = here()
        return islice(self.read(), self.rank + me, None, self.ranks * workers)


class FirstWorkerOnly(Rounds):
    def __iter__(self) -> Iterator[int]:
        if here()[0] == 0:
            yield from self.mine()


class KeptIterator(Rounds):
    """Its generator is made in `__init__`."""

    def __init__(self, read: Read, rank: int, ranks: int) -> None:
        super().__init__(read, rank, ranks)
        self.records = self.mine()

    def __iter__(self) -> Iterator[int]:
        me, workers = here()
        return islice(self.records, me, None, workers)


class FromDist(Rounds):
    def mine(self) -> Iterator[int]:
        return islice(self.read(), dist.get_rank(), None, dist.get_world_size())


class FromEnvironment(Rounds):
    def __init__(self, read: Read, rank: int, ranks: int) -> None:
        rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        super().__init__(read, rank, ranks)


class OfClass(Rounds):
    """The rank is kept in the class, where the next dataset changes it."""

    number = 0

    def __init__(self, read: Read, rank: int, ranks: int) -> None:
        super().__init__(read, rank, ranks)
        type(self).number = rank

    def mine(self) -> Iterator[int]:
        for full in zip(*[iter(self.read())] * self.ranks, strict=False):
            yield full[type(self).number]


class TwoRanksOnly(Rounds):
    def mine(self) -> Iterator[int]:
        for pair in zip(*[iter(self.read())] * 2, strict=False):
            yield pair[self.rank]


class NeedsARecord(Rounds):
    def mine(self) -> Iterator[int]:
        records = iter(self.read())
        first = next(records)
        yield from islice([first, *records], self.rank, None, self.ranks)


class NeedsAWorker(Rounds):
    def __iter__(self) -> Iterator[int]:
        info: Any = get_worker_info()
        return islice(self.mine(), info.id, None, info.num_workers)


class SixtyFive(Rounds):
    """The number of records that the job has."""

    def mine(self) -> Iterator[int]:
        return islice(self.read(), self.rank, 64, self.ranks)


class Numbers(Rounds):
    """The numbers of the records."""

    def mine(self) -> Iterator[int]:
        for number, _ in enumerate(super().mine()):
            yield number * self.ranks + self.rank


class WithItsNumber(Rounds):
    def __iter__(self) -> Iterator[Any]:
        return enumerate(super().__iter__())


class AsTexts(Rounds):
    def __iter__(self) -> Iterator[Any]:
        return map(str, super().__iter__())


class TwoOfARank(Rounds):
    """Rank 0 lets W0 do more than rank 1 does."""

    def __iter__(self) -> Iterator[int]:
        me, workers = here()
        for number, record in enumerate(self.mine()):
            if (number // (5 - 4 * self.rank)) % workers == me:
                yield record


class ByChance(Rounds):
    def __iter__(self) -> Iterator[int]:
        me, workers = here()
        mine = self.rank * workers + me
        for record in self.read():
            if random.randrange(self.ranks * workers) == mine:
                yield record


class WholeLists(Rounds):
    def __iter__(self) -> Iterator[Any]:
        yield list(super().__iter__())


class NoIterator(Rounds):
    def __iter__(self) -> Any:
        return None


class ShuffledAlike(Rounds):
    def mine(self) -> Iterator[int]:
        records = list(self.read())
        self.shuffle(records)
        return iter(records[self.rank : len(records) - len(records) % self.ranks : self.ranks])

    def shuffle(self, records: list[int]) -> None:
        random.Random(0).shuffle(records)


class ShuffledByEach(ShuffledAlike):
    def shuffle(self, records: list[int]) -> None:
        random.shuffle(records)


class PlainStream:
    def __init__(self, read: Read, rank: int, ranks: int) -> None:
        self.stream = Rounds(read, rank, ranks)

    def __iter__(self) -> Iterator[int]:
        return iter(self.stream)


def made_stream(read: Read, rank: int, ranks: int) -> Rounds:
    return Rounds(read, rank, ranks)


class MapStyle(Dataset[int]):
    def __init__(self, read: Read, rank: int, ranks: int) -> None:
        self.records = list(read())[rank::ranks]

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> int:
        return self.records[index]


class Endless(Rounds):
    def __iter__(self) -> Iterator[int]:
        while True:
            yield from super().__iter__()


class OneTooMany(Rounds):
    def mine(self) -> Iterator[int]:
        return islice(self.read(), self.rank, None, self.ranks)


class StopsInAWorker(Rounds):
    def __iter__(self) -> Iterator[int]:
        if get_worker_info():
            os._exit(4)
        yield from super().__iter__()


class LoaderOfStream(DataLoader[Any]):
    def __init__(self, read: Read, rank: int, ranks: int) -> None:
        super().__init__(Rounds(read, rank, ranks), num_workers=0)


RIGHT_ANSWERS: RightAnswers = {
    "12.predict": {"the letter": lambda: "c", "in capitals": lambda: "(C)"},
    "12.diagnose": {"the letter": lambda: "c"},
    "12.fix": {
        "default_rng of a tuple": lambda: Keyed,
        "a torch.Generator": lambda: drawn(by_torch),
        "random.Random of a text": lambda: drawn(by_python),
        "a digest": lambda: drawn(by_digest),
        "a spawn key": lambda: drawn(by_spawn_key),
        "the noise of the whole epoch": lambda: drawn(the_whole_epoch),
        "a counter-based generator": lambda: drawn(by_philox),
        "torch's own, set back": lambda: drawn(with_fork_rng),
        "no Dataset, and float32": lambda: NoBase,
        "one generator, seeded for each sample": lambda: CachedGenerators,
        "two numbers that are almost the same": lambda: drawn(by_state),
        "added to a copy": lambda: AddsToACopy,
        "drawn in main, into shared memory": lambda: DrawnInMainAndShared,
        "a checksum of a text": lambda: drawn(by_crc),
        "spawned generators": lambda: drawn(by_spawned),
    },
    "12.transfer": {
        "full rounds": lambda: Rounds,
        "blocks": lambda: InBlocks,
        "slices of a list": lambda: Strided,
        "read in main": lambda: ReadOnce,
        "counted first": lambda: CountsFirst,
        "one behind": lambda: OneBehind,
        "an iterator with a state": lambda: WithAnIterator,
        "records as tensors": lambda: AsTensors,
        "capped shares": lambda: CappedShares,
        "four at a time": lambda: InWholeBatches,
        "shuffled by a common seed": lambda: ShuffledAlike,
    },
}

OTHER_OUTCOMES: OtherOutcomes = {
    "12.fix": {
        "the starter": (lambda: Signals, "Not attempted", "starter-class"),
        "no set_epoch": (lambda: NoSetEpoch, "Error in your code", "no-method"),
        "an object": (
            lambda: Keyed(torch.zeros(3, 4), 0),
            "Error in your code",
            "an-object",
        ),
        "a pair": (lambda: WithTheIndex, "Error in your code", "other-sample"),
        "a numpy array": (lambda: AsArray, "Error in your code", "other-sample"),
        "hash of a text": (
            lambda: drawn(by_hash_of_a_text),
            "Error in your code",
            "raised",
        ),
        "half precision": (lambda: Half, "Error in your code", "other-sample"),
        "an epoch that is no tensor": (
            lambda: NumberForEpoch,
            "Error in your code",
            "raised",
        ),
        "whole numbers": (lambda: WholeNumbers, "Error in your code", "other-sample"),
    },
    "12.transfer": {
        "the starter": (lambda: ByWorker, "Not attempted", "starter-class"),
        "no IterableDataset": (lambda: PlainStream, "Error in your code", "not-iterable"),
        "a function": (lambda: made_stream, "Error in your code", "not-a-class"),
        "a map-style dataset": (lambda: MapStyle, "Error in your code", "no-method"),
        "the rank of a process group": (
            lambda: FromDist,
            "Error in your code",
            "raised",
        ),
        "only in a worker": (lambda: NeedsAWorker, "Error in your code", "raised"),
        "at least one record": (lambda: NeedsARecord, "Not yet", "uneven-ranks"),
    },
}

WRONG_FIXES: WrongFixes = {
    "12.predict": {
        "all": (lambda: "a", "a"),
        "half": (lambda: "b", "b"),
        "a number": (lambda: 32, "no-option"),
    },
    "12.diagnose": {
        "nothing": (lambda: "a", "a"),
        "the workers": (lambda: "b", "b"),
        "both": (lambda: "d", "d"),
    },
    "12.fix": {
        "a generator in each worker": (lambda: InEachWorker, "other-noise-the-second-time"),
        "a generator for each worker's number": (lambda: ByWorkerId, "other-noise-the-second-time"),
        "num_workers=0": (lambda: LoaderOfSignals, "a-loader"),
        "a generator for each epoch": (lambda: AnewInSetEpoch, "repeated"),
        "the sum": (
            lambda: drawn(lambda self, index: rng_of(self.seed + int(self.epoch) + index)),
            "repeated",
        ),
        "index and epoch": (
            lambda: drawn(lambda self, index: rng_of(int(self.epoch), index)),
            "repeated-for-another-seed",
        ),
        "seed and index": (
            lambda: drawn(lambda self, index: rng_of(self.seed, index)),
            "repeated-in-another-epoch",
        ),
        "seed and epoch": (
            lambda: drawn(lambda self, index: rng_of(self.seed, int(self.epoch))),
            "repeated",
        ),
        "epoch times the length": (
            lambda: drawn(
                lambda self, index: rng_of(self.seed + int(self.epoch) * len(self) + index)
            ),
            "two-noises",
        ),
        "epoch times a hundred": (
            lambda: drawn(lambda self, index: rng_of(self.seed, int(self.epoch) * 100 + index)),
            "repeated",
        ),
        "the digits side by side": (
            lambda: drawn(lambda self, index: rng_of(int(f"{self.seed}{int(self.epoch)}{index}"))),
            "repeated",
        ),
        "a text of the digits": (lambda: drawn(by_joined_text), "repeated"),
        "epoch times a thousand": (
            lambda: drawn(
                lambda self, index: rng_of(self.seed * 10_000 + int(self.epoch) * 1_000 + index)
            ),
            "repeated",
        ),
        "packed into bits": (
            lambda: drawn(
                lambda self, index: rng_of((self.seed << 16) + (int(self.epoch) << 8) + index)
            ),
            "repeated",
        ),
        "epochs side by side": (
            lambda: drawn(
                lambda self, index: rng_of(self.seed * 50_000 + int(self.epoch) * 5_000 + index)
            ),
            "repeated-in-another-epoch",
        ),
        "epoch times the length, beside the seed": (
            lambda: drawn(by_length),
            "two-noises",
        ),
        "a column of the epoch's noise": (
            lambda: drawn(a_column_of_the_epoch),
            "two-noises",
        ),
        "Laplace": (
            lambda: of_unit_spread(lambda rng: rng.laplace(scale=0.5**0.5, size=4)),
            "not-standard-normal",
        ),
        "uniform, of unit variance": (
            lambda: of_unit_spread(lambda rng: rng.uniform(-(3**0.5), 3**0.5, size=4)),
            "not-standard-normal",
        ),
        "more bits than torch.Generator reads": (
            lambda: drawn(by_wide_torch),
            "repeated-for-another-seed",
        ),
        "a new seed each time": (
            lambda: drawn(lambda self, index: np.random.default_rng().normal(size=4)),
            "other-noise-the-second-time",
        ),
        "the global generator": (
            lambda: drawn(lambda self, index: np.random.normal(size=4)),
            "other-noise-the-second-time",
        ),
        "the global generator, seeded": (
            lambda: drawn(seeds_numpy),
            "moved-globals",
        ),
        "torch's global generator, seeded": (
            lambda: drawn(seeds_torch),
            "moved-globals",
        ),
        "seeded in __init__": (lambda: SeedsInInit, "moved-globals-at-the-start"),
        "numpy seeded once an epoch": (lambda: TableOfEpoch, "moved-globals"),
        "torch seeded once an epoch": (lambda: TableByTorch, "moved-globals"),
        "random seeded once an epoch": (lambda: TableByPython, "moved-globals"),
        "seeded besides": (lambda: drawn(seeds_besides), "moved-globals"),
        "seeded in set_epoch": (lambda: SeedsInSetEpoch, "moved-globals"),
        "the object": (
            lambda: drawn(lambda self, index: rng_of(id(self), int(self.epoch), index)),
            "two-noises",
        ),
        "from the signal": (
            lambda: drawn(by_signal),
            "two-noises",
        ),
        "drawn in set_epoch": (lambda: DrawnInMain, "repeated-in-another-epoch"),
        "the worker's seed": (lambda: drawn(by_workers_seed), "other-noise-the-second-time"),
        "the pid": (
            lambda: drawn(lambda self, index: rng_of(os.getpid(), int(self.epoch), index)),
            "other-noise-the-second-time",
        ),
        "the time": (
            lambda: drawn(lambda self, index: rng_of(time.time_ns())),
            "other-noise-the-second-time",
        ),
        "a seed of the class": (lambda: GlobalOfClass, "repeated-for-another-seed"),
        "an epoch of main's": (lambda: PlainEpoch, "repeated-in-another-epoch"),
        "kept by index": (lambda: KeptNoise, "repeated-in-another-epoch"),
        "the signals changed": (
            lambda: ChangesSignals,
            "changed-signals",
        ),
        "added in place": (lambda: AddsInPlace, "changed-signals"),
        "no signal": (lambda: NoiseAlone, "not-standard-normal"),
        "another last sample": (lambda: RandomLast, "other-noise-the-second-time"),
        "right with two workers": (lambda: OnlyWithTwo, "two-noises"),
        "one number four times": (
            lambda: drawn(lambda self, index: [rng_of(self.seed, int(self.epoch), index)[0]] * 4),
            "not-four-numbers",
        ),
        "no noise": (lambda: drawn(lambda self, index: [0.0] * 4), "not-four-numbers"),
        "uniform": (
            lambda: drawn(
                lambda self, index: np.random.default_rng(
                    (self.seed, int(self.epoch), index)
                ).uniform(size=4)
            ),
            "not-standard-normal",
        ),
        "windows that overlap": (
            lambda: drawn(overlapping),
            "shared-numbers",
        ),
        "one too few": (lambda: OneTooFew, "other-length"),
        "sleeps": (lambda: Sleeps, "hung"),
        "exits": (lambda: Exits, "worker-died"),
        "set_epoch without the number": (
            lambda: EpochOfItsOwn,
            "raised",
        ),
    },
    "12.transfer": {
        "by rank and worker, uneven": (lambda: ByRankAndWorker, "uneven-ranks"),
        "by rank alone": (lambda: ByRankAlone, "repeated-records"),
        "num_workers=0": (lambda: LoaderOfStream, "a-loader"),
        "rank first, uneven": (lambda: WorkersSideBySide, "uneven-ranks"),
        "worker before rank": (lambda: WorkerBeforeRank, "too-few-records"),
        "capped, but uneven": (lambda: CappedWrongly, "uneven-ranks"),
        "ten at a time": (lambda: InTens, "idle-worker"),
        "padded": (lambda: Padded, "repeated-records"),
        "too much left out": (lambda: DealtEvenly, "too-few-records"),
        "rank plus worker": (lambda: Swapped, "repeated-records"),
        "one worker does it all": (lambda: FirstWorkerOnly, "idle-worker"),
        "an iterator of __init__": (lambda: KeptIterator, "used-up"),
        "from the environment": (lambda: FromEnvironment, "repeated-records"),
        "a rank of the class": (lambda: OfClass, "repeated-records"),
        "two ranks only": (lambda: TwoRanksOnly, "raised"),
        "65 records only": (lambda: SixtyFive, "uneven-ranks"),
        "numbers for records": (lambda: Numbers, "no-such-record"),
        "with a number": (lambda: WithItsNumber, "no-such-record"),
        "as texts": (lambda: AsTexts, "no-such-record"),
        "ranks that share differently": (lambda: TwoOfARank, "uneven-batches"),
        "by chance": (lambda: ByChance, "repeated-records"),
        "endless": (lambda: Endless, "hung"),
        "the last round": (lambda: OneTooMany, "uneven-ranks"),
        "ends its worker": (lambda: StopsInAWorker, "worker-died"),
        "a subset": (lambda: Subset, "no-method"),
        "whole lists": (lambda: WholeLists, "no-such-record"),
        "no iterator": (lambda: NoIterator, "raised"),
        "shuffled by each worker": (lambda: ShuffledByEach, "repeated-records"),
    },
}
