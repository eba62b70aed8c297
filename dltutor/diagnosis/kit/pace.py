"""How fast a loader delivers, once its workers are at work: timed in turns with a changed one.

Other programs run meanwhile. What they take, they take from both: only ratios are read, and only
what every turn shows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from torch.utils.data import DataLoader

from dltutor.diagnosis.evidence import Paces, Run
from dltutor.diagnosis.kit.bench import Bench
from dltutor.observation import torch_internals
from dltutor.observation.time_limits import DeadlinePassed
from dltutor.observation.time_limits import deadline as time_limit

TURNS: Final = 3
Timed = Callable[[], float | None]


def in_turns(as_is: Timed, changed: Timed, *, seconds: float, turns: int = TURNS) -> Paces:
    """Time two things several times, there and back.

    Args:
        as_is: Times the loader as it is; None where that tells nothing.
        changed: The same of the changed one.
        seconds: Of the experiment; turns that do not fit are left out.
        turns: How many.
    """
    pairs: list[tuple[float, float]] = []
    with suppress(DeadlinePassed), time_limit(left(seconds)):
        for turn in range(turns):
            if turn % 2:
                second, first = changed(), as_is()
            else:
                first, second = as_is(), changed()
            if first is None or second is None:
                break
            pairs.append((first, second))
    return Paces(tuple(a for a, _ in pairs), tuple(b for _, b in pairs))


def left(seconds: float) -> float:
    """Of the seconds of an experiment those in which it may time anything: then it has to end."""
    return max(seconds - 1.5, 0.5)


def of_a_batch(
    loader: DataLoader[Any], *, seconds: float, take: Callable[[Any], object] | None = None
) -> float | None:
    """Seconds for a batch after the workers have started; None where there are too few.

    Args:
        loader: Is iterated, one epoch at most.
        seconds: After them it is left.
        take: Is called with each batch, within the time.
    """
    # What they made ahead, while main waited for the first, is not counted.
    ahead = 1 + loader.num_workers * (loader.prefetch_factor or 0)
    arrived: list[float] = []
    with left_at_once(loader) as iterator:
        for batch in iterator:
            if take is not None:
                take(batch)
            arrived.append(time.perf_counter())
            if len(arrived) > ahead and arrived[-1] - arrived[ahead - 1] > seconds:
                break
    skipped = min(ahead, len(arrived) // 2)
    if skipped < 1 or len(arrived) - skipped < 2:
        return None
    return (arrived[-1] - arrived[skipped - 1]) / (len(arrived) - skipped)


@contextmanager
def left_at_once(loader: DataLoader[Any]) -> Iterator[Any]:
    """An iterator of a loader; after the block its workers are gone, whatever they were making."""
    iterator = iter(loader)
    try:
        yield iterator
    finally:
        if torch_internals.workers_of(iterator):
            torch_internals.abandon(iterator)


def forked(bench: Bench) -> DataLoader[Any]:
    """The bench's DataLoader, with workers that are forked and do not stay."""
    bench.change(method="fork", persistent_workers=False)
    return bench.inner


def epoch_of(run: Run) -> int:
    """How many batches the longest iteration of a run had."""
    return max((len(batches) for batches in run.passes), default=0)
