"""What the checks of lesson 13 observe: what a loader costs, what it delivers, and how fast.

They count the processes that a loader starts and the tensors that it sends, and read batches of
reviews. And there's a clock that only moves when one of its own loaders is asked for a batch.
"""

from __future__ import annotations

import gc
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from itertools import combinations, pairwise
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any, Final

import torch
import torch.multiprocessing.reductions as reductions
from torch.utils.data import DataLoader, TensorDataset

from dltutor.lessons.engine.forms import shown
from dltutor.lessons.engine.outcomes import Fault, fault
from dltutor.lessons.lesson_13.material import Reviews

BATCH: Final = 32  # reviews
BATCHES: Final = 16  # that are timed
_AS_THEY_LIE: Final = 3 / 4  # of an epoch: a random order has next to none of that
_START: Final = 0.5  # seconds for the first batch of each worker
_END: Final = 0.3  # seconds for the end of each worker


@contextmanager
def starts() -> Iterator[list[str]]:
    """A list that gets the name of each process that is started in the block."""
    started: list[str] = []
    process: Any = BaseProcess
    own = process.start

    def start(self: Any) -> None:
        own(self)
        started.append(self.name)

    process.start = start
    try:
        yield started
    finally:
        process.start = own


def processes_started(run: Callable[[], object]) -> int:
    """How many processes a function starts."""
    with starts() as started:
        run()
    return len(started)


@contextmanager
def messages() -> Iterator[list[int]]:
    """A list that gets, for each message that this process reads, how many tensors it brought."""
    counts: list[int] = []
    inside = [0]
    pickler: Any = ForkingPickler
    rebuild, loads = reductions.rebuild_tensor, pickler.loads

    @wraps(rebuild)  # workers send its name
    def rebuilding(*arguments: Any) -> Any:
        inside[0] += 1
        return rebuild(*arguments)  # type: ignore[no-untyped-call]

    def loading(*arguments: Any, **options: Any) -> Any:
        inside[0] = 0
        thing = loads(*arguments, **options)
        counts.append(inside[0])
        return thing

    reductions.rebuild_tensor = rebuilding
    pickler.loads = staticmethod(loading)
    try:
        yield counts
    finally:
        reductions.rebuild_tensor, pickler.loads = rebuild, staticmethod(loads)


class Odd(Exception):
    """Something is wrong with a batch.

    Args:
        code: What it is, for its words.
        fields: What the words take from the batch.
    """

    def __init__(self, code: str, **fields: object) -> None:
        super().__init__(code)
        self.fault = fault(code, **fields)


Known = dict[tuple[int, ...], tuple[int, int]]  # a review's words -> its number and label


def known(dataset: Reviews) -> Known:
    """The reviews of a dataset by their words, which are different in each."""
    pairs = zip(dataset.reviews, dataset.labels, strict=True)
    return {tuple(words.tolist()): (at, label) for at, (words, label) in enumerate(pairs)}


def numbers_in(batch: Any, reviews_known: Known) -> list[int]:
    """The numbers of the reviews in a batch.

    Raises:
        Odd: The batch isn't as it should be.
    """
    pair = isinstance(batch, (list, tuple)) and len(batch) == 2
    if not pair or not isinstance(batch[0], (list, tuple)):
        raise Odd("not-a-pair", batch=shown(batch))
    reviews, labels = batch
    if not _whole(labels) or labels.shape != (len(reviews),):
        raise Odd("other-labels", reviews=len(reviews), labels=_form(labels))
    if not 0 < len(reviews) <= BATCH:
        raise Odd("other-size", reviews=len(reviews), most=BATCH)
    numbers = []
    for words, label in zip(reviews, labels.tolist(), strict=True):
        if not _whole(words) or words.ndim != 1:
            raise Odd("other-review", review=_form(words))
        number, own = reviews_known.get(tuple(words.tolist()), (None, 0))
        if number is None:
            raise Odd("unknown-review", words=len(words))
        if label != own:
            raise Odd("wrong-label", number=number, label=label)
        numbers.append(number)
    return numbers


