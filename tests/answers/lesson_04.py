"""What learners hand in to the exercises of lesson 04."""

from __future__ import annotations

import multiprocessing
import os
import random
import sqlite3
import tempfile
import threading
from collections import Counter as Counts
from contextlib import closing, nullcontext
from pathlib import Path
from queue import Empty
from typing import Any

import numpy as np
import torch
from cells import answer_in
from torch.utils.data import DataLoader, get_worker_info

from answers import OtherOutcomes, RightAnswers, WrongFixes
from dltutor.lessons.lesson_04.material import (
    CountedClips,
    Headlines,
    make_clips,
    make_headlines,
    stretches,
)
from notebooks import NOTEBOOKS, read

TWIN = NOTEBOOKS / "solutions" / "04-global-state.ipynb"

EPOCH = 0


class SharedEpoch(CountedClips):
    """The epoch arrives, and the count does not come back. A base for what follows."""

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.epoch: Any = torch.tensor(0).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        self.epoch.fill_(epoch)

    def stretch(self, index: int, epoch: int) -> torch.Tensor:
        """The stretch that an epoch hears, uncounted."""
        return self.clips[index, 32 * epoch : 32 * (epoch + 1)]

    def __getitem__(self, index: int) -> torch.Tensor:
        stretch = self.stretch(index, int(self.epoch))
        if not stretch.any():
            self.count_one()
        return stretch

    def count_one(self) -> None:
        self.count += 1


class Fixed(SharedEpoch):
    """Right: a base for what follows."""

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.count: Any = multiprocessing.get_context("spawn").Value("q", 0)

    def count_one(self) -> None:
        with self.count.get_lock():
            self.count.value += 1

    def silent(self) -> int:
        return int(self.count.value)


class EpochOfItsOwn(Fixed):
    def set_epoch(self) -> None:  # type: ignore[override]
        self.epoch += 1


class SilentOf(Fixed):
    def silent(self, index: int) -> int:  # type: ignore[override]
        return index


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


class EpochInTheEnvironment(Fixed):
    def set_epoch(self, epoch: int) -> None:
        os.environ["DLTUTOR_TEST_EPOCH"] = str(epoch)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.stretch(index, int(os.environ["DLTUTOR_TEST_EPOCH"]))


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


class DrawsTheStretch(Fixed):
    def __getitem__(self, index: int) -> torch.Tensor:
        return self.stretch(index, random.randrange(4, 12))


class TellsTheWorkerFromMain(Fixed):
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


class WithoutItsLock(Fixed):
    def count_one(self) -> None:
        self.count.value += 1


class CountInATensor(SharedEpoch):
    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.count: Any = torch.tensor(0).share_memory_()

    def silent(self) -> int:
        return int(self.count)


class AnotherTensor(Fixed):
    def set_epoch(self, epoch: int) -> None:
        self.epoch = torch.tensor(epoch).share_memory_()


class OfFork(Fixed):
    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.count = multiprocessing.get_context("fork").Value("q", 0)


class OneFurther(Fixed):
    def set_epoch(self, epoch: int) -> None:
        self.epoch += 1


class ValueItself(Fixed):
    def silent(self) -> Any:
        return self.count


class StartsAgain(Fixed):
    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        self.count.value = 0


class OneFile(Fixed):
    """A file for all datasets of the program: a second one begins it anew."""

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.path = Path(tempfile.gettempdir()) / "count"
        self.path.write_bytes(b"")

    def __getitem__(self, index: int) -> Any:
        if not (stretch := super().__getitem__(index)).any():
            with self.path.open("ab", buffering=0) as file:
                file.write(b".")
        return stretch

    def silent(self) -> int:
        return self.path.stat().st_size


class Sixteen(Fixed):
    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips[:16])


class CountWithTheSample(Fixed):
    def __getitem__(self, index: int) -> Any:
        stretch = super().__getitem__(index)
        return stretch, bool(stretch.any())


class HoldsAThreadLock(Fixed):
    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.lock = threading.Lock()


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

    def __getitem__(self, index: int) -> torch.Tensor:  # the lesson's own is never slow
        words = self.headlines[index].split()
        for word in words:
            self.vocabulary.setdefault(word, len(self.vocabulary))
        return torch.tensor([self.vocabulary[word] for word in words])


