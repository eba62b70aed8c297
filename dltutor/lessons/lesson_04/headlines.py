"""The dataset of "04.transfer": headlines as numbers, and a vocabulary that grows with them."""

from __future__ import annotations

import random
from typing import Final

import torch
from torch.utils.data import Dataset

_WORDS: Final = (
    ("mayor", "river", "harbour", "council", "school", "museum", "bridge", "baker", "orchestra"),
    ("opens", "closes", "finds", "loses", "paints", "moves", "visits", "repairs"),
    ("old", "second", "quiet", "green", "famous", "northern", "last", "wooden"),
    ("bridge", "garden", "school", "clock", "museum", "boat", "library", "market", "tower"),
)


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
