"""The reviews of "13.fix", and what is said of batches of them."""

from __future__ import annotations

import os
from collections import Counter
from itertools import combinations, pairwise
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import Dataset

from dltutor.lessons.kit.forms import shown

BATCH: Final = 32
_ROWS: Final = 251
_AS_THEY_LIE: Final = 3 / 4  # of an epoch: a random order has next to none of that


class Reviews(Dataset[tuple[torch.Tensor, int]]):
    """Reviews as numbers of words, each with a label. No two are the same; one is empty.

    Args:
        length: How many.
        seed: Other seeds give others.
    """

    def __init__(self, length: int = 90, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.reviews = [random.integers(0, 5000, size) for size in random.integers(4, 30, length)]
        self.reviews[length // 3] = np.zeros(0, dtype=np.int64)
        self.labels = random.integers(0, 2, length).tolist()
        self.made: list[int] = []  # what this process made, by number
        # How often each was made: a row for each process, so that no two write to the same place.
        self._times = torch.zeros((_ROWS, length), dtype=torch.int32).share_memory_()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        words = torch.from_numpy(self.reviews[index].copy())
        self.made.append(index)
        self._times[os.getpid() % _ROWS, index] += 1
        return words, self.labels[index]

    def times(self) -> list[int]:
        """How often each was made, by all processes together."""
        return self._times.sum(0).tolist()  # type: ignore[no-any-return]


class Odd(Exception):
    """What is wrong with a batch; the message is a sentence."""


Known = dict[tuple[int, ...], tuple[int, int]]  # a review's words -> its number and label


def known(dataset: Reviews) -> Known:
    """The reviews of a dataset, as they can be told from their words."""
    pairs = zip(dataset.reviews, dataset.labels, strict=True)
    return {tuple(words.tolist()): (at, label) for at, (words, label) in enumerate(pairs)}


def numbers_in(batch: Any, reviews_known: Known) -> list[int]:
    """The numbers of the reviews in a batch.

    Args:
        batch: Whatever an answer made.
        reviews_known: The reviews that there are.

    Raises:
        Odd: The batch is not as it should be.
    """
    pair = isinstance(batch, (list, tuple)) and len(batch) == 2
    if not pair or not isinstance(batch[0], (list, tuple)):
        raise Odd(f"a batch is {shown(batch)}, not a list of reviews and their labels.")
    reviews, labels = batch
    if not _whole(labels) or labels.shape != (len(reviews),):
        raise Odd(f"the labels of {len(reviews)} reviews are {_form(labels)}.")
    if not 0 < len(reviews) <= BATCH:
        raise Odd(f"a batch has {len(reviews)} reviews. It should have {BATCH} at most.")
    numbers = []
    for words, label in zip(reviews, labels.tolist(), strict=True):
        if not _whole(words) or words.ndim != 1:
            raise Odd(f"a review is {_form(words)}. It should be the tensor that the dataset has.")
        number, own = reviews_known.get(tuple(words.tolist()), (None, 0))
        if number is None:
            raise Odd(f"a review of {len(words)} words is none of the dataset's.")
        if label != own:
            raise Odd(f"review {number} has the label {label}, not its own.")
        numbers.append(number)
    return numbers


def _whole(thing: Any) -> bool:
    return isinstance(thing, torch.Tensor) and thing.dtype == torch.int64


def _form(thing: Any) -> str:
    if isinstance(thing, torch.Tensor):
        return f"a tensor of {thing.ndim} dimensions and the type {thing.dtype}"
    return shown(thing)


def order(batches: list[list[int]], times: list[int]) -> str:
    """What is wrong with the order of batches, as a sentence, or "".

    Args:
        batches: The numbers of their reviews.
        times: How often each review was made.
    """
    size = len(times)
    numbers = [number for batch in batches for number in batch]
    epochs = [numbers[at : at + size] for at in range(0, len(numbers), size)]
    for epoch in epochs:
        number, came = Counter(epoch).most_common(1)[0]
        if came > 1:
            missing = min(set(range(size)) - set(epoch))
            return f"review {number} came {came} times, and review {missing} not yet."
    smaller = sum(len(batch) < BATCH for batch in batches)
    if smaller > len(epochs):
        return f"{smaller} of {len(batches)} batches have fewer than {BATCH} reviews."
    for number, came in Counter(numbers).items():
        if came > times[number]:
            return f"review {number} came more often ({came}) than it was made ({times[number]})."
    long = [epoch for epoch in epochs if len(epoch) >= BATCH]
    for epoch in long:
        steps = Counter((after - before) % size for before, after in pairwise(epoch))
        if max(steps.values()) > _AS_THEY_LIE * len(epoch):
            return "an epoch is not shuffled: most reviews come as they lie in the dataset."
    if any(one[: len(other)] == other for one, other in combinations(long, 2)):
        return "two epochs came in the same order."
    return ""
