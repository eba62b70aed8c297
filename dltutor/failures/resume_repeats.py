"""A run that resumes in mid-epoch skips or repeats samples: the saved position isn't the loop's.

Symptom: resuming from a checkpoint in mid-epoch skips samples or repeats them, because the
sampler's state_dict is ahead of the training loop with num_workers > 0. Without workers, the run
goes on with the next sample. Neither run raises an error, and the loss looks normal.

Mechanism: as soon as a loader with workers is iterated, main takes `num_workers * prefetch_factor`
batches of indices from the sampler, and one more for each batch that reaches the loop. So a sampler
that counts what it deals out is ahead of the loop. A checkpoint that saves this count claims that
samples were trained on that were still on their way. After the run resumes, they're never dealt out
again. A loop that trains for a fixed number of steps then also starts the next epoch too early, and
gets other samples a second time.

A position in a dataset is wrong in the other direction. Each worker moves the position in its own
copy, but a checkpoint saves main's copy, which never moves. So a stream starts over.

Fix: let the loop count the samples that it has received, and save that number. torchdata's
StatefulDataLoader does this: its `state_dict` has the state that belongs to the last batch that the
loop got, and also the state of each worker's copy of the dataset.

Seen in: KempnerForge#51 (2026), lhotse#417 (with workers, the first batch is eight steps too late).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load

LENGTH, STEPS = 96, 3


class Numbers(Dataset[torch.Tensor]):
    """A dataset whose samples are their own indices."""

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index)


class ResumableSampler(Sampler[int]):
    """A sampler that shuffles with a fixed seed and knows how far into the epoch it is."""

    def __init__(self, length: int, seed: int = 0) -> None:
        self.length, self.seed = length, seed
        self.position = 0

    def __iter__(self) -> Iterator[int]:
        order = torch.randperm(self.length, generator=torch.Generator().manual_seed(self.seed))
        for index in order[self.position :].tolist():
            self.position += 1
            yield index
        self.position = 0

    def __len__(self) -> int:
        return self.length

    def state_dict(self) -> dict[str, int]:
        """Return the sampler's state, for a checkpoint."""
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Begin the next epoch at the position in a checkpoint's state."""
        self.position = state["position"]


class StartingSampler(ResumableSampler):
    """A sampler that starts where it's told to, and leaves the counting to the loop."""

    def __iter__(self) -> Iterator[int]:
        order = torch.randperm(self.length, generator=torch.Generator().manual_seed(self.seed))
        start, self.position = self.position, 0
        yield from order[start:].tolist()


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """Stop after a few steps, resume from the sampler's state, and count the samples never seen."""
    sampler: Any = loader.sampler
    seen = _steps(loader)
    return _resume(loader, sampler.state_dict(), seen)


def train_counting(loader: DataLoader[torch.Tensor]) -> Finding:
    """Do the same as `train`, but resume from the number of samples that the loop has received."""
    seen = _steps(loader)
    return _resume(loader, {"position": len(seen)}, seen)


def _steps(loader: DataLoader[torch.Tensor]) -> list[int]:
    return [index for batch in islice(loader, STEPS) for index in batch.tolist()]


def _resume(
    loader: DataLoader[torch.Tensor], checkpoint: dict[str, int], seen: list[int]
) -> Finding:
    sampler: Any = loader.sampler
    sampler.load_state_dict(checkpoint)
    later = [index for batch in loader for index in batch.tolist()]
    return Finding(LENGTH - len({*seen, *later}), f"of {LENGTH} samples never seen")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose checkpoint saves how many samples the sampler has dealt out."""
    return Case(_loader(ResumableSampler(LENGTH), workers, start_method), train)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose checkpoint saves how many samples the loop has received."""
    return Case(_loader(StartingSampler(LENGTH), workers, start_method), train_counting)


def _loader(sampler: Sampler[int], workers: int, start_method: str) -> DataLoader[torch.Tensor]:
    return load(Numbers(), workers, start_method, batch_size=8, sampler=sampler)


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Counts(LENGTH // 3))