def _whole(thing: Any) -> bool:
    return isinstance(thing, torch.Tensor) and thing.dtype == torch.int64


def _form(thing: Any) -> str:
    if isinstance(thing, torch.Tensor):
        return f"{thing.dtype}, {tuple(thing.shape)}"
    return shown(thing)


def order(batches: list[list[int]], times: list[int]) -> Fault | None:
    """What's wrong with the order of batches.

    Args:
        batches: The numbers of the reviews in each.
        times: How often each review was made.
    """
    size = len(times)
    numbers = [number for batch in batches for number in batch]
    epochs = [numbers[at : at + size] for at in range(0, len(numbers), size)]
    for epoch in epochs:
        number, came = Counter(epoch).most_common(1)[0]
        if came > 1:
            missing = min(set(range(size)) - set(epoch))
            return fault("repeated-review", number=number, came=came, missing=missing)
    smaller = sum(len(batch) < BATCH for batch in batches)
    if smaller > len(epochs):
        return fault("small-batches", smaller=smaller, batches=len(batches), size=BATCH)
    for number, came in Counter(numbers).items():
        if came > (made := times[number]):
            return fault("not-made", number=number, came=came, made=made)
    long = [epoch for epoch in epochs if len(epoch) >= BATCH]
    for epoch in long:
        steps = Counter((after - before) % size for before, after in pairwise(epoch))
        if max(steps.values()) > _AS_THEY_LIE * len(epoch):
            return fault("not-shuffled")
    if any(one[: len(other)] == other for one, other in combinations(long, 2)):
        return fault("same-order")
    return None


@dataclass
class Record:
    """One run of a loader."""

    workers: int
    taken: int = 0
    right: float = 0.0  # seconds for a batch, as it should be measured


class Rehearsal:
    """A clock, the loaders that make it go on, and what was asked of them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.looked = 0
        self.runs: list[Record] = []
        self.crowded = 0
        self._last: Callable[[], _Batches | None] = lambda: None  # with workers

    def clock(self) -> float:
        """The time, in seconds."""
        self.looked += 1
        return self.now

    def make(self, workers: int) -> DataLoader[Any]:
        """A loader of 1,000 batches, with so many workers on paper."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This DataLoader will create")
            loader = _Rehearsed(TensorDataset(torch.arange(4000)), 4, num_workers=workers)
        loader.rehearsal = self
        return loader

    def begin(self, workers: int) -> _Batches:
        """An epoch of such a loader."""
        if self._crowd():
            gc.collect()  # rings of the learner's own are not what is asked about
        self.crowded += self._crowd()
        self.runs.append(Record(workers))
        slower = 1 + 0.1 * len(self.runs)  # the machine gets busier with every run
        if not workers:
            return _Batches(self, self.runs[-1], slower)
        batches = _FromWorkers(self, self.runs[-1], slower)
        self._last = weakref.ref(batches)
        return batches

    def _crowd(self) -> bool:
        last = self._last()
        return last is not None and not last.ended


class _Rehearsed(DataLoader[Any]):
    rehearsal: Rehearsal

    def __iter__(self) -> Any:
        return self.rehearsal.begin(self.num_workers)


class _Batches:
    """The iterator of a rehearsed loader: each sample takes its time."""

    def __init__(self, rehearsal: Rehearsal, record: Record, slower: float) -> None:
        self._rehearsal, self._record, self._slower = rehearsal, record, slower
        self.ended = False

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> torch.Tensor:
        place, each = self._record.taken, max(1, self._record.workers)
        if self.ended or place == 1000:
            raise StopIteration
        seconds = _START if place < each else (1 + place % 3) * self._slower / each / 50
        self._rehearsal.now += seconds
        self._record.taken += 1
        if each <= place < each + BATCHES:
            self._record.right += seconds / BATCHES
        return torch.arange(4 * place, 4 * place + 4)


class _FromWorkers(_Batches):
    """The same with workers, whose end takes its time too."""

    def _shutdown_workers(self) -> None:  # as torch's iterators have it
        if not self.ended:
            self._rehearsal.now += _END * self._record.workers
        self.ended = True

    __del__ = _shutdown_workers
