"""Define right and wrong answers to the exercises of lesson 04."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections import Counter as Counts
from typing import Any

import numpy as np
import torch
from cells import answer_in
from torch.utils.data import DataLoader, get_worker_info

from answers import OtherOutcomes, RightAnswers, WrongFixes
from dltutor.lessons.lesson_04.helpers import (
    CountedClips,
    Headlines,
    make_clips,
    make_headlines,
)
from notebooks import NOTEBOOKS, read

TWIN = NOTEBOOKS / "solutions" / "04-global-state.ipynb"

EPOCH = 0


class SharedEpoch(CountedClips):
    """A base class: workers get the new epoch, but main doesn't get their counts."""

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
    """A right answer, and a base class."""

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.count: Any = multiprocessing.get_context("spawn").Value("q", 0)

    def count_one(self) -> None:
        with self.count.get_lock():
            self.count.value += 1

    def silent(self) -> int:
        return int(self.count.value)


class EpochInATensor(Fixed):
    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.epoch = torch.tensor(0)


class EpochInAGlobal(Fixed):
    def set_epoch(self, epoch: int) -> None:
        global EPOCH
        EPOCH = epoch

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.stretch(index, EPOCH)


class EpochInTheClass(Fixed):
    shown = 0

    def set_epoch(self, epoch: int) -> None:
        type(self).shown = epoch

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.stretch(index, self.shown)


