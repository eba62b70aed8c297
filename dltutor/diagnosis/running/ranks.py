"""Call a function in two forks at once, as rank 0 and as rank 1 of a process group."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final

from torch import distributed

from dltutor.diagnosis.running import forks

RANKS: Final = 2


def on_each(work: Callable[[], Any], patience: float, seconds: float) -> list[Any]:
    """Call a function on each rank, in forks that have formed a process group.

    Args:
        work: A function that returns something that can be pickled.
        patience: The most seconds for forming the group, and for each collective call.
        seconds: How many seconds the function gets at least, after the group has formed.

    Returns:
        What the function returned on each rank, or None for a rank that can't join a group.

    Raises:
        NoAnswer: The function raised an exception or didn't return in time, or its fork died.
    """
    meeting = os.memfd_create("dltutor-ranks")  # a memfd disappears with the last process using it
    ranks = [partial(_as_rank, rank, work, meeting, patience) for rank in range(RANKS)]
    try:
        return forks.in_forks(ranks, patience + seconds + 1.0)
    finally:
        os.close(meeting)


def _as_rank(rank: int, work: Callable[[], Any], meeting: int, patience: float) -> Any:
    return work() if _join(rank, meeting, patience) else None


def _join(rank: int, meeting: int, patience: float) -> bool:
    variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": RANKS, "LOCAL_WORLD_SIZE": RANKS}
    os.environ.update({name: str(number) for name, number in variables.items()})
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # both ranks are on this machine
    try:
        distributed.init_process_group(
            "gloo",
            init_method=f"file:///proc/self/fd/{meeting}",
            rank=rank,
            world_size=RANKS,
            timeout=timedelta(seconds=patience),
        )
        accelerate: Any = sys.modules.get("accelerate.state")
        if accelerate is not None:  # accelerate caches the first rank that it reads
            warnings.simplefilter("ignore")
            accelerate.PartialState._reset_state()
            accelerate.PartialState(cpu=True)
    except Exception:
        return False
    return True
