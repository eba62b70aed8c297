"""The first sample decides which fields a batch has, so fields go missing, or their rows shift.

Symptom: a field is missing from some batches, depending on which sample is first. Or a field has
fewer rows than the batch, and labels belong to the wrong images, silently.

Mechanism: a collate function builds each field from all samples, but takes the fields' names from
the first one. That works as long as all samples have the same fields. Once a field is optional, a
batch whose first sample lacks it loses the values of all others. A batch whose first sample has it
fails with a KeyError, and the usual repair, `if name in sample`, is worse, because it stacks the
values that exist: in a batch of 8 with 5 captions, 4 move up, so row k isn't sample k anymore.
`default_collate` takes the fields of the first sample, too. With samples that are lists or tuples,
`zip(*samples)` stops at the shortest one, and drops the rest of the longer ones.

Fix: give the batch the same fields every time, with one row for each sample. Put a placeholder
where there's no value, and return a mask that says which rows are real.

Seen in: PyHealth#1222 (2026, hard negatives), pytorch_geometric#10802 (2026, node types).
"""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load

Sample = dict[str, torch.Tensor]
LENGTH, SIDE, TOKENS, EVERY = 64, 8, 5, 3


class Captioned(Dataset[Sample]):
    """A dataset of images. Every third one has no caption yet."""

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> Sample:
        sample = {"image": torch.full((SIDE, SIDE), index)}
        if index % EVERY:
            sample["caption"] = torch.full((TOKENS,), index)
        return sample


def collate(samples: list[Sample]) -> Sample:
    """Stack each field of the samples."""
    return {
        name: torch.stack([sample[name] for sample in samples if name in sample])
        for name in samples[0]
    }


def collate_all(samples: list[Sample]) -> Sample:
    """Stack the images and captions. A missing caption is zeros, and False in `has_caption`."""
    blank = torch.zeros(TOKENS, dtype=torch.int64)
    return {
        "image": torch.stack([sample["image"] for sample in samples]),
        "caption": torch.stack([sample.get("caption", blank) for sample in samples]),
        "has_caption": torch.tensor(["caption" in sample for sample in samples]),
    }


def train(loader: DataLoader[Sample]) -> Finding:
    """Run one epoch, and count the captions that aren't in the same row as their image."""
    wrong = 0
    for batch in loader:
        captions = [int(caption[0]) for caption in batch.get("caption", ())]
        for row, image in enumerate(batch["image"]):
            index = int(image[0, 0])
            wrong += index % EVERY > 0 and captions[row : row + 1] != [index]
    return Finding(wrong, f"of {LENGTH - len(range(0, LENGTH, EVERY))} captions lost or misplaced")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose collate function takes the fields of the first sample."""
    options = {"batch_size": 8, "collate_fn": collate}
    return Case(load(Captioned(), workers, start_method, **options), train)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose collate function always returns every field, and a mask."""
    options = {"batch_size": 8, "collate_fn": collate_all}
    return Case(load(Captioned(), workers, start_method, **options), train)


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Counts(LENGTH // 2))
