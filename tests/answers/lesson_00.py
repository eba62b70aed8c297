"""Define right and wrong answers to the exercises of lesson 00."""

from __future__ import annotations

from typing import Any

import torch

from answers import RightAnswers, WrongFixes, delivering, like
from dltutor.lessons.lesson_00.fix import Pairs


class Fixed(Pairs):
    """A right answer to "00.fix", and the base class of other answers."""

    def __len__(self) -> int:
        return len(self.levels) - 1


class LastLevelTwice(Pairs):
    def __getitem__(self, index: int) -> Any:
        return self.levels[index], self.levels[min(index + 1, len(self.levels) - 1)]


class NoneForTheLast(Pairs):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except IndexError:
            return None


class EndsTheEpoch(Pairs):
    def __getitem__(self, index: int) -> Any:
        if index + 1 == len(self.levels):
            raise StopIteration
        return super().__getitem__(index)


class CutsTheLevels(Pairs):
    def __init__(self, levels: Any) -> None:
        super().__init__(levels[:-1])


class Backwards(Fixed):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(len(self) - 1 - index)


class TensorPairs:
    def __init__(self, levels: Any) -> None:
        self.pairs = torch.tensor(levels).unfold(0, 2, 1)

    def __len__(self) -> int:
        return self.pairs.shape[0]

    def __getitem__(self, index: int) -> Any:
        return tuple(self.pairs[index])


class SortsInPlace(Fixed):
    def __init__(self, levels: Any) -> None:
        levels.sort()
        super().__init__(levels)


class ForgetsItsLength:
    def __init__(self, levels: Any) -> None:
        self.levels = levels

    def __getitem__(self, index: int) -> Any:
        return self.levels[index], self.levels[index + 1]


RIGHT_ANSWERS: RightAnswers = {
    "00.fix": {
        "one less": Fixed,
        "tensors": TensorPairs,
        "a tensor for each sample": delivering(
            Fixed, lambda pair: torch.tensor(pair, dtype=torch.float32)
        ),
    }
}

WRONG_FIXES: WrongFixes = {
    "00.fix": {
        "an object instead of the class": (Pairs([1, 2]), "an-object"),
        "the last level twice": (LastLevelTwice, "not-neighbors"),
        "None for what is not there": (NoneForTheLast, "not-a-pair"),
        "the last pair twice": (
            like(
                Pairs,
                __getitem__=lambda self, i: Pairs.__getitem__(self, min(i, len(self.levels) - 2)),
            ),
            "too-often",
        ),
        "the epoch ended by hand": (EndsTheEpoch, "ends-early"),
        "one level cut off": (CutsTheLevels, "index-error"),
        "16 written down": (like(Pairs, __len__=lambda self: 16), "missing"),
        "from the end": (Backwards, "other-order"),
        "a slip": (like(Fixed, __getitem__=lambda self, index: self.level[index]), "raised"),
        "sorted in place": (SortsInPlace, "list-changed"),
        "no length": (ForgetsItsLength, "no-method"),
    }
}
