"""On several ranks, every epoch has the same order, and some samples count twice.

Symptom: DistributedSampler gives the same order every epoch, or evaluation on two ranks gives a
different result than on one, because samples are counted twice. Neither raises an error.

NOTE [ How The Ranks Agree Without Talking ]

Each rank has its own sampler, and the samplers never exchange an index. Each sampler shuffles all
indices with the seed `seed + epoch` and takes every n-th of them. So all samplers have to know the
same epoch, and only the training loop can tell them. Without `set_epoch`, the samplers' epoch stays
0, and every epoch has the order of the first one. (`DataLoader(shuffle=True)` on one rank draws a
new seed itself, so one rank gets new orders.) The sampler runs in the main process, so persistent
workers don't matter.

All ranks have to run the same number of steps, or a rank with more steps waits forever for the
other ranks' gradients. So the samplers repeat the first indices until the number of indices is a
multiple of the number of ranks. These repeats do no harm in training, but in evaluation they're
wrong, because up to `ranks - 1` samples count twice.

Fix: call `loader.sampler.set_epoch(epoch)` before every epoch. For evaluation, deal the indices
out without padding, `range(rank, length, ranks)`, because an evaluation that gathers its results
once at the end can handle shares of unequal length. An evaluation with collective calls in every
step can't, so keep the padding and drop the duplicates when you gather. The sampler's
`drop_last=True` leaves samples out instead.

Seen in: pytorch#31771 (order), pytorch#25162 and pytorch#22584 (padding), rf-detr#1507 (2026).
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Sampler

from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load

Kind = Literal["order", "padding"]
Loader = DataLoader[torch.Tensor]
Orders = list[list[int]]  # the indices in each epoch

RANKS, LENGTH, EPOCHS = 2, 63, 2


class Numbers(Dataset[torch.Tensor]):
    """A dataset whose samples are their own indices."""

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index)


class Share(Sampler[int]):
    """A sampler of every n-th index, without padding, so the ranks' shares may differ by one."""

    def __init__(self, rank: int) -> None:
        self.indices = range(rank, LENGTH, RANKS)

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices)

    def __len__(self) -> int:
        return len(self.indices)


def train(loader: Loader) -> Orders:
    """Run two epochs, and return the order of the indices in each."""
    return [_epoch(loader) for _ in range(EPOCHS)]


def train_reshuffled(loader: Loader) -> Orders:
    """Run two epochs with `set_epoch`, and return the order of the indices in each."""
    sampler: Any = loader.sampler
    orders = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        orders.append(_epoch(loader))
    return orders


def evaluate(loader: Loader) -> Orders:
    """Run one epoch, and return a list whose one element is the order of the indices."""
    return [_epoch(loader)]


def same_order(orders: list[Orders]) -> Finding:
    """Count the epochs that had the same order as an earlier one, on every rank."""
    epochs = [str(epoch) for epoch in zip(*orders, strict=True)]
    return Finding(
        len(epochs) - len(set(epochs)), f"of {len(epochs)} epochs in an order seen before"
    )


def counted_twice(orders: list[Orders]) -> Finding:
    """Count how often a sample arrived that had arrived before, on any rank."""
    seen = [index for rank in orders for index in rank[0]]
    return Finding(len(seen) - len(set(seen)), f"of {LENGTH} samples counted twice")


def judge_two_ranks(
    loader: Loader,
    loop: Callable[[Loader], Orders],
    judge: Callable[[list[Orders]], Finding],
    other: Sampler[int],
) -> Finding:
    """Run a loop as rank 0 here and as rank 1 in another process, and judge both results.

    Args:
        loader: The loader of rank 0.
        loop: The function that each rank runs on its loader.
        judge: The function that turns the orders from all ranks into a Finding.
        other: The sampler of rank 1.
    """
    context: Any = loader.multiprocessing_context or multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_be_rank_1, args=(theirs, loop, other), daemon=True)
    process.start()
    theirs.close()
    with ours:
        try:
            gathered = [loop(loader), ours.recv()]
            process.join()
        finally:
            process.kill()
            process.join()
            process.close()
    return judge(gathered)


def _be_rank_1(main: Any, loop: Callable[[Loader], Orders], sampler: Sampler[int]) -> None:
    main.send(loop(DataLoader(Numbers(), batch_size=8, sampler=sampler)))


def _epoch(loader: Loader) -> list[int]:
    return [int(index) for batch in loader for index in batch]


def broken(*, workers: int = 2, start_method: str = "fork", kind: Kind = "order") -> Case:
    """Build a case that trains without `set_epoch` or, for "padding", evaluates with repeats."""
    if kind == "padding":
        unshuffled = partial(_padded, shuffle=False)
        return _case(unshuffled, evaluate, counted_twice, workers, start_method)
    return _case(_padded, train, same_order, workers, start_method)


def fixed(*, workers: int = 2, start_method: str = "fork", kind: Kind = "order") -> Case:
    """Build a case that trains with `set_epoch` or, for "padding", evaluates without repeats."""
    if kind == "padding":
        return _case(Share, evaluate, counted_twice, workers, start_method)
    return _case(_padded, train_reshuffled, same_order, workers, start_method)


def _padded(rank: int, shuffle: bool = True) -> Sampler[int]:
    return DistributedSampler(Numbers(), RANKS, rank, shuffle=shuffle)


def _case(
    sampler_of: Callable[[int], Sampler[int]],
    loop: Callable[[Loader], Orders],
    judge: Callable[[list[Orders]], Finding],
    workers: int,
    start_method: str,
) -> Case:
    loader = load(Numbers(), workers, start_method, batch_size=8, sampler=sampler_of(0))
    return Case(loader, partial(judge_two_ranks, loop=loop, judge=judge, other=sampler_of(1)))


FAILURE = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Counts(EPOCHS - 1),
    deadline=60,  # because rank 1 and the new workers of each epoch may import torch
)