class LentAndLocked(LockedVocabulary, LentVocabulary):
    pass


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


class WithSlots(SharedEpoch):
    """A place for each worker, in a tensor."""

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


class RoomForTwo(WithSlots):
    room = 2


class SlotsOfBytes(WithSlots):
    kind = torch.uint8


class WorkersOnly(WithSlots):
    def count_one(self) -> None:
        self.count[get_worker_info().id] += 1  # type: ignore[union-attr]


class OneSlotForAll(WithSlots):
    def count_one(self) -> None:
        self.count[0] += 1


class EverySecondSlot(WithSlots):
    def count_one(self) -> None:
        worker = get_worker_info()
        self.count[worker.id % 2 if worker else 0] += 1


class NotInMain(WithSlots):
    def count_one(self) -> None:
        if get_worker_info():
            super().count_one()


class PlaceForEachRecording(WithSlots):
    """No place has one writer: four workers may draw one recording at the same moment."""

    def __getitem__(self, index: int) -> torch.Tensor:
        stretch = self.stretch(index, int(self.epoch))
        if not stretch.any():
            self.count[index] += 1
        return stretch


class EveryFourthEpoch(Fixed):
    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch % 4)


class FourEpochs(Fixed):
    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(min(epoch, 3))


class SilentInSum(Fixed):
    def __getitem__(self, index: int) -> torch.Tensor:
        stretch = self.stretch(index, int(self.epoch))
        if self.is_silent(stretch):
            self.count_one()
        return stretch

    def is_silent(self, stretch: torch.Tensor) -> bool:
        return int(stretch.sum()) == 0


class SilentAtMost(SilentInSum):
    def is_silent(self, stretch: torch.Tensor) -> bool:
        return int(stretch.max()) == 0


class SilentWhereNothingMoves(SilentInSum):
    def is_silent(self, stretch: torch.Tensor) -> bool:
        return bool((stretch == stretch[0]).all())


class SilentAtFirst(SilentInSum):
    def is_silent(self, stretch: torch.Tensor) -> bool:
        return not stretch[:16].any()


class EverySecondNumber(SilentInSum):
    def is_silent(self, stretch: torch.Tensor) -> bool:
        return not stretch[::2].any()


class CountedBeforehand(Fixed):
    """What the epoch would hear, whoever draws it."""

    def count_one(self) -> None:
        pass

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        with self.count.get_lock():
            self.count.value += int((~stretches(self.clips, epoch).any(dim=1)).sum())


class CountedInTheSamples(Fixed):
    """Each recording once, however often it was drawn."""

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.heard = torch.zeros(512, len(clips), dtype=torch.int64).share_memory_()

    def __getitem__(self, index: int) -> torch.Tensor:
        stretch = self.stretch(index, int(self.epoch))
        self.heard[int(self.epoch), index] = int(not stretch.any())
        return stretch

    def silent(self) -> int:
        return int(self.heard.sum())


class TensorAndLock(CountInATensor):
    """The lock is there, and nobody takes it."""

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.lock = multiprocessing.get_context("spawn").Lock()


class TensorUnderItsLock(TensorAndLock):
    def count_one(self) -> None:
        with self.lock:
            self.count.add_(1)


class TensorItself(TensorUnderItsLock):
    def silent(self) -> Any:
        return self.count


class LockOfTheClass(CountInATensor):
    """Each spawned worker imports the class, and makes a lock of its own."""

    lock = multiprocessing.get_context("spawn").Lock()

    def count_one(self) -> None:
        with self.lock:
            self.count.add_(1)


class LockMadeOnArrival(TensorUnderItsLock):
    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.lock = multiprocessing.get_context("spawn").Lock()


class Counter:
    """A count with its lock, in an object of its own."""

    def __init__(self) -> None:
        self.number = torch.tensor(0).share_memory_()
        self.lock = multiprocessing.get_context("spawn").Lock()

    def add(self) -> None:
        with self.lock:
            self.number.fill_(int(self.number) + 1)


class CarelessCounter(Counter):
    def add(self) -> None:
        self.number.fill_(int(self.number) + 1)


