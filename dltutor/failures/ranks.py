"""Training on several ranks: the same order in every epoch, and some samples counted twice.

Symptom: DistributedSampler gives the same order every epoch; evaluation on two ranks gives a
different result than on one, because samples are counted twice. Both are silent.

NOTE [ How The Ranks Agree Without Talking ]

Each rank has its own sampler, and they never exchange an index. Each one shuffles all indices with
the seed `seed + epoch` and takes every n-th of them. So they all have to know the same epoch, and
only the training loop can tell them. Without `set_epoch` it stays 0, and every epoch has the order
of the first. (`DataLoader(shuffle=True)` on one rank draws a new seed itself, so the same script is
right there.) The sampler runs in the main process, so persistent workers don't matter.

All ranks have to run the same number of steps, or the one that goes on waits forever for the
gradients of the others. So the sampler repeats the first indices until the number divides by the
number of ranks. That does no harm in training, but in evaluation it's wrong, with up to `ranks - 1`
samples too many.

Remedy: call `loader.sampler.set_epoch(epoch)` before every epoch. For evaluation, deal the indices
out without padding, `range(rank, length, ranks)`, because an evaluation that gathers its results
once at the end can handle shares of unequal length. With collective calls in every step it can't,
so keep the padding and drop the duplicates when you gather. `drop_last=True` of the sampler leaves
samples out instead.

Seen in: pytorch#31771 (order), pytorch#25162 and pytorch#22584 (padding), rf-detr#1507 (2026).
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any, Final, Literal
from unittest.mock import patch

import torch
from torch import distributed
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Sampler

from dltutor.failures.tools.contract import Case, Failure, load
from dltutor.failures.tools.sign import Counts, Finding

Kind = Literal["order", "padding"]
Loader = DataLoader[torch.Tensor]
Orders = list[list[int]]  # the indices of each epoch

RANKS, LENGTH, EPOCHS = 2, 63, 2
_HOST: Final = "127.0.0.1"
_LOOPBACK: Final = "lo0" if sys.platform == "darwin" else "lo"
_PATIENCE: Final = timedelta(seconds=60)


class Numbers(Dataset[torch.Tensor]):
    """Samples that are their own indices."""

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index)


class Share(Sampler[int]):
    """Every n-th index, without padding: shares may differ by one."""

    def __init__(self, rank: int) -> None:
        self.indices = range(rank, LENGTH, RANKS)

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices)

    def __len__(self) -> int:
        return len(self.indices)


def train(loader: Loader) -> Orders:
    """Two epochs."""
    return [_epoch(loader) for _ in range(EPOCHS)]


def train_reshuffled(loader: Loader) -> Orders:
    """Two epochs, of which the sampler is told."""
    sampler: Any = loader.sampler
    orders = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        orders.append(_epoch(loader))
    return orders


def evaluate(loader: Loader) -> Orders:
    """One epoch."""
    return [_epoch(loader)]


def same_order(orders: list[Orders]) -> Finding:
    """Judge what the ranks gathered: how many epochs went as one before them?"""
    epochs = [str(epoch) for epoch in zip(*orders, strict=True)]
    return Finding(
        len(epochs) - len(set(epochs)), f"of {len(epochs)} epochs in an order seen before"
    )


def counted_twice(orders: list[Orders]) -> Finding:
    """Judge what the ranks gathered: how many samples came more than once?"""
    seen = [index for rank in orders for index in rank[0]]
    return Finding(len(seen) - len(set(seen)), f"of {LENGTH} samples counted twice")


def on_two_ranks(
    loader: Loader,
    loop: Callable[[Loader], Orders],
    judge: Callable[[list[Orders]], Finding],
    other: Sampler[int],
) -> Finding:
    """Run a loop here, as rank 0, and in another process, as rank 1; gather, and judge.

    Args:
        loader: The loader of rank 0.
        loop: What each rank does with its loader.
        judge: Says what is wrong with what the ranks saw.
        other: The sampler of rank 1.
    """
    context: Any = loader.multiprocessing_context or multiprocessing.get_context("fork")
    store = _meeting_place(port=0, opens=True)
    process = context.Process(target=_be_rank_1, args=(store.port, loop, other), daemon=True)
    process.start()
    try:
        orders = loop(loader)
        with _group(0, store):
            gathered = _gather(orders)
            process.join(_PATIENCE.total_seconds())
    finally:
        process.kill()
        process.join()
        process.close()
    return judge(gathered)


def _be_rank_1(port: int, loop: Callable[[Loader], Orders], sampler: Sampler[int]) -> None:
    orders = loop(DataLoader(Numbers(), batch_size=8, sampler=sampler))
    with _group(1, _meeting_place(port, opens=False)):
        _gather(orders)


def _meeting_place(port: int, opens: bool) -> Any:
    # With libuv, the default, two descriptors stay open for good.
    return distributed.TCPStore(  # type: ignore[attr-defined]  # a star import
        _HOST,
        port,
        RANKS,
        is_master=opens,
        wait_for_workers=False,
        timeout=_PATIENCE,
        use_libuv=False,
    )


@contextmanager
def _group(rank: int, store: Any) -> Iterator[None]:
    with patch.dict(os.environ, GLOO_SOCKET_IFNAME=_LOOPBACK):
        distributed.init_process_group(
            "gloo", store=store, rank=rank, world_size=RANKS, timeout=_PATIENCE
        )
    try:
        yield
    finally:
        distributed.destroy_process_group()


def _gather(orders: Orders) -> list[Orders]:
    gathered: list[Any] = [None] * RANKS
    distributed.all_gather_object(gathered, orders)
    return gathered


def _epoch(loader: Loader) -> list[int]:
    return [int(index) for batch in loader for index in batch]


def broken(*, workers: int = 2, start_method: str = "fork", kind: Kind = "order") -> Case:
    """Train without `set_epoch`; or evaluate with padding."""
    shuffle = kind == "order"
    padded: list[Sampler[int]] = [
        DistributedSampler(Numbers(), RANKS, rank, shuffle=shuffle) for rank in range(RANKS)
    ]
    if kind == "padding":
        return _case(padded, evaluate, counted_twice, workers, start_method)
    return _case(padded, train, same_order, workers, start_method)


def fixed(*, workers: int = 2, start_method: str = "fork", kind: Kind = "order") -> Case:
    """Train with `set_epoch`; or evaluate without padding."""
    if kind == "padding":
        return _case(
            [Share(rank) for rank in range(RANKS)], evaluate, counted_twice, workers, start_method
        )
    padded: list[Sampler[int]] = [
        DistributedSampler(Numbers(), RANKS, rank) for rank in range(RANKS)
    ]
    return _case(padded, train_reshuffled, same_order, workers, start_method)


def _case(
    samplers: Sequence[Sampler[int]],
    loop: Callable[[Loader], Orders],
    judge: Callable[[list[Orders]], Finding],
    workers: int,
    start_method: str,
) -> Case:
    loader: Loader = load(Numbers(), workers, start_method, batch_size=8, sampler=samplers[0])
    return Case(loader, partial(on_two_ranks, loop=loop, judge=judge, other=samplers[1]))


FAILURE = Failure(
    name="ranks",
    lesson="12",
    promise="complete",
    symptoms=(
        "DistributedSampler gives the same order every epoch",
        "evaluation on two ranks gives a different result than on one",
    ),
    cause=(
        "The samplers of the ranks agree through the seed and the epoch, but your loop never told "
        "them the epoch. They also repeat samples to make the shares equal."
    ),
    remedy="Call set_epoch before every epoch, and evaluate without padding.",
    broken=broken,
    fixed=fixed,
    sign=Counts(EPOCHS - 1),
    deadline=60,  # up to five processes import torch
)
