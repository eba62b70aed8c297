"""Alternate between a loader and the same loader with one change, and time both.

Another program may slow down both loaders, so compare their times only within a turn, and trust
only the smallest ratio of all turns.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median_high
from typing import Any

from torch.utils.data import DataLoader, dataloader

from dltutor.diagnosis.running.subject import Subject, Unanswered
from dltutor.diagnosis.words import duration
from dltutor.observation import torch_internals
from dltutor.observation.foreign import first_line
from dltutor.observation.time_limits import DeadlinePassed
from dltutor.observation.time_limits import deadline as time_limit


@dataclass(frozen=True)
class Paces:
    """Times for the loader as it is and with one change, measured alternately.

    Args:
        as_is: The seconds for the unchanged loader in each turn, such as seconds per batch.
        changed: The seconds for the changed loader in each turn.
        blocked: The share of the time that the unchanged loader's workers waited for something
            other than a processor, in the turn with the smallest share.
        line: The line of your code where a worker of the unchanged loader was most often, or "" if
            that isn't known.
        share: The share of the time that the worker was at this line.
        inside: The share of the time that the worker was in any line of your code.
    """

    as_is: tuple[float, ...] = ()
    changed: tuple[float, ...] = ()
    blocked: float = 0.0
    line: str = ""
    share: float = 0.0
    inside: float = 0.0

    @property
    def times(self) -> float:
        """The smallest ratio of `as_is` to `changed` in any turn, or 0 for fewer than two turns."""
        turns = [a / max(b, 1e-9) for a, b in zip(self.as_is, self.changed, strict=False)]
        return min(turns) if len(turns) > 1 else 0.0

    @property
    def both(self) -> tuple[float, float]:
        """The median seconds for the unchanged loader and for the changed one, or 0 if unknown."""
        return median_high(self.as_is or (0.0,)), median_high(self.changed or (0.0,))

    def __str__(self) -> str:
        if not self.as_is:
            return "Can't tell, because too few batches arrived."
        ours, changed = self.both
        return f"It takes {duration(ours)} as it is, and {duration(changed)} with that change."


Timed = Callable[[], float | None]


def in_turns(as_is: Timed, changed: Timed, *, seconds: float, turns: int = 3) -> Paces:
    """Time the loader alternately as it is and with a change, and return the seconds as Paces.

    Args:
        as_is: A function that times the unchanged loader and returns seconds, or None if it can't.
        changed: A function that times the changed loader and returns seconds, or None if it can't.
        seconds: How many seconds the experiment may take. Timing stops 1.5 s earlier, but not
            before 0.5 s have passed, even if there are turns left.
        turns: How many turns to time (default 3), unless one of the functions returns None.

    Raises:
        Unanswered: There was no time for two turns, and one alone shows nothing.
    """
    pairs: list[tuple[float, float]] = []
    try:
        with time_limit(max(seconds - 1.5, 0.5)):
            for turn in range(turns):
                if turn % 2:
                    second, first = changed(), as_is()
                else:
                    first, second = as_is(), changed()
                if first is None or second is None:
                    break
                pairs.append((first, second))
    except DeadlinePassed:
        if len(pairs) < 2:
            raise Unanswered("there wasn't enough time to measure twice") from None
    return Paces(tuple(a for a, _ in pairs), tuple(b for _, b in pairs))


def of_a_batch(
    loader: DataLoader[Any], *, seconds: float, take: Callable[[Any], object] | None = None
) -> float | None:
    """Return the seconds per batch once the workers run, or None if too few batches arrive.

    Args:
        loader: The loader, which is iterated for one epoch at most.
        seconds: For how many seconds to time batches, after the first ones.
        take: A function to call with each batch. The time that it takes counts, too.

    Raises:
        Unanswered: The loader raised an exception instead of delivering a batch.
    """
    # Don't time the batches that workers made ahead while main waited for the first one. If the
    # epoch is short, don't time its first half.
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
    """Make an iterator for a loader, and end its workers after the block.

    Raises:
        Unanswered: The loader raised an exception while the block asked for a batch.
    """
    iterator = iter(loader)
    try:
        yield iterator
    except Exception as error:
        frames = traceback.walk_tb(error.__traceback__)
        if any(frame.f_code.co_filename == dataloader.__file__ for frame, _ in frames):
            raise Unanswered(f"this time the loader raised {first_line(error)}") from None
        raise
    finally:
        if torch_internals.workers_of(iterator):
            torch_internals.abandon(iterator)


def forked(subject: Subject) -> DataLoader[Any]:
    """Make the subject's workers forked and not persistent, and return its DataLoader."""
    subject.change(method="fork", persistent_workers=False)
    return subject.inner
