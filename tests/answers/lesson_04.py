"""Define right and wrong answers to the exercises of lesson 04."""

from __future__ import annotations

import multiprocessing
from collections import Counter as Counts
from typing import Any

import torch
from torch.utils.data import get_worker_info

from answers import RightAnswers, WrongFixes, delivering, like, locked, setting
from dltutor.lessons.lesson_04.helpers import CountedClips, Headlines

FORK = multiprocessing.get_context("fork")


class SharedEpoch(CountedClips):
    """A wrong answer to "04.fix", and the base class of other answers.

    Workers get the new epoch, but main doesn't get their counts.
    """

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.epoch: Any = torch.tensor(0).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        self.epoch.fill_(epoch)

    def stretch(self, index: int, epoch: int) -> torch.Tensor:
        """Return an epoch's stretch of a clip, without counting it."""
        return self.clips[index, 32 * epoch : 32 * (epoch + 1)]

    def __getitem__(self, index: int) -> torch.Tensor:
        stretch = self.stretch(index, int(self.epoch))
        if not stretch.any():
            self.count_one()
        return stretch

    def count_one(self) -> None:
        self.count += 1


class Fixed(SharedEpoch):
    """A right answer to "04.fix", which counts under a lock. Other answers are subclasses of it."""

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.count: Any = multiprocessing.get_context("spawn").Value("q", 0)

    def count_one(self) -> None:
        with self.count.get_lock():
            self.count.value += 1

    def silent(self) -> int:
        return int(self.count.value)


class WithoutItsLock(Fixed):
    def count_one(self) -> None:
        self.count.value += 1


class CountInATensor(SharedEpoch):
    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.count: Any = torch.tensor(0).share_memory_()

    def silent(self) -> int:
        return int(self.count)


class VocabularyOfTheClass(Headlines):
    vocabulary: dict[str, int] = {}  # noqa: RUF012 - as a learner might write it

    def __init__(self, headlines: list[str]) -> None:
        self.headlines = headlines


class LentVocabulary(Headlines):
    def __init__(self, headlines: list[str]) -> None:
        super().__init__(headlines)
        self.manager = FORK.Manager()
        self.vocabulary = self.manager.dict()  # type: ignore[assignment]

    # Repeat the code of `Headlines.__getitem__`. To make races certain, the check uses
    # `SlowMotion`, which doesn't slow down code in dltutor.lessons.
    def __getitem__(self, index: int) -> torch.Tensor:
        words = self.headlines[index].split()
        for word in words:
            self.vocabulary.setdefault(word, len(self.vocabulary))
        return torch.tensor([self.vocabulary[word] for word in words])


class WithSlots(SharedEpoch):
    """Right: counts in a shared tensor, in which each worker writes only to its own slot."""

    room = 16

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.count: Any = torch.zeros(self.room, dtype=torch.int64)
        self.count.share_memory_()

    def count_one(self) -> None:
        worker = get_worker_info()
        self.count[worker.id if worker else 0] += 1

    def silent(self) -> Any:
        return self.count.sum()


class OfFork(Fixed):
    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.count = FORK.Value("q", 0)


class SilentInSum(Fixed):
    def __getitem__(self, index: int) -> torch.Tensor:
        stretch = self.stretch(index, int(self.epoch))
        if int(stretch.sum()) == 0:
            self.count_one()
        return stretch


class StartsAgain(Fixed):
    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        self.count.value = 0


class TensorUnderItsLock(CountInATensor):
    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.lock = multiprocessing.get_context("spawn").Lock()

    def count_one(self) -> None:
        with self.lock:
            self.count.add_(1)


class EmptiedByMain(SharedEpoch):
    """Right: puts a message into a queue for each silent stretch, and main counts the messages."""

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.messages = multiprocessing.get_context("spawn").SimpleQueue()

    def count_one(self) -> None:
        self.messages.put(1)

    def silent(self) -> int:
        while not self.messages.empty():
            self.count += self.messages.get()
        return self.count


