"""A river's levels, and the starter of "00.fix"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torch.utils.data import Dataset

Pair = tuple[int, int]

#: A river's level in cm, hour by hour: the list in the notebook.
LEVELS: Final = (52, 55, 61, 68, 72, 81, 90, 88, 79, 67, 60, 58, 56, 53, 50, 49, 47)


class Pairs(Dataset[Pair]):
    """The starter of "00.fix": a level and the one an hour later."""

    def __init__(self, levels: Sequence[int]) -> None:
        self.levels = levels

    def __len__(self) -> int:
        return len(self.levels)

    def __getitem__(self, index: int) -> Pair:
        return self.levels[index], self.levels[index + 1]
