"""A WeightedRandomSampler has more than 16,777,216 weights, and torch can't draw from so many.

Symptom: `RuntimeError: number of categories cannot exceed 2^24` before the first batch. The same
code works on a part of the data.

Mechanism: the sampler is a call of `torch.multinomial` with all weights, at the start of each
epoch. `torch.multinomial` refuses more than 2^24 of them, on the CPU as well as on a GPU, because a
32-bit float can't count further than that in steps of one. Making the sampler checks nothing, so
the error comes only when the loop asks for the first batch. A loader with workers has started all
of them by then. Even below the limit, weights in 32-bit floats are inaccurate if there are
millions of them, so keep them in 64-bit floats, as WeightedRandomSampler does.

Fix: add the weights up once, in 64-bit floats, and look random numbers up in the sums
(`torch.searchsorted`). Or, if weights belong to classes, draw a class first and then one of its
samples. If you split the weights into parts, and draw from each part, add the part's first index to
what you draw.

Seen in: pytorch#2576 (open since 2017), physicsnemo#1846 (2026), imbalanced-dataset-sampler#58.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import torch
from torch.utils.data import Dataset, Sampler, WeightedRandomSampler

from dltutor.failures.tools import Case, Failure, Says, facts_of, load

COUNT: Final = 2**24 + 1
DRAWN: Final = 64  # samples in an epoch
RARE: Final = 512  # one in so many impressions led to a click


class Impressions(Dataset[torch.Tensor]):
    """A dataset of ad impressions. A sample is 1 if the ad was clicked, or else 0."""

    def __init__(self) -> None:
        self.clicked = torch.zeros(COUNT, dtype=torch.uint8)
        self.clicked[::RARE] = 1

    def __len__(self) -> int:
        return len(self.clicked)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.clicked[index]


class BySums(Sampler[int]):
    """A sampler that draws indices with replacement, in proportion to any number of weights."""

    def __init__(self, weights: torch.Tensor, count: int, generator: torch.Generator) -> None:
        self.sums = weights.cumsum(0, dtype=torch.float64)
        self.count = count
        self.generator = generator

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        drawn = torch.rand(self.count, dtype=torch.float64, generator=self.generator)
        indices = torch.searchsorted(self.sums, drawn * self.sums[-1], right=True)
        # Rounding may turn a number into the sum of all weights, whose index would be too large.
        yield from indices.clamp(max=len(self.sums) - 1).tolist()


def balanced(clicked: torch.Tensor) -> torch.Tensor:
    """Return weights that draw as many impressions with a click as without."""
    return torch.where(clicked.bool(), 1 / clicked.count_nonzero(), 1 / (clicked == 0).sum())


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that draws with one weight for each sample."""
    dataset, generator = Impressions(), torch.Generator().manual_seed(12)
    weights = balanced(dataset.clicked)
    sampler = WeightedRandomSampler(weights, DRAWN, generator=generator)  # type: ignore[arg-type]
    return Case(load(dataset, workers, start_method, batch_size=16, sampler=sampler))


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that draws from the sums of the weights."""
    dataset, generator = Impressions(), torch.Generator().manual_seed(12)
    sampler = BySums(balanced(dataset.clicked), DRAWN, generator)
    return Case(load(dataset, workers, start_method, batch_size=16, sampler=sampler))


FAILURE: Final = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Says("raised", ("RuntimeError: number of categories cannot exceed 2^24",)),
)
