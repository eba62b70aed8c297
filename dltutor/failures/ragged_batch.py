"""Samples of different lengths can't be stacked, and the message depends on their order.

Symptom: `RuntimeError: stack expects each tensor to be equal size, but got [3] at entry 0 and [4]
at entry 1`, or, only with workers, `RuntimeError: Trying to resize storage that is not resizable`.

NOTE [ Two Messages For One Mistake ]

Without workers, `default_collate` calls `torch.stack`, which names the shapes. In a worker,
`default_collate` first allocates shared memory for the batch, with as many elements as the samples
have together, and then views it as `len(batch)` samples of the first sample's shape. If the first
sample is larger than the average, that view needs more than the worker allocated, so the error is
about storage and doesn't mention shapes. Otherwise, the view fits, and you get the message from
`torch.stack`. With shuffling, the message changes from run to run.

Fix: pad in a collate function and return the lengths too, or cut to one length in `__getitem__`.
Whatever comes next takes the padding for data, so it needs the lengths or a mask.

Seen in: BasicPBC#3 (both messages), anomalib#1855, litData#472, carla_garage#12.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from dltutor.failures.tools import Case, Failure, Says, facts_of, load, own_folder

Sample = tuple[torch.Tensor, int]


class Clips(Dataset[Sample]):
    """A dataset of sound clips of different lengths, each with the number of its speaker."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Sample:
        sound = torch.from_numpy(np.load(self.paths[index]))
        return sound / sound.abs().max(), index % 3


def collate_clips(samples: list[Sample]) -> dict[str, torch.Tensor]:
    """Collate clips, padded with zeros to the longest one in the batch.

    Returns:
        A dict with `sounds`, of shape (batch, longest), and the `lengths` and `speakers`.
    """
    sounds, speakers = zip(*samples, strict=True)
    return {
        "sounds": pad_sequence(list(sounds), batch_first=True),
        "lengths": torch.tensor([len(sound) for sound in sounds]),
        "speakers": torch.tensor(speakers),
    }


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that leaves clips of different lengths to the default collate function."""
    return Case(load(Clips(_paths()), workers, start_method))


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that pads the clips, and also returns their lengths."""
    return Case(load(Clips(_paths()), workers, start_method, collate_fn=collate_clips))


@cache
def _paths() -> tuple[Path, ...]:
    # Put the longest clip first, so that a worker raises the error about resizing storage.
    folder = own_folder()
    rng = np.random.default_rng(2)
    paths = [folder / f"{number:02}.npy" for number in range(16)]
    for number, path in enumerate(paths):
        np.save(path, rng.normal(size=100 + 10 * number).astype(np.float32))
    return tuple(reversed(paths))


FAILURE = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Says(
        "raised",
        (
            "RuntimeError: Trying to resize storage that is not resizable",
            "RuntimeError: stack expects each tensor to be equal size",
        ),
    ),
)
