"""The dataset of "04.fix": each epoch hears another stretch of a recording, and counts silence."""

from __future__ import annotations

from typing import Final

import torch
from torch.utils.data import Dataset

CROP: Final = 32  # numbers in a stretch
LENGTH: Final = 400  # numbers in a recording

_SILENT_EVERY: Final = 5  # recordings; each is silent in one epoch at the most


class CountedClips(Dataset[torch.Tensor]):
    """Long recordings, of which each epoch hears another stretch. Silent ones are counted."""

    def __init__(self, clips: torch.Tensor) -> None:
        self.clips = clips
        self.epoch = 0
        self.count = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def silent(self) -> int:
        return self.count

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, index: int) -> torch.Tensor:
        start = (index * 31 + self.epoch * CROP) % (self.clips.shape[1] - CROP)
        stretch = self.clips[index, start : start + CROP]
        if not stretch.any():
            self.count += 1
        return stretch


def make_clips(epochs: tuple[int, ...], *, number: int = 16, seed: int = 4) -> torch.Tensor:
    """Make recordings.

    Args:
        epochs: In each of these some stretches are silent.
        number: How many recordings.
        seed: For their numbers, which are whole and above 0 where a recording is not silent.

    Returns:
        A tensor of shape (number, LENGTH).
    """
    generator = torch.Generator().manual_seed(seed)
    clips = torch.randint(1, 1000, (number, LENGTH), generator=generator)
    for place, epoch in enumerate(epochs):
        for index in range(place, number, _SILENT_EVERY):
            start = start_of(index, epoch)
            clips[index, start : start + CROP] = 0
    return clips


def start_of(index: int, epoch: int) -> int:
    """Where the stretch that an epoch hears of a recording begins."""
    return (index * 31 + epoch * CROP) % (LENGTH - CROP)


def stretches(clips: torch.Tensor, epoch: int) -> torch.Tensor:
    """What an epoch has to hear of each recording, in order: a tensor of shape (number, CROP)."""
    starts = [start_of(index, epoch) for index in range(len(clips))]
    return torch.stack(
        [clip[start : start + CROP] for clip, start in zip(clips, starts, strict=True)]
    )
