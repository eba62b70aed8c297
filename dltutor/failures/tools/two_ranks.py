"""Run a training loop on two ranks of a process group, as `torchrun` does."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, TypeVar

import torch.distributed as dist
from torch.utils.data import DataLoader

RANKS: Final = 2
#: Time limit in seconds for a collective call, longer than the other rank's workers take to start.
#: torch's default is 30 minutes.
_PATIENCE: Final = 40.0
_INTERFACE: Final = "GLOO_SOCKET_IFNAME"
_Result = TypeVar("_Result")


def on_two_ranks(
    loader: DataLoader[Any],
    loop: Callable[[DataLoader[Any]], _Result],
    other: Callable[[], DataLoader[Any]],
    *,
    patience: float = _PATIENCE,
) -> _Result:
    """Run a loop as rank 0 here and as rank 1 in a new process, and return rank 0's result.

    If this process is already a rank of a process group, only run the loop, and return its result.

    Args:
        loader: The loader of rank 0.
        loop: The loop, which may make collective calls.
        other: A function that makes the loader of rank 1. Before the call, rank 1 sets the
            environment variable `RANK` to 1.
        patience: Seconds after which a collective call of rank 0 gives up. Rank 1 waits for 40 s.

    Raises:
        RuntimeError: Rank 1 didn't make a collective call in time.
    """
    if dist.is_initialized():
        return loop(loader)
    context: Any = loader.multiprocessing_context or multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    with tempfile.TemporaryDirectory(prefix="dltutor-") as folder, ours:
        meeting = os.path.join(folder, "meeting")
        arguments = (theirs, loop, other, meeting)
        process = context.Process(target=_be_rank_1, args=arguments)
        process.start()
        theirs.close()
        try:
            ours.recv()  # rank 1 has started
            with _in_group(0, meeting, patience):
                return loop(loader)
        finally:
            process.kill()
            process.join()
            process.close()


def _be_rank_1(main: Any, loop: Callable[..., Any], other: Callable[[], Any], meeting: str) -> None:
    os.environ["RANK"] = "1"
    main.send(None)
    with _in_group(1, meeting, _PATIENCE):
        loop(other())
        main.poll(None)  # stay in the group until rank 0 is done, too


@contextmanager
def _in_group(rank: int, meeting: str, patience: float) -> Iterator[None]:
    before = os.environ.get(_INTERFACE)
    os.environ[_INTERFACE] = "lo0" if sys.platform == "darwin" else "lo"
    try:
        dist.init_process_group(
            "gloo",
            init_method=f"file://{meeting}",
            rank=rank,
            world_size=RANKS,
            timeout=timedelta(seconds=patience),
        )
        try:
            yield
        finally:
            dist.destroy_process_group()
    finally:
        os.environ.pop(_INTERFACE)
        if before is not None:
            os.environ[_INTERFACE] = before
