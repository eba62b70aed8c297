"""The usual wrong answers to the exercises of lesson 04."""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
from typing import Any

import torch
from torch.utils.data import DataLoader, get_worker_info

from answers import WrongFixes
from dltutor.lessons.lesson_04.clips import CROP, CountedClips, make_clips
from dltutor.lessons.lesson_04.headlines import Headlines, make_headlines

EPOCH = 0


class SharedEpoch(CountedClips):
    """The epoch arrives, and the count does not come back. A base for what follows."""

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.epoch: Any = torch.tensor(0).share_memory_()  # type: ignore[no-untyped-call]

    def set_epoch(self, epoch: int) -> None:
        self.epoch.fill_(epoch)

    def stretch(self, index: int, epoch: int) -> torch.Tensor:
        """The stretch that an epoch hears, uncounted."""
        start = (index * 31 + epoch * CROP) % (self.clips.shape[1] - CROP)
        return self.clips[index, start : start + CROP]

    def __getitem__(self, index: int) -> torch.Tensor:
        stretch = self.stretch(index, int(self.epoch))
        if not stretch.any():
            self.count_one()
        return stretch

    def count_one(self) -> None:
        self.count += 1


class Mended(SharedEpoch):
    """Right: a base for what follows."""

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.count: Any = multiprocessing.get_context("spawn").Value("q", 0)

    def count_one(self) -> None:
        with self.count.get_lock():
            self.count.value += 1

    def silent(self) -> int:
        return int(self.count.value)


class EpochInATensor(Mended):
    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.epoch = torch.tensor(0)


class EpochInAGlobal(Mended):
    def set_epoch(self, epoch: int) -> None:
        global EPOCH
        EPOCH = epoch

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.stretch(index, EPOCH)


class EpochInTheClass(Mended):
    shown = 0

    def set_epoch(self, epoch: int) -> None:
        type(self).shown = epoch

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.stretch(index, self.shown)


class EpochInTheEnvironment(Mended):
    def set_epoch(self, epoch: int) -> None:
        os.environ["DLTUTOR_TEST_EPOCH"] = str(epoch)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.stretch(index, int(os.environ["DLTUTOR_TEST_EPOCH"]))


class CountsTheEpochs(Mended):
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


class DrawsTheStretch(Mended):
    def __getitem__(self, index: int) -> torch.Tensor:
        return self.stretch(index, random.randrange(8, 10))


class TellsTheWorkerFromMain(Mended):
    def set_epoch(self, epoch: int) -> None:
        get_worker_info().dataset.epoch.fill_(epoch)  # type: ignore[union-attr]


class ThreadLock(SharedEpoch):
    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.lock = threading.Lock()

    def count_one(self) -> None:
        with self.lock:
            self.count += 1


class ProcessLock(SharedEpoch):
    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.lock = multiprocessing.get_context("spawn").Lock()

    def count_one(self) -> None:
        with self.lock:
            self.count += 1


class WithoutItsLock(Mended):
    def count_one(self) -> None:
        self.count.value += 1


class CountInATensor(SharedEpoch):
    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.count: Any = torch.tensor(0).share_memory_()  # type: ignore[no-untyped-call]

    def silent(self) -> int:
        return int(self.count)


class AnotherTensor(Mended):
    def set_epoch(self, epoch: int) -> None:
        self.epoch = torch.tensor(epoch).share_memory_()  # type: ignore[no-untyped-call]


class OfFork(Mended):
    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.count = multiprocessing.get_context("fork").Value("q", 0)


class ValueItself(Mended):
    def silent(self) -> Any:
        return self.count


class StartsAgain(Mended):
    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        self.count.value = 0


class CountWithTheSample(Mended):
    def __getitem__(self, index: int) -> Any:
        stretch = super().__getitem__(index)
        return stretch, bool(stretch.any())


class HoldsAThreadLock(Mended):
    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.lock = threading.Lock()


class GlobalVocabulary(Headlines):
    def __getitem__(self, index: int) -> torch.Tensor:
        global VOCABULARY
        VOCABULARY = VOCABULARY | {
            word: len(VOCABULARY) + place
            for place, word in enumerate(self.headlines[index].split())
            if word not in VOCABULARY
        }
        return torch.tensor([VOCABULARY[word] for word in self.headlines[index].split()])


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


class Hashes(Headlines):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([hash(word) for word in self.headlines[index].split()])


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


class FailsAtTheFirstWord(Headlines):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([self.vocabulary[word] for word in self.headlines[index].split()])


def clips_without_workers() -> object:
    return DataLoader(CountedClips(make_clips(())), num_workers=0)


