"""Run a job on two ranks, with the command `torchrun --nproc-per-node 2 job.py`.

With `--set-epoch FILE`, the job calls `set_epoch` on its sampler, and runs the stream whose class
is pickled in FILE.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, get_worker_info

RECORDS: Final = 65
_TIMES: Final = {1: "once", 2: "twice"}


class ByWorker(IterableDataset[int]):
    """A stream that divides its records among a rank's workers. Each rank reads all records."""

    def __init__(self, read: Callable[[], Iterable[int]], rank: int, ranks: int) -> None:
        self.read = read

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        me, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        for number, record in enumerate(self.read()):
            if number % workers == me:
                yield record


class ByRankAndWorker(IterableDataset[int]):
    """A stream whose records all workers of all ranks share."""

    def __init__(self, read: Callable[[], Iterable[int]], rank: int, ranks: int) -> None:
        self.read, self.rank, self.ranks = read, rank, ranks

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        me, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        for number, record in enumerate(self.read()):
            if number % (self.ranks * workers) == me * self.ranks + self.rank:
                yield record


def census(
    loader: Iterable[Any], epochs: int = 1, names: Callable[[Any], list[Any]] = torch.Tensor.tolist
) -> Counter[Any]:
    """Count how many times each sample arrives, over epochs, workers, and ranks.

    Args:
        loader: The loader to run. If there are several ranks, each rank passes its own.
        epochs: Number of epochs (default 1).
        names: A function that takes a batch and returns what to count for each of its samples. The
            default counts the numbers in a tensor.
    """
    came = Counter[Any]()
    for _ in range(epochs):
        for batch in loader:
            came.update(names(batch))
    # All ranks have to call this function, because `all_gather_object` waits for every rank.
    if dist.is_available() and dist.is_initialized():
        of_ranks: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(of_ranks, came)
        came = sum(of_ranks, Counter())
    return came


def load(dataset: Any, sampler: Any = None) -> DataLoader[Any]:
    """Make a rank's loader, with two workers."""
    fork: Any = "fork"
    return DataLoader(
        dataset, batch_size=8, num_workers=2, sampler=sampler, multiprocessing_context=fork
    )


def read() -> Iterable[int]:
    """Return all records, which are numbers here."""
    return range(RECORDS)


def shuffled(told: bool) -> None:
    """Print whether a DistributedSampler changes the order in epoch 1, and another epoch's census.

    Args:
        told: Whether to call the sampler's `set_epoch` before epochs 0 and 1.
    """
    records: Any = range(RECORDS)
    sampler = DistributedSampler[int](records)
    loader, orders = load(records, sampler), []
    for epoch in range(2):
        if told:
            sampler.set_epoch(epoch)
        orders.append([number for batch in loader for number in batch.tolist()])
    how = "has the order of epoch 0" if orders[0] == orders[1] else "has a new order"
    say(f"DistributedSampler: epoch 1 {how}; {summary(census(loader))}")


def streamed(stream: Callable[..., IterableDataset[int]]) -> None:
    """Count one epoch, then run another with a collective call in each step."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    loader = load(stream(read, rank, ranks))
    say(f"{stream.__name__}: {summary(census(loader))}")
    impatient = dist.new_group(timeout=timedelta(seconds=5))  # torch's default is 30 minutes
    step = 0
    for step, _ in enumerate(loader, start=1):
        try:
            dist.all_reduce(torch.zeros(3), group=impatient)  # all ranks wait for each other
        except RuntimeError:
            sys.exit(f"rank {rank} waited 5 s in all_reduce, step {step}, and gave up")
    steps: list[Any] = [None] * ranks
    dist.all_gather_object(steps, step)
    say(f"  steps of the ranks: {steps}")


def summary(came: Counter[Any]) -> str:
    """Return how many records a census lacks, and how many arrived once, twice, and so on."""
    expected = Counter(read())
    times = Counter(came.values())
    often = [
        f"{count} arrived {_TIMES.get(number, f'{number} times')}"
        for number, count in sorted(times.items())
    ]
    return ", ".join([f"{len(expected - came)} missing", *often])


def say(text: str) -> None:
    """Print a message, but only on rank 0."""
    if dist.get_rank() == 0:
        print(text, flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    if sys.argv[1:2] == ["--set-epoch"]:
        import cloudpickle

        shuffled(told=True)
        streamed(cloudpickle.loads(Path(sys.argv[2]).read_bytes()))
    else:
        shuffled(told=False)
        streamed(ByWorker)
        streamed(ByRankAndWorker)
    dist.destroy_process_group()
