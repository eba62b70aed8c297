"""Define right and wrong answers to the exercises of lesson 00."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch

from answers import RightAnswers, WrongFixes
from dltutor.lessons.lesson_00.fix import Pairs


class LastLevelTwice(Pairs):
    def __getitem__(self, index: int) -> Any:
        return self.levels[index], self.levels[min(index + 1, len(self.levels) - 1)]


class NoneForTheLast(Pairs):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except IndexError:
            return None


class LastPairTwice(Pairs):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(min(index, len(self.levels) - 2))


class EndsTheEpoch(Pairs):
    def __getitem__(self, index: int) -> Any:
        if index + 1 == len(self.levels):
            raise StopIteration
        return super().__getitem__(index)


class CutsTheLevels(Pairs):
    def __init__(self, levels: Any) -> None:
        super().__init__(levels[:-1])


class PromisesTooFew(Pairs):
    def __len__(self) -> int:
        return len(self.levels) - 2


class PromisesSixteen(Pairs):
    def __len__(self) -> int:
        return 16


class OneLevelOnly(Pairs):
    def __getitem__(self, index: int) -> Any:
        return self.levels[index]


class Backwards(Pairs):
    def __len__(self) -> int:
        return len(self.levels) - 1

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(len(self) - 1 - index)


class LooksBack(Pairs):
    def __getitem__(self, index: int) -> Any:
        return self.levels[index - 1], self.levels[index]


class Fixed(Pairs):
    def __len__(self) -> int:
        return len(self.levels) - 1


class BuiltBefore:
    """A class that isn't a Dataset. Anything with these three methods works."""

    def __init__(self, levels: Any) -> None:
        self.pairs = list(itertools.pairwise(levels))

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Any:
        return self.pairs[index]


class NumpyPairs(Pairs):
    def __len__(self) -> int:
        return max(0, len(self.levels) - 1)

    def __getitem__(self, index: int) -> Any:
        return [np.int64(self.levels[index]), np.int64(self.levels[index + 1])]


class TensorPairs:
    def __init__(self, levels: Any) -> None:
        self.pairs = torch.tensor(levels).unfold(0, 2, 1)

    def __len__(self) -> int:
        return self.pairs.shape[0]

    def __getitem__(self, index: int) -> Any:
        return tuple(self.pairs[index])


class TensorSamples(Fixed):
    """Returns each sample as one tensor of two numbers, so a batch is one tensor, too."""

    def __getitem__(self, index: int) -> Any:
        return torch.tensor(super().__getitem__(index), dtype=torch.float32)


class Slices(Fixed):
    def __getitem__(self, index: int) -> Any:
        return self.levels[index : index + 2]


class NextOfEachLevel:
    """Keeps the pairs in a dict by level, which loses a pair if a level occurs twice."""

    def __init__(self, levels: Any) -> None:
        self.pairs = list(dict(itertools.pairwise(levels)).items())

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Any:
        return self.pairs[index]


class Misspelt(Fixed):
    def __getitem__(self, index: int) -> Any:
        return self.level[index]  # type: ignore[attr-defined]


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
    "00.predict": {"the letter": lambda: "b", "in capitals": lambda: " B) "},
    "00.read": {
        "the number": lambda: 16,
        "of numpy": lambda: np.int64(16),
        "of torch": lambda: torch.tensor(16),
        "as text": lambda: "16",
    },
    "00.fix": {
        "one less": lambda: Fixed,
        "built before": lambda: BuiltBefore,
        "numbers of numpy in a list": lambda: NumpyPairs,
        "tensors": lambda: TensorPairs,
        "a tensor for each sample": lambda: TensorSamples,
        "slices of the list": lambda: Slices,
    },
}

WRONG_FIXES: WrongFixes = {
    "00.predict": {
        "none at all": (lambda: "a", "a"),
        "all of them": (lambda: "c", "c"),
        "by chance": (lambda: "d", "d"),
        "the number instead of the letter": (lambda: 8, "no-option"),
    },
    "00.read": {
        "the worker": (lambda: 0, "0"),
        "the batches": (lambda: 8, "8"),
        "the failing batch, from 1": (lambda: 9, "9"),
        "the last that came": (lambda: 15, "15"),
        "the place in the list": (lambda: 17, "17"),
        "another number": (lambda: 7, "other-number"),
        "no number": (lambda: "W0", "not-a-number"),
    },
    "00.fix": {
        "an object instead of the class": (lambda: Pairs([1, 2]), "an-object"),
        "the last level twice": (lambda: LastLevelTwice, "not-neighbors"),
        "None for what is not there": (lambda: NoneForTheLast, "not-a-pair"),
        "the last pair twice": (lambda: LastPairTwice, "too-often"),
        "the epoch ended by hand": (lambda: EndsTheEpoch, "ends-early"),
        "one level cut off": (lambda: CutsTheLevels, "index-error"),
        "two less": (lambda: PromisesTooFew, "missing"),
        "16 written down": (lambda: PromisesSixteen, "missing"),
        "one level for a sample": (lambda: OneLevelOnly, "not-a-pair"),
        "from the end": (lambda: Backwards, "other-order"),
        "the next of each level": (lambda: NextOfEachLevel, "missing"),
        "a slip": (lambda: Misspelt, "raised"),
        "the hour before": (lambda: LooksBack, "not-neighbors"),
        "sorted in place": (lambda: SortsInPlace, "list-changed"),
        "no length": (lambda: ForgetsItsLength, "no-method"),
    },
}