class CountsTheEpochs(Fixed):
    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.drawn = 0

    def set_epoch(self, epoch: int) -> None:
        pass

    def __getitem__(self, index: int) -> torch.Tensor:
        worker = get_worker_info()
        share = len(self) // (worker.num_workers if worker else 1)
        self.drawn += 1
        return self.stretch(index, (self.drawn - 1) // share)


class ProcessLock(SharedEpoch):
    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.lock = multiprocessing.get_context("spawn").Lock()

    def count_one(self) -> None:
        with self.lock:
            self.count += 1


class WithoutItsLock(Fixed):
    def count_one(self) -> None:
        self.count.value += 1


class CountInATensor(SharedEpoch):
    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.count: Any = torch.tensor(0).share_memory_()

    def silent(self) -> int:
        return int(self.count)


class OfFork(Fixed):
    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.count = multiprocessing.get_context("fork").Value("q", 0)


class CountWithTheSample(Fixed):
    def __getitem__(self, index: int) -> Any:
        stretch = super().__getitem__(index)
        return stretch, bool(stretch.any())


class GlobalVocabulary(Headlines):
    def __getitem__(self, index: int) -> torch.Tensor:
        words = self.headlines[index].split()
        return torch.tensor([VOCABULARY.setdefault(word, len(VOCABULARY)) for word in words])

    @property
    def vocabulary(self) -> dict[str, int]:  # type: ignore[override]
        return VOCABULARY

    @vocabulary.setter
    def vocabulary(self, none: dict[str, int]) -> None:
        pass


VOCABULARY: dict[str, int] = {}


class VocabularyOfTheClass(Headlines):
    vocabulary: dict[str, int] = {}  # noqa: RUF012 - as a learner has it

    def __init__(self, headlines: list[str]) -> None:
        self.headlines = headlines


class LockedVocabulary(Headlines):
    def __init__(self, headlines: list[str]) -> None:
        super().__init__(headlines)
        self.lock = multiprocessing.get_context("fork").Lock()

    def __getitem__(self, index: int) -> torch.Tensor:
        with self.lock:
            return super().__getitem__(index)


class LentVocabulary(Headlines):
    def __init__(self, headlines: list[str]) -> None:
        super().__init__(headlines)
        self.manager = multiprocessing.get_context("fork").Manager()
        self.vocabulary = self.manager.dict()  # type: ignore[assignment]

    def __getitem__(self, index: int) -> torch.Tensor:  # SlowMotion skips the lesson's code
        words = self.headlines[index].split()
        for word in words:
            self.vocabulary.setdefault(word, len(self.vocabulary))
        return torch.tensor([self.vocabulary[word] for word in words])


class LentAndLocked(LockedVocabulary, LentVocabulary):
    pass


class UnknownIsNought(Headlines):
    def __init__(self, headlines: list[str]) -> None:
        super().__init__(headlines)
        for headline in headlines[:4]:
            for word in headline.split():
                self.vocabulary.setdefault(word, 1 + len(self.vocabulary))

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([self.vocabulary.get(w, 0) for w in self.headlines[index].split()])


class NumbersWithGaps(Headlines):
    def __init__(self, headlines: list[str]) -> None:
        super().__init__(headlines)
        for headline in headlines:
            for word in headline.split():
                self.vocabulary.setdefault(word, 10 * len(self.vocabulary))


class WordsThemselves(Headlines):
    def __getitem__(self, index: int) -> Any:
        return self.headlines[index].split()


class WithSlots(SharedEpoch):
    """Counts in a shared tensor, which has a slot for each worker."""

    room = 16
    kind = torch.int64

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.count: Any = torch.zeros(self.room, dtype=self.kind)
        self.count.share_memory_()

    def count_one(self) -> None:
        worker = get_worker_info()
        self.count[worker.id if worker else 0] += 1

    def silent(self) -> Any:
        return self.count.sum()


class SlotsOfBytes(WithSlots):
    kind = torch.uint8


class SilentInSum(Fixed):
    def __getitem__(self, index: int) -> torch.Tensor:
        stretch = self.stretch(index, int(self.epoch))
        if int(stretch.sum()) == 0:
            self.count_one()
        return stretch


class OneStepFurther(Fixed):
    def stretch(self, index: int, epoch: int) -> torch.Tensor:
        return self.clips[index, epoch : epoch + 32]


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


class TensorItself(TensorUnderItsLock):
    def silent(self) -> Any:
        return self.count


class InAFile(SharedEpoch):
    """Appends one byte to a file for each silent stretch. Linux does that in one step."""

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.path = tempfile.mkstemp()[1]

    def count_one(self) -> None:
        with open(self.path, "ab") as file:
            file.write(b".")

    def silent(self) -> int:
        return os.stat(self.path).st_size


class EmptiedByMain(SharedEpoch):
    """Sends a message for each silent stretch, and counts them in main."""

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
    """Numbers every word before any worker starts."""

    def __init__(self, headlines: list[str]) -> None:
        super().__init__(headlines)
        for headline in headlines:
            for word in headline.split():
                self.vocabulary.setdefault(word, len(self.vocabulary))


class SharedVocabulary(Headlines):
    """Keeps the dict in a server process, and locks it while it looks up or adds a word."""

    def __init__(self, headlines: list[str]) -> None:
        context = multiprocessing.get_context("fork")
        self.headlines = headlines
        self.manager = context.Manager()
        self.shared = self.manager.dict()
        self.lock: Any = context.Lock()

    @property
    def vocabulary(self) -> dict[str, int]:  # type: ignore[override]
        return dict(self.shared)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([self.number_of(word) for word in self.headlines[index].split()])

    def number_of(self, word: str) -> int:
        with self.lock:
            return int(self.shared.setdefault(word, len(self.shared)))


class LockedTooLate(SharedVocabulary):
    """Takes the lock after it has looked, and doesn't look again."""

    def number_of(self, word: str) -> int:
        if word not in self.shared:
            with self.lock:
                self.shared[word] = len(self.shared)
        return int(self.shared[word])


class MostFrequent(Headlines):
    """Numbers only the most frequent words, and has one number for the rest."""

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


class SortedNumbers(Numbered):
    def __getitem__(self, index: int) -> torch.Tensor:
        return super().__getitem__(index).sort()[0]


class LowerCase(Numbered):
    def __init__(self, headlines: list[str]) -> None:
        super().__init__([headline.lower() for headline in headlines])


class ListOfWords(Headlines):
    """The numbers are right, but `vocabulary` isn't a dict."""

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


def typed(cell: str, *changes: tuple[str, str], name: str = "MyClips", **known: object) -> Any:
    """Run a cell of the solved notebook, with some text replaced, and return its class `name`."""
    notebook = read(TWIN)
    for each in notebook.cells:
        if each.id == cell:
            for old, new in changes:
                assert old in each.source, old
                each.source = each.source.replace(old, new)
    return answer_in(notebook, "setup", cell, __name__="__main__", **known)[name]


def clips_without_workers() -> object:
    return DataLoader(CountedClips(make_clips()), num_workers=0)


RIGHT_ANSWERS: RightAnswers = {
    "04.predict": {"the letter": lambda: "b", "with a parenthesis": lambda: "B)"},
    "04.diagnose": {"the letter": lambda: "b", "a numpy one": lambda: np.str_(" b")},
    "04.fix": {
        "a Value under its lock": lambda: Fixed,
        "a place for each worker": lambda: WithSlots,
        "a tensor under a lock": lambda: TensorUnderItsLock,
        "a byte in a file": lambda: InAFile,
        "messages that main counts": lambda: EmptiedByMain,
        "the twin's, from a cell": lambda: typed("fix-solved"),
    },
    "04.transfer": {
        "numbered in __init__": lambda: Numbered,
        "a Manager's dict itself, under a lock": lambda: LentAndLocked,
        "the twin's, from a cell": lambda: typed("transfer-solved", name="MyHeadlines"),
    },
}

WRONG_FIXES: WrongFixes = {
    "04.predict": {
        "all of them": (lambda: "a", "a"),
        "some of them": (lambda: "c", "c"),
        "half of them": (lambda: "d", "d"),
        "no option": (lambda: 0, "no-option"),
    },
    "04.diagnose": {
        "persistent workers are told": (lambda: "a", "a"),
        "fresh workers are not": (lambda: "(c)", "c"),
        "one variable for all": (lambda: "d", "d"),
    },
    "04.fix": {
        "num_workers=0": (clips_without_workers, "a-loader"),
        "a tensor that is not shared": (lambda: EpochInATensor, "other-epoch"),
        "a global": (lambda: EpochInAGlobal, "other-epoch"),
        "a class attribute": (lambda: EpochInTheClass, "other-epoch"),
        "epochs counted in the worker": (lambda: CountsTheEpochs, "other-epoch"),
        "only the epoch": (lambda: SharedEpoch, "none-counted"),
        "a multiprocessing.Lock around a copy": (lambda: ProcessLock, "none-counted"),
        "a Value without its lock": (lambda: WithoutItsLock, "lost-counts"),
        "a shared tensor of one number": (lambda: CountInATensor, "lost-counts"),
        "a Value of fork": (lambda: OfFork, "spawned"),
        "the shared tensor itself": (lambda: TensorItself, "shared-tensor"),
        "counted from 0 in each epoch": (lambda: StartsAgain, "lost-or-set-back"),
        "a step for each epoch": (lambda: OneStepFurther, "wrong-stretches"),
        "no number": (
            lambda: type("MyClips", (Fixed,), {"silent": lambda self: self.count}),
            "not-a-number",
        ),
        "a sum of 0 is silence": (lambda: SilentInSum, "other-count"),
        "places of one byte": (lambda: SlotsOfBytes, "too-small"),
        "no set_epoch": (lambda: Headlines, "no-method"),
        "a global that is shared": (
            lambda: typed(
                "fix-solved",
                ("self.epoch.fill_", "EPOCH.fill_"),
                ("int(self.epoch)", "int(EPOCH)"),
                EPOCH=torch.tensor(0).share_memory_(),
            ),
            "spawned",
        ),
        "a global Value": (
            lambda: typed(
                "fix-solved",
                ("self.count.", "COUNT."),
                COUNT=multiprocessing.get_context("spawn").Value("q", 0),
            ),
            "other-count",
        ),
        "another sample": (lambda: CountWithTheSample, "other-batch"),
        "a global lock, from a cell": (
            lambda: typed(
                "fix-solved",
                ('get_context("spawn").Value("q", 0)', "torch.tensor(0).share_memory_()"),
                ("self.count.get_lock()", "LOCK"),
                ("self.count.value", "self.count"),
                ("return self.count", "return int(self.count)"),
                LOCK=multiprocessing.get_context("spawn").Lock(),
            ),
            "spawned",
        ),
    },
    "04.transfer": {
        "num_workers=0": (
            lambda: DataLoader(Headlines(make_headlines()), num_workers=0),
            "a-loader",
        ),
        "a global": (lambda: GlobalVocabulary, "same-number"),
        "a class attribute": (lambda: VocabularyOfTheClass, "same-number"),
        "a Manager's dict": (lambda: LentVocabulary, ("same-number", "two-numbers")),
        "the lock only around adding": (lambda: LockedTooLate, ("same-number", "two-numbers")),
        "each headline once": (lambda: EachHeadlineOnce, "other-length"),
        "the most frequent words": (lambda: MostFrequent, "same-number-in-main"),
        "hash()": (lambda: Hashes, "unknown-word"),
        "another vocabulary": (lambda: SortedWords, "other-number"),
        "upper case is lower case": (lambda: LowerCase, "same-number-in-main"),
        "a list": (lambda: ListOfWords, "not-a-dict"),
        "sorted numbers": (lambda: SortedNumbers, "two-numbers-in-main"),
        "the first headlines only": (lambda: UnknownIsNought, "same-number-in-main"),
        "numbers with gaps": (lambda: NumbersWithGaps, "gaps"),
        "the words": (lambda: WordsThemselves, "other-batch"),
        "a sorted list": (lambda: SortsTheList, "headlines-changed"),
    },
}

OTHER_OUTCOMES: OtherOutcomes = {
    "04.predict": {"nothing": (lambda: ..., "Not attempted", "no-letter")},
    "04.diagnose": {"nothing": (lambda: None, "Not attempted", "no-letter")},
    "04.fix": {
        "the starter": (lambda: typed("fix"), "Not attempted", "starter-class"),
    },
    "04.transfer": {
        "the starter": (
            lambda: typed("transfer", name="MyHeadlines"),
            "Not attempted",
            "starter-class",
        ),
    },
}