def clips_with_fresh_workers() -> object:
    return DataLoader(CountedClips(make_clips(())), num_workers=2, multiprocessing_context="fork")


class Loader(DataLoader[Any]):
    pass


WRONG_FIXES: WrongFixes = {
    "04.predict": {
        "all of them": (lambda: "a", "Main replaced none"),
        "some of them": (lambda: "c", "0 each time"),
        "half of them": (lambda: "d", "None came back"),
        "no option": (lambda: 0, "none of the options"),
    },
    "04.diagnose": {
        "one variable for all": (
            lambda: {"fresh": (108, 108, 108), "persistent": (108, 108, 108)},
            "Did any worker ever change main's number",
        ),
        "as if imported afresh": (
            lambda: {"fresh": (100, 4, 4), "persistent": (100, 8, 8)},
            "are forked when epoch 1 begins",
        ),
        "persistent workers are told": (
            lambda: {"fresh": (100, 104, 104), "persistent": (100, 108, 108)},
            "Who would have told them",
        ),
        "persistent workers start again": (
            lambda: {"fresh": (100, 104, 104), "persistent": (100, 4, 4)},
            "live on",
        ),
        "one worker counts all": (
            lambda: {"fresh": (100, 108, 100), "persistent": (100, 8, 8)},
            "started at the same moment",
        ),
        "each worker counts all": (
            lambda: {"fresh": (100, 108, 108), "persistent": (100, 16, 16)},
            "How many readings does each worker replace",
        ),
        "one number": (lambda: {"fresh": 100, "persistent": 100}, "three whole numbers"),
        "no dict": (lambda: 104, "has to stay a dict"),
    },
    "04.fix": {
        "num_workers=0": (clips_without_workers, "With `num_workers=0` there is one process"),
        "persistent_workers=False": (clips_with_fresh_workers, "keeps its persistent workers"),
        "a class of loaders": (lambda: Loader, "keeps its workers"),
        "a tensor that is not shared": (lambda: EpochInATensor, "`epoch.is_shared()` says False"),
        "a global": (lambda: EpochInAGlobal, "The global `EPOCH` is one for each process"),
        "a class attribute": (lambda: EpochInTheClass, "`shown` belongs to the class"),
        "os.environ": (lambda: EpochInTheEnvironment, "environment variables"),
        "epochs counted in the worker": (lambda: CountsTheEpochs, "Who counts the epochs"),
        "chance": (lambda: DrawsTheStretch, "Which stretch does `start`"),
        "get_worker_info() in main": (lambda: TellsTheWorkerFromMain, "'NoneType' object"),
        "only the epoch": (lambda: SharedEpoch, "Who changed which copy"),
        "a threading.Lock": (lambda: ThreadLock, "`lock` is a lock for threads"),
        "a multiprocessing.Lock around a copy": (lambda: ProcessLock, "What it guards is a copy"),
        "a Value without its lock": (lambda: WithoutItsLock, "Counts get lost"),
        "a shared tensor of one number": (lambda: CountInATensor, "one number in a shared tensor"),
        "another shared tensor in each epoch": (
            lambda: AnotherTensor,
            "`epoch` is shared. But `set_epoch` puts another tensor in its place",
        ),
        "a Value of fork": (lambda: OfFork, "belongs to fork"),
        "a threading.Lock too many": (lambda: HoldsAThreadLock, "cannot travel"),
        "the Value itself": (lambda: ValueItself, "returned a Synchronized"),
        "counted from 0 in each epoch": (lambda: StartsAgain, "since the dataset was made"),
        "another sample": (lambda: CountWithTheSample, "leaves the samples as they are"),
    },
    "04.transfer": {
        "num_workers=0": (
            lambda: DataLoader(Headlines(make_headlines()), num_workers=0),
            "there is one process",
        ),
        "a global": (lambda: GlobalVocabulary, "The global `VOCABULARY`"),
        "a class attribute": (lambda: VocabularyOfTheClass, "`vocabulary` belongs to the class"),
        "a lock": (lambda: LockedVocabulary, "What it guards is a copy"),
        "a Manager's dict": (lambda: LentVocabulary, "a round trip for each word"),
        "hash()": (lambda: Hashes, "nobody can read the numbers back"),
        "the first headlines only": (lambda: UnknownIsNought, "words share the number 0"),
        "numbers with gaps": (lambda: NumbersWithGaps, "has no such row"),
        "the words": (lambda: WordsThemselves, "A batch is a list"),
        "an empty vocabulary": (lambda: FailsAtTheFirstWord, "KeyError"),
    },
}
