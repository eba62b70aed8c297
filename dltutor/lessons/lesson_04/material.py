"""The datasets of lesson 04: readings that tell who counted what, recordings, headlines."""

from __future__ import annotations

import random
from typing import Final

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from dltutor.failures import global_state
from dltutor.failures.global_state import Readings

CROP: Final = 32  # numbers in a stretch
LENGTH: Final = 400  # numbers in a recording

_SILENT_EVERY: Final = 5  # recordings; each is silent in one epoch at the most
_WORDS: Final = (
    ("mayor", "river", "harbor", "council", "school", "museum", "bridge", "baker", "orchestra"),
    ("opens", "closes", "finds", "loses", "paints", "moves", "visits", "repairs"),
    ("old", "second", "quiet", "green", "famous", "northern", "last", "wooden"),
    ("bridge", "garden", "school", "clock", "museum", "boat", "library", "market", "tower"),
)


class Witness(Readings):
    """Each sample tells who drew it, and what the counter of that process says."""

    def __getitem__(self, index: int) -> torch.Tensor:
        super().__getitem__(index)
        worker = get_worker_info()
        return torch.tensor([worker.id if worker else -1, global_state.replaced])


def counters(loader: DataLoader[torch.Tensor]) -> dict[str, int]:
    """Run an epoch, and tell what the counter of each process said last."""
    said = {}
    for batch in loader:
        for number, count in batch.tolist():
            said["main" if number < 0 else f"W{number}"] = count
    return {"main": global_state.replaced} | said


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
            silence(clips, index, epoch)
    return clips


def silence(clips: torch.Tensor, index: int, epoch: int) -> None:
    """Make one stretch silent: the one that an epoch hears of a recording."""
    start = _start_of(index, epoch)
    clips[index, start : start + CROP] = 0


def stretches(clips: torch.Tensor, epoch: int) -> torch.Tensor:
    """What an epoch has to hear of each recording, in order: a tensor of shape (number, CROP)."""
    starts = [_start_of(index, epoch) for index in range(len(clips))]
    return torch.stack(
        [clip[start : start + CROP] for clip, start in zip(clips, starts, strict=True)]
    )


def _start_of(index: int, epoch: int) -> int:
    return (index * 31 + epoch * CROP) % (LENGTH - CROP)


class Headlines(Dataset[torch.Tensor]):
    """Headlines as numbers. A word gets the next number when it is met for the first time."""

    def __init__(self, headlines: list[str]) -> None:
        self.headlines = headlines
        self.vocabulary: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.headlines)

    def __getitem__(self, index: int) -> torch.Tensor:
        words = self.headlines[index].split()
        for word in words:
            self.vocabulary.setdefault(word, len(self.vocabulary))
        return torch.tensor([self.vocabulary[word] for word in words])


def make_headlines(*, number: int = 32, seed: int = 4) -> list[str]:
    """Headlines of four words each; many words come in several."""
    chance = random.Random(seed)
    return [" ".join(chance.choice(words) for words in _WORDS) for _ in range(number)]