class WithACounter(SharedEpoch):
    counter = Counter

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.counted = self.counter()

    def count_one(self) -> None:
        self.counted.add()

    def silent(self) -> int:
        return int(self.counted.number)


class WithACarelessCounter(WithACounter):
    counter = CarelessCounter


class InAFile(SharedEpoch):
    """One byte for each silent stretch, at the end of a file: the system's own step."""

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.path = tempfile.mkstemp()[1]

    def count_one(self) -> None:
        with open(self.path, "ab") as file:
            file.write(b".")

    def silent(self) -> int:
        return os.stat(self.path).st_size


class FileOfAFixedName(InAFile):
    """A second dataset empties it."""

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.path = os.path.join(tempfile.gettempdir(), "silent-count")
        Path(self.path).write_bytes(b"")


class InADatabase(SharedEpoch):
    """Both numbers in SQLite: right, and slow."""

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.path = os.path.join(tempfile.mkdtemp(), "clips.db")
        self.asked("create table state (epoch integer, silent integer)")
        self.asked("insert into state values (0, 0)")

    def asked(self, *what: Any) -> Any:
        with closing(sqlite3.connect(self.path, timeout=60)) as database, database:
            return database.execute(*what).fetchone()

    def set_epoch(self, epoch: int) -> None:
        self.asked("update state set epoch = ?", (epoch,))

    def __getitem__(self, index: int) -> torch.Tensor:
        stretch = self.stretch(index, *self.asked("select epoch from state"))
        if not stretch.any():
            self.asked("update state set silent = silent + 1")
        return stretch

    def silent(self) -> int:
        return int(self.asked("select silent from state")[0])


class NumberInAFile(InAFile):
    def count_one(self) -> None:
        with open(self.path) as file:
            number = int(file.read() or 0)
        with open(self.path, "w") as file:
            file.write(str(number + 1))

    def silent(self) -> int:
        with open(self.path) as file:
            return int(file.read() or 0)


class WithAState(Fixed):
    """What does not have to travel is left out, and made again on arrival."""

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.log: Any = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "log": None}


class EmptiedByMain(SharedEpoch):
    """Each silent stretch is a message, and main counts them."""

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.messages = multiprocessing.get_context("spawn").SimpleQueue()

    def count_one(self) -> None:
        self.messages.put(1)

    def silent(self) -> int:
        while not self.messages.empty():
            self.count += self.messages.get()
        return self.count


class DrainedAtOnce(SharedEpoch):
    """What the queue's thread has not sent yet is not counted."""

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.messages = multiprocessing.get_context("spawn").Queue()

    def count_one(self) -> None:
        self.messages.put(1)

    def silent(self) -> int:
        try:
            while True:
                self.count += self.messages.get_nowait()
        except Empty:
            return self.count


class SaysText(Fixed):
    def silent(self) -> Any:
        return str(self.count.value)


class EpochInAValue(Fixed):
    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.shared = multiprocessing.get_context("spawn").Value("q", 0)

    def set_epoch(self, epoch: int) -> None:
        self.shared.value = epoch

    def __getitem__(self, index: int) -> torch.Tensor:
        self.epoch = self.shared.value
        return super().__getitem__(index)


class AddsToItsPlace(WithSlots):
    """One operation on all places, which writes to its own only."""

    def count_one(self) -> None:
        worker = get_worker_info()
        self.count.index_add_(0, torch.tensor([worker.id if worker else 0]), torch.tensor([1]))


class WritesWhatItCounted(WithSlots):
    """Its own count, written to its place: fresh workers begin with 0, and write over it."""

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.mine = 0

    def count_one(self) -> None:
        worker = get_worker_info()
        self.mine += 1
        self.count[worker.id if worker else 0] = self.mine


class WithoutAnswer(Fixed):
    def silent(self) -> Any:
        return None


class Numbered(Headlines):
    """Every word has its number before any worker starts."""

    def __init__(self, headlines: list[str]) -> None:
        super().__init__(headlines)
        for headline in headlines:
            for word in headline.split():
                self.vocabulary.setdefault(word, len(self.vocabulary))


class SharedVocabulary(Headlines):
    """A dict in a server process, and a lock around looking up and adding."""

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


