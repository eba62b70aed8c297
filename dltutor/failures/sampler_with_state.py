"""A batch sampler whose `__iter__` takes its next part at once loses every other part.

Symptom: a custom batch_sampler skips data, but not with num_workers=0, and raises no error. Or a
resumed run starts from the beginning. If you log the calls, a batch_sampler's `__iter__` is called
twice with num_workers > 0.

Mechanism: when a loader starts workers, torch calls `iter()` on the batch sampler twice (in
`_BaseDataLoaderIter.__init__` and again in `_reset`), and uses only the second iterator. If
`__iter__` is a generator function, that does no harm, because a generator runs none of its code
before the first `next()`. But if `__iter__` takes a part, counts the epoch, or skips some batches
before it returns an iterator, that happens twice, and the loop never gets what the first iterator
had. So if each epoch takes the next half of the data, every epoch gets the same half.

torch's own `BatchSampler.__iter__` is a generator function, so a sampler inside it is safe. A
`batch_sampler` of your own isn't, and neither is a `sampler` with `batch_size=None`.

Fix: make `__iter__` a generator function that changes the sampler's state only after the first
`next()`. Or have `__iter__` change no state at all, and let the loop call `set_epoch`.

Seen in: cosmos-rl#621 (2026: a resumed run forgets what to skip), keys_values#27.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load

LENGTH, PARTS, BATCH = 64, 2, 8


class Numbers(Dataset[torch.Tensor]):
    """A dataset whose samples are their own indices."""

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index)


class PartSampler(Sampler[list[int]]):
    """A batch sampler that deals out the next part of a large dataset in each epoch."""

    def __init__(self, length: int, parts: int, batch_size: int) -> None:
        self.length, self.size = length, length // parts
        self.batch_size = batch_size
        self.start = 0

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.next_part())

    def next_part(self) -> list[list[int]]:
        """Return the batches of the next part, and move on to the part after that."""
        part = range(self.start, self.start + self.size)
        self.start = part.stop % self.length
        return [
            list(part[at : at + self.batch_size]) for at in range(0, len(part), self.batch_size)
        ]

    def __len__(self) -> int:
        return -(-self.size // self.batch_size)


class LazyPartSampler(PartSampler):
    """A batch sampler that takes the next part only when the first batch is needed."""

    def __iter__(self) -> Iterator[list[int]]:
        yield from self.next_part()


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run as many epochs as there are parts, and count the samples that never arrived."""
    seen = {index for _ in range(PARTS) for batch in loader for index in batch.tolist()}
    return Finding(LENGTH - len(seen), f"of {LENGTH} samples never seen")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose sampler takes a part each time that an iterator is made."""
    return _case(PartSampler(LENGTH, PARTS, BATCH), workers, start_method)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose sampler takes a part only if its iterator is used."""
    return _case(LazyPartSampler(LENGTH, PARTS, BATCH), workers, start_method)


def _case(sampler: PartSampler, workers: int, start_method: str) -> Case:
    loader = load(Numbers(), workers, start_method, batch_size=1, batch_sampler=sampler)
    return Case(loader, train)


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Counts(LENGTH // PARTS))
