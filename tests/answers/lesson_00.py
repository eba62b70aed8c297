"""The usual wrong answers to the exercises of lesson 00."""

from __future__ import annotations

from typing import Any

from dltutor.lessons.lesson_00.pairs import Pairs

from answers import WrongFixes


class RoundInACircle(Pairs):
    def __getitem__(self, index: int) -> Any:
        return self.levels[index], self.levels[(index + 1) % len(self.levels)]


class LastLevelTwice(Pairs):
    def __getitem__(self, index: int) -> Any:
        return self.levels[index], self.levels[min(index + 1, len(self.levels) - 1)]


class ZerosForTheLast(Pairs):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except IndexError:
            return 0, 0


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


WRONG_FIXES: WrongFixes = {
    "00.predict": {
        "none at all": (lambda: "a", "the first one fails"),
        "all of them": (lambda: "c", "could not be made"),
        "by chance": (lambda: "d", "the same on every run"),
        "the number instead of the letter": (lambda: 8, "none of the options"),
    },
    "00.read": {
        "the worker": (lambda: 0, "name of the worker"),
        "the batches": (lambda: 8, "An index counts samples. How many"),
        "the failing batch, from 1": (lambda: 9, "The ninth batch"),
        "the last that came": (lambda: 15, "Sample 15 arrived"),
        "the place in the list": (lambda: 17, "`index + 1`"),
        "another number": (lambda: 7, "7 is not it"),
        "no number": (lambda: "W0", "is no index"),
    },
    "00.fix": {
        "an object instead of the class": (lambda: Pairs([1, 2]), "not an object of it"),
        "round in a circle": (lambda: RoundInACircle, "joins the last level to the first"),
        "the last level twice": (lambda: LastLevelTwice, "one level twice"),
        "zeros for what is not there": (
            lambda: ZerosForTheLast,
            "(0, 0) came, which nobody measured",
        ),
        "None for what is not there": (lambda: NoneForTheLast, "a sample is None"),
        "the last pair twice": (lambda: LastPairTwice, "(49, 47) more than once"),
        "the epoch ended by hand": (lambda: EndsTheEpoch, "StopIteration"),
        "one level cut off": (lambda: CutsTheLevels, "14 of 16 pairs came, then still"),
        "two less": (lambda: PromisesTooFew, "(49, 47) did not"),
        "16 written down": (lambda: PromisesSixteen, "From 12 levels, 10 of 11 pairs came, then"),
        "one level for a sample": (lambda: OneLevelOnly, "must be two numbers"),
        "from the end": (lambda: Backwards, "in another order"),
        "the hour before": (lambda: LooksBack, "`levels[-1]` reads the last"),
    },
}