class UnlockedVocabulary(SharedVocabulary):
    def __init__(self, headlines: list[str]) -> None:
        super().__init__(headlines)
        self.lock = nullcontext()


class UnlockedInTwoSteps(UnlockedVocabulary):
    def number_of(self, word: str) -> int:
        if word not in self.shared:
            self.shared[word] = len(self.shared)
        return int(self.shared[word])


class LockedTooLate(SharedVocabulary):
    """The lock is taken after the look, and nobody looks again."""

    def number_of(self, word: str) -> int:
        if word not in self.shared:
            with self.lock:
                self.shared[word] = len(self.shared)
        return int(self.shared[word])


class MostFrequent(Headlines):
    """The most frequent words, and one number for the rest."""

    def __init__(self, headlines: list[str]) -> None:
        super().__init__(headlines)
        words = Counts(" ".join(headlines).split()).most_common(100)
        self.vocabulary = {w: n for n, w in enumerate(["<unk>", *(word for word, _ in words)])}

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([self.vocabulary.get(w, 0) for w in self.headlines[index].split()])


class WithUnknown(MostFrequent):
    """All words, and a number for none of them."""

    def __init__(self, headlines: list[str]) -> None:
        super().__init__(headlines)
        words = sorted({word for headline in headlines for word in headline.split()})
        self.vocabulary = {word: number for number, word in enumerate(["<unk>", *words])}


class FromASample(Headlines):
    """The rest of the words is numbered as it is met."""

    sample = slice(None, None, 2)

    def __init__(self, headlines: list[str]) -> None:
        super().__init__(headlines)
        self.vocabulary = Numbered(headlines[self.sample]).vocabulary

    def __getitem__(self, index: int) -> torch.Tensor:
        words = self.headlines[index].split()
        new = self.vocabulary
        return torch.tensor([new.setdefault(word, len(new)) for word in words])


class FromTheFirst(FromASample):
    sample = slice(64)


class InReadingOrder(Numbered):
    """Workers number in the order of the list, main in the order in which it reads."""

    def __init__(self, headlines: list[str]) -> None:
        super().__init__(headlines)
        self.met: dict[str, int] = {}

    def __getitem__(self, index: int) -> torch.Tensor:
        words = self.headlines[index].split()
        numbers = self.vocabulary if get_worker_info() else self.met
        return torch.tensor([numbers.setdefault(word, len(numbers)) for word in words])


class EachHeadlineOnce(Numbered):
    def __init__(self, headlines: list[str]) -> None:
        super().__init__(list(dict.fromkeys(headlines)))


class EmptiesTheList(Numbered):
    def __init__(self, headlines: list[str]) -> None:
        super().__init__([*headlines])
        super().__init__(self.headlines)
        headlines.clear()


class SortsTheList(Numbered):
    def __init__(self, headlines: list[str]) -> None:
        headlines.sort()
        super().__init__(headlines)


class SortedHeadlines(Numbered):
    def __init__(self, headlines: list[str]) -> None:
        super().__init__(sorted(headlines))


class SortedNumbers(Numbered):
    def __getitem__(self, index: int) -> torch.Tensor:
        return super().__getitem__(index).sort()[0]


class Narrow(Numbered):
    def __getitem__(self, index: int) -> torch.Tensor:
        return super().__getitem__(index).short()


class LowerCase(Numbered):
    def same(self, word: str) -> str:
        return word.lower()

    def __init__(self, headlines: list[str]) -> None:
        super().__init__([self.same(headline) for headline in headlines])


class WithoutDots(LowerCase):
    def same(self, word: str) -> str:
        return word.replace(".", "")


class ReadOnce(Headlines):
    """Its words are numbered once, and handed out as what `read` makes of them."""

    def __init__(self, headlines: list[str]) -> None:
        self.headlines, self.reads = headlines, 0
        self.numbers = Numbered(headlines).vocabulary

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([self.numbers[word] for word in self.headlines[index].split()])

    @property
    def vocabulary(self) -> Any:
        return self.read()

    def read(self) -> Any:
        self.reads += 1
        return self.numbers if self.reads == 1 else {}


class ReadSorted(ReadOnce):
    def read(self) -> Any:
        return {word: number for number, word in enumerate(sorted(self.numbers))}


