"""One rank gets more batches than another, so it waits forever at the end of the epoch.

Symptom: the job hangs at the end of an epoch on several GPUs. On one GPU, it runs to its end. After
10 minutes, NCCL says "Watchdog caught collective operation timeout". Gloo takes 30 minutes, and
says "Timed out waiting 1800000ms for recv operation to complete".

Mechanism: in each step, all ranks average their gradients in a collective call, and a collective
call returns only once all ranks have made it. DistributedDataParallel makes it in `backward()`.
Nothing compares the numbers of batches. If one rank's share of the data ends after 8 batches, that
rank leaves its loop. A rank with 9 batches makes a ninth call, and waits for a rank that will never
make it. The timeout names the rank that waits, but that rank did nothing wrong.

Whole files (shards) are a common reason, because they have different numbers of samples. Others are
batches of a fixed number of tokens, samples that are skipped on one rank only, and shares that
differ by one sample. A DistributedSampler doesn't have this problem, because it repeats a few
samples to make all shares equal.

Fix: deal out samples instead of files, in full rounds, so that every rank gets one of each round.
If that reads too much, agree on the number of steps before the epoch: the smallest of all ranks, by
`all_reduce` with `ReduceOp.MIN`. With DistributedDataParallel, `with model.join():` lets ranks that
have finished answer the others. To find the culprit, count the batches of each rank without any
collective call.

Seen in: pytorch#33148, PyMarlin#80, CosyVoice#1727 (2025, batches of a fixed number of tokens).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from dltutor.failures.tools import Case, Failure, Says, facts_of, load, own_folder
from dltutor.failures.tools.two_ranks import RANKS, on_two_ranks

PATIENCE = 3.0  # seconds after which rank 0 stops waiting for rank 1
SHARDS = (16, 8, 16, 8, 24, 8, 16, 8)  # how many readings are in each file


class Readings(IterableDataset[int]):
    """A stream of readings from files. A rank takes every n-th file, and its workers share them."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = files

    def __iter__(self) -> Iterator[int]:
        rank = int(os.environ.get("RANK", "0"))
        return self.read(self.files[rank::RANKS])

    def read(self, files: Sequence[Path]) -> Iterator[int]:
        """Read this worker's share of some files."""
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for file in files[first::step]:
            yield from map(int, file.read_text().split())


class InRounds(Readings):
    """A stream in which each rank reads all files, and yields one reading of each full round."""

    def __iter__(self) -> Iterator[int]:
        rank = int(os.environ.get("RANK", "0"))
        readings = self.read(self.files)
        for full in zip(*[readings] * RANKS, strict=False):
            yield full[rank]


def train(loader: DataLoader[torch.Tensor]) -> None:
    """Train for an epoch, and add up the gradients of all ranks in each step."""
    for batch in loader:
        gradient = batch.float().mean()
        dist.all_reduce(gradient)


@cache
def shared_files() -> Sequence[Path]:
    """Write the files, once per process, and return their paths."""
    folder, numbers = own_folder(), iter(range(sum(SHARDS)))
    files = []
    for number, count in enumerate(SHARDS):
        files.append(folder / f"{number}.txt")
        files[-1].write_text(" ".join(str(next(numbers)) for _ in range(count)))
    return files


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose ranks share the files."""
    return _case(Readings(shared_files()), workers, start_method)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose ranks share the readings, in full rounds."""
    return _case(InRounds(shared_files()), workers, start_method)


def _case(dataset: Readings, workers: int, start_method: str) -> Case:
    # Rank 1 has no workers, so it's never late. Workers wouldn't change its number of batches.
    other = partial(load, dataset, 0, start_method)
    consume = partial(on_two_ranks, loop=train, other=other, patience=PATIENCE)
    return Case(load(dataset, workers, start_method), consume)


FAILURE = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Says("raised", ("Timed out waiting",)),
    ordered=False,
)