class Numbered(Headlines):
    """A right answer to "04.transfer", which numbers every word before any worker starts.

    A subclass with another `step` leaves gaps between the numbers.
    """

    step = 1

    def __init__(self, headlines: list[str]) -> None:
        super().__init__(headlines)
        for headline in headlines:
            for word in headline.split():
                self.vocabulary.setdefault(word, self.step * len(self.vocabulary))


class MostFrequent(Headlines):
    """Wrong, because all words except the 100 most frequent ones share the number 0."""

    def __init__(self, headlines: list[str]) -> None:
        super().__init__(headlines)
        words = Counts(" ".join(headlines).split()).most_common(100)
        self.vocabulary = {w: n for n, w in enumerate(["<unk>", *(word for word, _ in words)])}

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([self.vocabulary.get(w, 0) for w in self.headlines[index].split()])


class EachHeadlineOnce(Numbered):
    def __init__(self, headlines: list[str]) -> None:
        super().__init__(list(dict.fromkeys(headlines)))


class SortsTheList(Numbered):
    def __init__(self, headlines: list[str]) -> None:
        headlines.sort()
        super().__init__(headlines)


class ListOfWords(Headlines):
    """Wrong, because `vocabulary` isn't a dict, although the numbers are right."""

    def __init__(self, headlines: list[str]) -> None:
        super().__init__(headlines)
        self.numbers = Numbered(headlines).vocabulary
        self.vocabulary = self.shown()

    def shown(self) -> Any:
        return [*self.numbers]

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([self.numbers[word] for word in self.headlines[index].split()])


class SortedWords(ListOfWords):
    def shown(self) -> Any:
        return {word: number for number, word in enumerate(sorted(self.numbers))}


class Hashes(Headlines):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([hash(word) for word in self.headlines[index].split()])


RIGHT_ANSWERS: RightAnswers = {
    "04.fix": {
        "a Value under its lock": Fixed,
        "a place for each worker": WithSlots,
        "a tensor under a lock": TensorUnderItsLock,
        "messages that main counts": EmptiedByMain,
    },
    "04.transfer": {
        "numbered in __init__": Numbered,
        "a Manager's dict itself, under a lock": locked(LentVocabulary),
    },
}

WRONG_FIXES: WrongFixes = {
    "04.fix": {
        "a tensor that is not shared": (
            setting(Fixed, epoch=lambda self: torch.tensor(0)),
            "other-epoch",
        ),
        "only the epoch": (SharedEpoch, "none-counted"),
        "a Value without its lock": (WithoutItsLock, "lost-counts"),
        "a Value of fork": (OfFork, "spawned"),
        "the shared tensor itself": (
            like(TensorUnderItsLock, silent=lambda self: self.count),
            "shared-tensor",
        ),
        "counted from 0 in each epoch": (StartsAgain, "lost-or-set-back"),
        "a step for each epoch": (
            like(Fixed, stretch=lambda self, index, epoch: self.clips[index, epoch : epoch + 32]),
            "wrong-stretches",
        ),
        "no number": (like(Fixed, silent=lambda self: self.count), "not-a-number"),
        "a sum of 0 is silence": (SilentInSum, "other-count"),
        "no set_epoch": (Headlines, "no-method"),
        "another sample": (
            delivering(Fixed, lambda stretch: (stretch, bool(stretch.any()))),
            "other-batch",
        ),
    },
    "04.transfer": {
        "a class attribute": (VocabularyOfTheClass, "same-number"),
        "a Manager's dict": (LentVocabulary, ("same-number", "two-numbers")),
        "each headline once": (EachHeadlineOnce, "other-length"),
        "the most frequent words": (MostFrequent, "same-number-in-main"),
        "hash()": (Hashes, "unknown-word"),
        "another vocabulary": (SortedWords, "other-number"),
        "a list": (ListOfWords, "not-a-dict"),
        "sorted numbers": (
            delivering(Numbered, lambda numbers: numbers.sort()[0]),
            "two-numbers-in-main",
        ),
        "numbers with gaps": (like(Numbered, step=10), "gaps"),
        "the words": (
            like(Headlines, __getitem__=lambda self, index: self.headlines[index].split()),
            "other-batch",
        ),
        "a sorted list": (SortsTheList, "headlines-changed"),
    },
}