class FromNumberToWord(ReadOnce):
    def read(self) -> Any:
        return {number: word for word, number in self.numbers.items()}


class WithoutVocabulary(ReadOnce):
    @property
    def vocabulary(self) -> Any:
        raise AttributeError


class ListOfWords(ReadOnce):
    def read(self) -> Any:
        return [*self.numbers]


class VocabularyOnDemand(ReadOnce):
    @property
    def vocabulary(self) -> Any:
        return self.read


def typed(cell: str, *changes: tuple[str, str], name: str = "MyClips", **known: object) -> Any:
    """The class of a cell of the twin, as a kernel has it, with some of its text replaced."""
    notebook = read(TWIN)
    for each in notebook.cells:
        if each.id == cell:
            for old, new in changes:
                assert old in each.source, old
                each.source = each.source.replace(old, new)
    return answer_in(notebook, "setup", cell, __name__="__main__", **known)[name]


def with_open() -> Any:
    """A class that opens a file with the `open` that IPython puts into its cells."""
    from IPython.core.interactiveshell import _modified_open

    return typed(
        "fix-solved",
        ("self.epoch = torch", "open(os.devnull).close()\n        self.epoch = torch"),
        open=_modified_open,
        os=os,
    )


def clips_without_workers() -> object:
    return DataLoader(CountedClips(make_clips()), num_workers=0)


def clips_with_fresh_workers() -> object:
    return DataLoader(CountedClips(make_clips()), num_workers=2, multiprocessing_context="fork")


class Loader(DataLoader[Any]):
    pass


