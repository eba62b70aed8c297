"""Does the sampler deal out a new order in every epoch?

Ask the sampler for its order twice, and again after `set_epoch`. Then look for duplicates across
all ranks. Finally, run the loop once more, and note its orders and its calls of `set_epoch`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.running import forks, runner
from dltutor.diagnosis.running.subject import Subject
from dltutor.diagnosis.words import count_of

_MOST: Final = 100_000  # the most indices to take from one order


@dataclass(frozen=True)
class Order:
    """The orders that the sampler deals out, compared between epochs and between ranks.

    Args:
        told: How often the loop called the sampler's `set_epoch`.
        epochs: How many epochs the loop finished, or two if it leaves them early.
        repeated: How many of these epochs had the same order as an earlier one, as far as they got.
        early: How many indices the sampler dealt out in the shorter of two epochs that the loop
            left early, or 0.
        moves: Whether `set_epoch` changes the order, and the order stays the same without it.
        follows: Whether the order depends on the epoch that `set_epoch` gets.
        ranks: How many ranks there are, or 0 if that isn't known.
        twice: How many duplicate indices all ranks together get in one epoch.
        shuffles: The sampler's attribute `shuffle` or, if it has none, the value of `moves`.
    """

    told: int = 0
    epochs: int = 0
    repeated: int = 0
    early: int = 0
    moves: bool = False
    follows: bool = False
    ranks: int = 0
    twice: int = 0
    shuffles: bool = False

    def __str__(self) -> str:
        return f"{self.repeated} of {count_of(self.epochs, 'epoch')} repeated an earlier order."


def needed(evidence: Evidence) -> bool:
    """Return whether a loop ran well, with a sampler that has a `set_epoch` method."""
    if not evidence.parts.loop or not evidence.run.well:
        return False
    return "sampler" in evidence.parts.hooks


def ask(subject: Subject) -> Order:
    """Ask the sampler for its order, and run the loop once more."""
    asked = partial(_asked, subject.told, subject.dataset)
    found = forks.in_fork(asked, 4.0)
    orders, told, early = _loop(subject)
    repeated = len(orders) - len(set(map(tuple, orders)))
    return replace(found, told=told, epochs=len(orders), repeated=repeated, early=early)


def _asked(sampler: Any, dataset: Any) -> Order:
    first, again = _dealt(sampler), _dealt(sampler)
    epoch, told = getattr(sampler, "epoch", 0), []
    for number in (epoch, epoch + 1, epoch):
        sampler.set_epoch(number)
        told.append(_dealt(sampler))
    follows = told[0] == told[2] != told[1]
    moves = first == again != told[1]
    ranks = int(getattr(sampler, "num_replicas", 0) or 0)
    twice = 0
    if ranks > 1 and hasattr(sampler, "rank") and len(dataset) <= _MOST:
        together: list[Any] = []
        for rank in range(ranks):
            other = copy.copy(sampler)
            other.rank = rank
            together += _dealt(other)
        twice = len(together) - len(set(together))
    shuffles = bool(getattr(sampler, "shuffle", moves))
    return Order(moves=moves, follows=follows, ranks=ranks, twice=twice, shuffles=shuffles)


def _dealt(sampler: Any) -> list[Any]:
    return [_hashable(index) for index in islice(sampler, _MOST)]


def _hashable(index: Any) -> Any:
    return tuple(index) if isinstance(index, list) else index


def _loop(subject: Subject) -> tuple[list[list[Any]], int, int]:
    """Return the epochs' orders, how often the loop called `set_epoch`, and `early` as in Order.

    If the loop leaves its one epoch early, call it twice, and keep what both epochs got to.
    """
    run = subject.known.run if subject.known else None
    again = run is not None and run.finished == (False,)

    def work() -> tuple[list[list[Any]], int, int]:
        # A batch sampler may change the order of the sampler that has the `set_epoch`.
        dealer = subject.dealer
        cls, own = type(dealer), type(dealer).__iter__
        orders: list[list[Any]] = []

        def __iter__(self: Any) -> Any:
            if self is not dealer:
                yield from own(self)
                return
            orders.append([])
            kept = orders[-1]
            for dealt in own(self):
                batch = [*dealt] if isinstance(dealt, Iterator) else dealt
                if len(kept) < _MOST:
                    kept += map(_hashable, subject.indices_in(batch))
                yield batch

        cls.__iter__ = __iter__
        # The sampler is in main, so the start method makes no difference to its order. Fork the
        # workers, because that's the fastest way to start them.
        subject.change(method="fork")
        epochs = 2 if again else None
        ran = runner.run(subject, seconds=3.0, content=False, epochs=epochs)
        if again and len(ran.finished) == 2 and len(orders) >= 2:
            most = min(map(len, orders[-2:]))
            return [each[:most] for each in orders[-2:]], ran.epochs_told, most
        whole = [each for each, done in zip(orders, ran.finished, strict=False) if done]
        return whole, ran.epochs_told, 0

    return forks.attempt(work, 8.0) or ([], 0, 0)


EXPERIMENT: Final = probe("order", 12.0, needed, ask)
