"""A stream shuffles in a buffer that's too small, so a batch holds only neighbors, or one class.

Symptom: an IterableDataset with a shuffle buffer yields batches of one class, or of samples that
are neighbors in the files. The loss rises and falls in each epoch as one class follows another. The
same data trains well in a map-style dataset with `shuffle=True`.

Mechanism: a stream can't jump to a random sample, so it's shuffled in a buffer. The stream yields a
random sample from the buffer, and the next one from the files takes its place. With room for n
samples, each sample waits there for about n others, so two samples that are much further apart in
the files hardly ever share a batch. If the files were written class by class and are read in order,
a batch has one class, and each epoch has almost the same order as the last one. The samples are all
there, and the order does differ, so a look at a few batches shows nothing wrong.

Fix: shuffle the data once, before it's written. If you can't, shuffle the shards in each epoch, and
use a buffer that holds several of them, or read from several shards in turn. Shuffling the shards
isn't enough if all of a batch still comes from one shard, and that shard has one class.

Seen in: webdataset#62, webdataset#71, datasets#8015 (2026: batches with related samples),
DALI#6491 (2026: `random_shuffle` shuffles only within its buffer).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load

LENGTH, CLASSES, SHARDS = 2048, 8, 32
BATCH, BUFFER = 16, 16
SEVERAL_SHARDS = 8 * LENGTH // SHARDS


class Photos(IterableDataset[torch.Tensor]):
    """A stream of photos in random order. Each of n workers reads every n-th shard.

    Args:
        shards: The photos of each shard.
        buffer: How many photos to shuffle together.
    """

    def __init__(self, shards: Sequence[torch.Tensor], buffer: int) -> None:
        self.shards = shards
        self.buffer = buffer

    def __iter__(self) -> Iterator[torch.Tensor]:
        return shuffled(chain.from_iterable(self.own_shards()), self.buffer)

    def own_shards(self) -> Sequence[torch.Tensor]:
        worker = get_worker_info()
        return self.shards[worker.id :: worker.num_workers] if worker else self.shards


class MixedPhotos(Photos):
    """A stream of photos in random order, from shards in random order."""

    def own_shards(self) -> Sequence[torch.Tensor]:
        shards = super().own_shards()
        return random.sample(shards, len(shards))


def shuffled(samples: Iterable[torch.Tensor], size: int) -> Iterator[torch.Tensor]:
    """Yield samples in random order, from a buffer of `size` samples."""
    samples = iter(samples)
    buffer = list(islice(samples, size))
    for sample in samples:
        at = random.randrange(size)
        yield buffer[at]
        buffer[at] = sample
    random.shuffle(buffer)
    yield from buffer


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run one epoch, and count the batches whose photos are all of one class."""
    classes = [set((batch * CLASSES // LENGTH).tolist()) for batch in loader]
    alike = sum(len(each) == 1 for each in classes)
    return Finding(alike, f"of {len(classes)} batches of one class")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that reads the shards in order, with a buffer for a quarter of one."""
    return _case(Photos(_shards(), BUFFER), workers, start_method)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that reads the shards in random order, with a buffer for eight of them."""
    return _case(MixedPhotos(_shards(), SEVERAL_SHARDS), workers, start_method)


def _shards() -> Sequence[torch.Tensor]:
    return torch.arange(LENGTH).chunk(SHARDS)  # the photos of one class have adjacent numbers


def _case(dataset: Photos, workers: int, start_method: str) -> Case:
    return Case(load(dataset, workers, start_method, batch_size=BATCH), train)


FAILURE = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Counts(40),  # about 80 of 128 with two workers
    ordered=False,
)