RIGHT_ANSWERS: RightAnswers = {
    "04.predict": {"the letter": lambda: "b", "with a parenthesis": lambda: "B)"},
    "04.diagnose": {"the letter": lambda: "b", "a numpy one": lambda: np.str_(" b")},
    "04.fix": {
        "a Value under its lock": lambda: Fixed,
        "a place for each worker": lambda: WithSlots,
        "a tensor under a lock": lambda: TensorUnderItsLock,
        "a tensor and its lock in an object": lambda: WithACounter,
        "a byte in a file": lambda: InAFile,
        "its own __getstate__": lambda: WithAState,
        "messages that main counts": lambda: EmptiedByMain,
        "the epoch in a Value": lambda: EpochInAValue,
        "both in a database": lambda: InADatabase,
        "index_add_ to its own place": lambda: AddsToItsPlace,
        "the twin's, from a cell": lambda: typed("fix-solved"),
        "from a cell, with open": with_open,
        "from a cell, with __getstate__": lambda: typed(
            "fix-solved",
            ("self.epoch = torch", "self.step = lambda: 1\n        self.epoch = torch"),
            (
                "    def __len__",
                "    def __getstate__(self):\n"
                "        return {**vars(self), 'step': None}\n\n    def __len__",
            ),
        ),
        "from a cell, with constants": lambda: typed(
            "fix-solved", ("32 * int", "NUMBERS[0] * ONE['1'] * int"), NUMBERS=[32], ONE={"1": 1}
        ),
    },
    "04.transfer": {
        "numbered in __init__": lambda: Numbered,
        "with a number for unknown words": lambda: WithUnknown,
        "a Manager's dict under a lock": lambda: SharedVocabulary,
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
        "the numbers": (lambda: 104, "no-option"),
    },
    "04.fix": {
        "num_workers=0": (clips_without_workers, "a-loader"),
        "persistent_workers=False": (clips_with_fresh_workers, "a-loader"),
        "a class of loaders": (lambda: Loader, "a-loader"),
        "a tensor that is not shared": (lambda: EpochInATensor, "other-epoch"),
        "a global": (lambda: EpochInAGlobal, "other-epoch"),
        "a class attribute": (lambda: EpochInTheClass, "other-epoch"),
        "os.environ": (lambda: EpochInTheEnvironment, "other-epoch"),
        "epochs counted in the worker": (lambda: CountsTheEpochs, "other-epoch"),
        "chance": (lambda: DrawsTheStretch, "wrong-stretches"),
        "get_worker_info() in main": (lambda: TellsTheWorkerFromMain, "raised"),
        "only the epoch": (lambda: SharedEpoch, "none-counted"),
        "a threading.Lock": (lambda: ThreadLock, "none-counted"),
        "a multiprocessing.Lock around a copy": (
            lambda: ProcessLock,
            "none-counted",
        ),
        "a Value without its lock": (lambda: WithoutItsLock, "lost-counts"),
        "a shared tensor of one number": (lambda: CountInATensor, "lost-counts"),
        "another shared tensor in each epoch": (
            lambda: AnotherTensor,
            "other-epoch",
        ),
        "a Value of fork": (lambda: OfFork, "spawned-raised"),
        "a threading.Lock too many": (
            lambda: HoldsAThreadLock,
            "spawned-raised",
        ),
        "the shared tensor itself": (lambda: TensorItself, "shared-tensor"),
        "the Value itself": (lambda: ValueItself, "not-a-number"),
        "counted from 0 in each epoch": (lambda: StartsAgain, "lost-or-set-back"),
        "one file for all datasets": (lambda: OneFile, "lost-or-set-back"),
        "a file of a fixed name": (lambda: FileOfAFixedName, "lost-or-set-back"),
        "sixteen recordings": (lambda: Sixteen, "other-length"),
        "a place for each recording": (lambda: PlaceForEachRecording, "lost-counts"),
        "one further, whatever comes": (
            lambda: OneFurther,
            "other-epoch",
        ),
        "four epochs, again and again": (lambda: EveryFourthEpoch, "other-epoch"),
        "four epochs": (lambda: FourEpochs, "other-epoch"),
        "a sum of 0 is silence": (lambda: SilentInSum, "other-count"),
        "nothing above 0 is silence": (lambda: SilentAtMost, "other-count"),
        "what does not move is silence": (
            lambda: SilentWhereNothingMoves,
            "other-count",
        ),
        "silent at first is silence": (lambda: SilentAtFirst, "other-count"),
        "every second number": (lambda: EverySecondNumber, "other-count"),
        "counted in workers only": (lambda: NotInMain, "none-counted-in-main"),
        "room for two workers": (
            lambda: RoomForTwo,
            "raised",
        ),
        "room for workers only": (lambda: WorkersOnly, "raised"),
        "places of one byte": (lambda: SlotsOfBytes, "other-count"),
        "one place for all": (lambda: OneSlotForAll, "lost-counts"),
        "two places for all": (lambda: EverySecondSlot, "lost-counts"),
        "counted in set_epoch": (lambda: CountedBeforehand, "lost-or-set-back"),
        "fresh workers write over it": (lambda: WritesWhatItCounted, "lost-or-set-back"),
        "each recording once": (lambda: CountedInTheSamples, "lost-or-set-back"),
        "a careless object": (lambda: WithACarelessCounter, "lost-counts"),
        "a number in a file": (
            lambda: NumberInAFile,
            ("lost-or-set-back", "none-counted", "lost-counts"),
        ),
        "a lock that nobody takes": (lambda: TensorAndLock, "lost-counts"),
        "no number": (lambda: WithoutAnswer, "not-a-number"),
        "no set_epoch": (lambda: Headlines, "no-method"),
        "a global that is shared": (
            lambda: typed(
                "fix-solved",
                ("self.epoch.fill_", "EPOCH.fill_"),
                ("int(self.epoch)", "int(EPOCH)"),
                EPOCH=torch.tensor(0).share_memory_(),
            ),
            "spawned-other-epoch",
        ),
        "a global Value": (
            lambda: typed(
                "fix-solved",
                ("self.count.", "COUNT."),
                COUNT=multiprocessing.get_context("spawn").Value("q", 0),
            ),
            "other-count",
        ),
        "the epoch in a global Value": (
            lambda: typed(
                "fix-solved",
                ("self.epoch.fill_(epoch)", "EPOCH.value = epoch"),
                ("int(self.epoch)", "EPOCH.value"),
                EPOCH=multiprocessing.get_context("spawn").Value("q", 0),
            ),
            "spawned-other-epoch",
        ),
        "another sample": (lambda: CountWithTheSample, "other-batch"),
        "a lock of the class": (lambda: LockOfTheClass, "spawned-lost-counts"),
        "a lock made on arrival": (lambda: LockMadeOnArrival, "spawned-lost-counts"),
        "a global lock, from a cell": (
            lambda: typed(
                "fix-solved",
                ('get_context("spawn").Value("q", 0)', "torch.tensor(0).share_memory_()"),
                ("self.count.get_lock()", "LOCK"),
                ("self.count.value", "self.count"),
                ("return self.count", "return int(self.count)"),
                LOCK=multiprocessing.get_context("spawn").Lock(),
            ),
            "spawned-lost-counts",
        ),
        "a queue drained at once": (
            lambda: DrainedAtOnce,
            ("none-counted-in-main", "none-counted", "lost-or-set-back", "lost-counts"),
        ),
        "a number as text": (lambda: SaysText, "not-a-number"),
        "set_epoch without the number": (
            lambda: EpochOfItsOwn,
            "raised",
        ),
        "silent with an argument": (lambda: SilentOf, "raised"),
    },
    "04.transfer": {
        "num_workers=0": (
            lambda: DataLoader(Headlines(make_headlines()), num_workers=0),
            "a-loader",
        ),
        "a global": (lambda: GlobalVocabulary, "same-number"),
        "a class attribute": (lambda: VocabularyOfTheClass, "same-number"),
        "a lock": (lambda: LockedVocabulary, "same-number"),
        "a Manager's dict without a lock": (
            lambda: UnlockedVocabulary,
            ("same-number", "two-numbers"),
        ),
        "looked up, then added": (lambda: UnlockedInTwoSteps, ("same-number", "two-numbers")),
        "a Manager's dict": (lambda: LentVocabulary, ("same-number", "two-numbers")),
        "the lock only around adding": (lambda: LockedTooLate, ("same-number", "two-numbers")),
        "numbers of the order of reading": (
            lambda: InReadingOrder,
            "other-number",
        ),
        "each headline once": (
            lambda: EachHeadlineOnce,
            "other-length",
        ),
        "an emptied list": (lambda: EmptiesTheList, "headlines-changed"),
        "the most frequent words": (lambda: MostFrequent, "same-number-in-main"),
        "every second headline": (lambda: FromASample, "same-number"),
        "the first 64 headlines": (lambda: FromTheFirst, "same-number"),
        "from number to word": (lambda: FromNumberToWord, "no-number"),
        "no vocabulary": (lambda: WithoutVocabulary, "no-vocabulary"),
        "a vocabulary that is read once": (lambda: ReadOnce, "unknown-word"),
        "int16": (lambda: Narrow, "other-batch"),
        "upper case is lower case": (lambda: LowerCase, "same-number-in-main"),
        "a dot is nothing": (lambda: WithoutDots, "same-number-in-main"),
        "another vocabulary": (lambda: ReadSorted, "other-number"),
        "a list": (lambda: ListOfWords, "not-a-dict"),
        "a method": (lambda: VocabularyOnDemand, "not-a-dict"),
        "sorted numbers": (lambda: SortedNumbers, "two-numbers-in-main"),
        "sorted headlines": (lambda: SortedHeadlines, "two-numbers-in-main"),
        "hash()": (lambda: Hashes, "unknown-word"),
        "the first headlines only": (lambda: UnknownIsNought, "same-number-in-main"),
        "numbers with gaps": (lambda: NumbersWithGaps, "gaps"),
        "the words": (lambda: WordsThemselves, "other-batch"),
        "an empty vocabulary": (lambda: FailsAtTheFirstWord, "raised"),
        "a sorted list": (lambda: SortsTheList, "headlines-changed"),
    },
}

OTHER_OUTCOMES: OtherOutcomes = {
    "04.predict": {"nothing": (lambda: ..., "Not attempted", "no-letter")},
    "04.diagnose": {"nothing": (lambda: None, "Not attempted", "no-letter")},
    "04.fix": {
        "the broken class": (lambda: CountedClips, "Not attempted", "starter-class"),
        "the starter": (lambda: typed("fix"), "Not attempted", "starter-class"),
    },
    "04.transfer": {
        "the broken class": (lambda: Headlines, "Not attempted", "starter-class"),
        "the starter": (
            lambda: typed("transfer", name="MyHeadlines"),
            "Not attempted",
            "starter-class",
        ),
    },
}
