"""Answers to the exercises of lesson 08, wrong and right."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, get_worker_info
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from answers import OtherOutcomes, RightAnswers, WrongFixes
from dltutor.lessons.lesson_08.exercises import _TAKES
from dltutor.lessons.lesson_08.fix import SECOND, Excerpts
from dltutor.lessons.lesson_08.transfer import ahead


def middle(numbers: Any) -> Any:
    """The middle second of a recording, as a slice."""
    start = max(0, (len(numbers) - SECOND) // 2)
    return numbers[start : start + SECOND]


class Light(Excerpts):
    """The right answer. A base for what follows."""

    def __getitem__(self, index: int) -> Any:
        return middle(torch.from_numpy(np.load(self.paths[index]))).clone()

    def unpack(self, sample: Any) -> Any:
        return sample / 2**15


def sends(pack: Callable[[Any], Any], unpack: Callable[[Any], Any] = torch.as_tensor) -> type:
    """A class that sends what a function makes of the slice (numpy), and unpacks it like that."""

    class MyExcerpts(Excerpts):
        def __getitem__(self, index: int) -> Any:
            return pack(middle(np.load(self.paths[index])))

        def unpack(self, sample: Any) -> Any:
            return unpack(sample)

    return MyExcerpts


def unpacks(change: Callable[[torch.Tensor], Any]) -> type:
    """The right class, and what a function makes of what it unpacks."""

    class MyExcerpts(Light):
        def unpack(self, sample: Any) -> Any:
            return change(sample / 2**15)

    return MyExcerpts


def from_numpy(numbers: Any) -> torch.Tensor:
    return torch.as_tensor(numbers).float() / 2**15


def from_bytes(text: bytes) -> torch.Tensor:
    return from_numpy(np.frombuffer(text, np.int16).copy())


class Sound(NamedTuple):
    numbers: torch.Tensor
    rate: int


@dataclass(frozen=True)
class Numbers:
    """A sample with a class of its own."""

    pcm: Any


class Clipped(Light):
    """The start may be negative, and counts from the end then."""

    def __getitem__(self, index: int) -> Any:
        recording = torch.from_numpy(np.load(self.paths[index]))
        start = (len(recording) - SECOND) // 2
        return recording[start : start + SECOND].clone()


class TheOtherWay(Light):
    """A start on the wrong side, where the recording is short."""

    def __getitem__(self, index: int) -> Any:
        recording = torch.from_numpy(np.load(self.paths[index]))
        start = abs(len(recording) - SECOND) // 2
        return (recording if len(recording) < SECOND // 2 else recording[start:])[:SECOND].clone()


class ThroughAFile(Light):
    """The numbers go round the sample, through a file."""

    def __getitem__(self, index: int) -> Any:
        with tempfile.NamedTemporaryFile(suffix=".npy", delete=False) as file:
            np.save(file, middle(np.load(self.paths[index])))
        return file.name

    def unpack(self, sample: Any) -> Any:
        numbers = from_numpy(np.load(sample))
        os.remove(sample)
        return numbers


class AllInMain(Light):
    """Main keeps all, and the sample is a number."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(paths)
        self.all = [middle(np.load(path)).copy() for path in paths]

    def __getitem__(self, index: int) -> Any:
        return index

    def unpack(self, sample: Any) -> Any:
        return from_numpy(self.all[sample])


class Plain:
    """Not a Dataset, and everything in one place."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.all = [middle(np.load(path)).tobytes() for path in paths]

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, index: int) -> bytes:
        return self.all[index]

    @staticmethod
    def unpack(sample: bytes) -> torch.Tensor:
        return from_bytes(sample)


class Mapped(Light):
    def __getitem__(self, index: int) -> Any:
        return torch.tensor(middle(np.load(self.paths[index], mmap_mode="r")))


class SliceOfAMap(Light):
    def __getitem__(self, index: int) -> Any:
        return middle(np.load(self.paths[index], mmap_mode="c"))


class InBytes(Light):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index).view(torch.uint8)

    def unpack(self, sample: Any) -> Any:
        return sample.view(torch.int16) / 2**15


class HighAndLow(Light):
    def __getitem__(self, index: int) -> Any:
        whole = super().__getitem__(index)
        return {"high": (whole >> 8).to(torch.int8), "low": (whole & 255).to(torch.uint8)}

    def unpack(self, sample: Any) -> Any:
        return (sample["high"].to(torch.int16) * 256 + sample["low"]) / 2**15


class SharedOnce(Light):
    """All excerpts in one shared tensor; a sample is a copy out of it."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(paths)
        parts = [torch.from_numpy(middle(np.load(path)).copy()) for path in paths]
        self.ends = [0, *np.cumsum([len(part) for part in parts]).tolist()]
        self.all = torch.cat(parts).share_memory_()

    def __getitem__(self, index: int) -> Any:
        return self.part(index).clone()

    def part(self, index: int) -> torch.Tensor:
        return self.all[self.ends[index] : self.ends[index + 1]]


class ViewsOfShared(SharedOnce):
    def __getitem__(self, index: int) -> Any:
        return self.part(index)


class View(Light):
    def __getitem__(self, index: int) -> Any:
        return middle(torch.from_numpy(np.load(self.paths[index])))


class Contiguous(View):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index).contiguous().detach()


class Cloned(Excerpts):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index).clone()


class WholeRecording(Light):
    def __getitem__(self, index: int) -> Any:
        return torch.from_numpy(np.load(self.paths[index]))

    def unpack(self, sample: Any) -> Any:
        return middle(sample) / 2**15


class ReadsInMain(Light):
    def __getitem__(self, index: int) -> Any:
        return index

    def unpack(self, sample: Any) -> Any:
        return super().__getitem__(sample) / 2**15


class SendsItsPath(Light):
    def __getitem__(self, index: int) -> Any:
        return self.paths[index]

    def unpack(self, sample: Any) -> Any:
        return middle(torch.from_numpy(np.load(sample))) / 2**15


class Deletes(Light):
    def __getitem__(self, index: int) -> Any:
        excerpt = super().__getitem__(index)
        if index == 5 and get_worker_info():
            os.unlink(self.paths[index])
        return excerpt


class WritesBeside(Light):
    def __getitem__(self, index: int) -> Any:
        excerpt = super().__getitem__(index)
        np.save(Path(self.paths[index]).with_suffix(".small.npy"), excerpt.numpy())
        return excerpt


class ReadOnce(Light):
    """What `__getitem__` keeps stays in the worker, and `dataset[0]` in main would hide it."""

    scale: Any = None

    def __getitem__(self, index: int) -> Any:
        if self.scale is None:
            self.scale = 2**15
        return super().__getitem__(index)

    def unpack(self, sample: Any) -> Any:
        return sample / self.scale


class PaddedIndex(AllInMain):
    def __getitem__(self, index: int) -> Any:
        return index, bytes(2 * len(self.all[index]))

    def unpack(self, sample: Any) -> Any:
        return super().unpack(sample[0])


class PaddedIndexOfAMap(Light):
    """Main has opened all recordings before, and reads them in `unpack`."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(paths)
        self.all = [np.load(path, mmap_mode="r") for path in paths]

    def __getitem__(self, index: int) -> Any:
        return torch.full((min(SECOND, len(self.all[index])),), index, dtype=torch.int16)

    def unpack(self, sample: Any) -> Any:
        return from_numpy(np.array(middle(self.all[int(sample[0])])))


class KnowsInTheWorker(Light):
    def __getitem__(self, index: int) -> Any:
        if get_worker_info():
            self.scale = 2**15
        return super().__getitem__(index)

    def unpack(self, sample: Any) -> Any:
        return sample / self.scale


class OneBuffer(Light):
    """Each worker sends one and the same shared tensor, over and over."""

    buffer: Any = None

    def __getitem__(self, index: int) -> Any:
        excerpt = super().__getitem__(index)
        if self.buffer is None:
            self.buffer = torch.zeros(SECOND, dtype=torch.int16).share_memory_()
        self.buffer[: len(excerpt)] = excerpt
        return self.buffer


class NeedsAWorker(Light):
    def __getitem__(self, index: int) -> Any:
        excerpt = super().__getitem__(index)
        if not self.looked:
            return excerpt
        return excerpt + (get_worker_info().id * 0)  # type: ignore[union-attr]

    def unpack(self, sample: Any) -> Any:
        self.looked = True
        return super().unpack(sample)

    looked = False


class HeavyInW3(Light):
    def __getitem__(self, index: int) -> Any:
        excerpt = super().__getitem__(index)
        info = get_worker_info()
        return excerpt.int() if info and info.id == 3 else excerpt


class OnlyOnce(Light):
    """A worker gives each recording once."""

    given: ClassVar[set[int]] = set()

    def __getitem__(self, index: int) -> Any:
        if get_worker_info():
            if len(self.given) >= len(self) // 2 + 2:
                raise RuntimeError("has given all it had")
            self.given.add(index + 100 * len(self.given))
        return super().__getitem__(index)


class EndsItsWorker(Light):
    def __getitem__(self, index: int) -> Any:
        if get_worker_info() and index == 9:
            os._exit(3)
        return super().__getitem__(index)


class StartsAProcess(Light):
    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(paths)
        self.process = subprocess.Popen(["sleep", "60"])


class OneTooFew(Light):
    def __len__(self) -> int:
        return len(self.paths) - 1


class NoUnpack:
    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return middle(torch.from_numpy(np.load(self.paths[index])))


class SendsMore(Light):
    """The excerpt, and the path ten thousand times."""

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index), [f"{self.paths[index]}{n}" for n in range(1000)]

    def unpack(self, sample: Any) -> Any:
        return sample[0] / 2**15


class HangsInMain(Light):
    calls = 0

    def unpack(self, sample: Any) -> Any:
        self.calls += 1
        while self.calls > 3:
            time.sleep(1)
        return super().unpack(sample)


def loader(**options: Any) -> DataLoader[Any]:
    return DataLoader(Excerpts(()), batch_size=None, **options)


def right_ahead(batches: Any) -> int:
    """The right answer. A base for what follows."""
    if not hasattr(batches, "_data_queue"):
        return 0
    early = sum(len(info) == 2 for info in batches._task_info.values())
    return int(batches._data_queue.qsize()) + early


def with_workers(count: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that counts so, and returns 0 without workers."""
    return lambda batches: count(batches) if hasattr(batches, "_data_queue") else 0


def asks_the_type(batches: Any) -> int:
    if isinstance(batches, _MultiProcessingDataLoaderIter):
        waiting = batches._worker_result_queue.qsize()
        for info in batches._task_info.values():
            if len(info) > 1:
                waiting += 1
        return waiting
    return 0


def excepts(batches: Any) -> int:
    try:
        found = batches._data_queue.qsize()
    except AttributeError:
        return 0
    return int(found + [len(info) for info in batches._task_info.values()].count(2))


def by_getattr(batches: Any) -> int:
    queue = getattr(batches, "_data_queue", None)
    infos = getattr(batches, "_task_info", {})
    return (queue.qsize() if queue else 0) + sum(len(info) - 1 for info in infos.values())


def by_and(batches: Any) -> int:
    return hasattr(batches, "_data_queue") and right_ahead(batches)


class Counts:
    """An object that is called."""

    def __call__(self, batches: Any) -> np.int64:
        return np.int64(right_ahead(batches))


def reads_the_semaphore(batches: Any) -> int:
    if batches.__class__.__name__.startswith("_Single"):
        return 0
    queue = batches._data_queue
    put = queue._maxsize - queue._sem._semlock._get_value()
    return int(put + sum(len(info) == 2 for info in batches._task_info.values()))


def takes_one(batches: Any) -> int:
    found = right_ahead(batches)
    if found and batches._data_queue.qsize():
        batches._data_queue.get()
    return found


def drains(batches: Any) -> int:
    found = 0
    while batches._data_queue.qsize():
        batches._data_queue.get()
        found += 1
    return found


def asks_for_the_next(batches: Any) -> int:
    found = right_ahead(batches)
    if found > 2:
        next(batches)
    return found


def forgets_the_early(batches: Any) -> int:
    found = right_ahead(batches)
    for key, info in list(getattr(batches, "_task_info", {}).items()):
        batches._task_info[key] = info[:1]
    return found


def remembers() -> Callable[[Any], int]:
    said: list[int] = []

    def count(batches: Any) -> int:
        said.append(right_ahead(batches))
        return max(said)

    return count


def once_only() -> Callable[[Any], int]:
    calls: list[int] = []

    def count(batches: Any) -> int:
        calls.append(1)
        return right_ahead(batches) + (len(calls) > 1)

    return count


def ends_its_workers(batches: Any) -> int:
    found = right_ahead(batches)
    if found:
        batches._shutdown_workers()
    return found


def asks_for_more(batches: Any) -> int:
    found = right_ahead(batches)
    with suppress(AssertionError):  # torch's own bound
        batches._try_put_index()
    return found


def hangs(batches: Any) -> int:
    while True:
        time.sleep(1)


def hangs_busy(batches: Any) -> int:
    while True:
        pass


def waits_for_one(batches: Any) -> int:
    if hasattr(batches, "_data_queue"):
        batches._data_queue.get()
    return 1


def signals_its_workers(number: int) -> Callable[[Any], int]:
    def count(batches: Any) -> int:
        found = right_ahead(batches)
        for worker in getattr(batches, "_workers", ()):
            os.kill(worker.pid, number)
        return found

    return count


def exits(batches: Any) -> int:
    os._exit(3)


def raises(batches: Any) -> int:
    raise ValueError("no idea")


def _swapped(one: str, other: str) -> dict[str, Any]:
    return {**_TAKES, one: _TAKES[other], other: _TAKES[one]}


RIGHT_ANSWERS: RightAnswers = {
    "08.predict": {"the letter": lambda: "b"},
    "08.diagnose": {
        "the words": lambda: _TAKES,
        "small keys": lambda: {job.lower(): word for job, word in _TAKES.items()},
        "capitals and quotes": lambda: {job: f"'{w.upper()}' " for job, w in _TAKES.items()},
    },
    "08.fix": {
        "a copy, as int16": lambda: Light,
        "a slice of a numpy array": lambda: sends(lambda part: part, from_numpy),
        "a tensor made of the slice": lambda: sends(torch.tensor, from_numpy),
        "a mapped file": lambda: Mapped,
        "a slice of a mapped file": lambda: SliceOfAMap,
        "bytes": lambda: sends(lambda part: part.tobytes(), from_bytes),
        "compressed": lambda: sends(
            lambda part: zlib.compress(part.tobytes()),
            lambda text: from_bytes(zlib.decompress(text)),
        ),
        "a bytearray": lambda: sends(lambda part: bytearray(part.tobytes()), from_bytes),
        "a dict": lambda: sends(
            lambda part: {"sound": torch.tensor(part), "rate": 8000},
            lambda sample: sample["sound"].float() / 2**15,
        ),
        "a named tuple": lambda: sends(
            lambda part: Sound(torch.tensor(part), 8000), lambda sample: sample.numbers / 2**15
        ),
        "a dataclass with an array": lambda: sends(
            lambda part: Numbers(part.copy()), lambda sample: from_numpy(sample.pcm)
        ),
        "a dataclass with a tensor": lambda: sends(
            lambda part: Numbers(torch.tensor(part)), lambda sample: sample.pcm / 2**15
        ),
        "no Dataset, all in main": lambda: Plain,
        "as bytes of a tensor": lambda: InBytes,
        "two tensors of bytes": lambda: HighAndLow,
        "copies out of a shared tensor": lambda: SharedOnce,
        "one float32 division in numpy": lambda: sends(
            lambda part: part.copy(), lambda got: got.to(torch.float32).mul_(2**-15)
        ),
    },
    "08.transfer": {
        "both places": lambda: right_ahead,
        "by the type of the iterator": lambda: asks_the_type,
        "except AttributeError": lambda: excepts,
        "getattr": lambda: by_getattr,
        "an object, a number of numpy": Counts,
        "a lambda": lambda: lambda batches: right_ahead(batches),
        "a partial": lambda: partial(right_ahead),
        "the queue's semaphore": lambda: reads_the_semaphore,
        "a tensor": lambda: lambda batches: torch.tensor(right_ahead(batches)),
        "False without workers": lambda: by_and,
    },
}

WRONG_FIXES: WrongFixes = {
    "08.predict": {
        "the sum": (lambda: "a", "has the map in it three times"),
        "what is each one's own": (lambda: "c", "The map belongs to no process alone"),
        "a number": (lambda: 3, "none of the options"),
    },
    "08.diagnose": {
        "own and shared": (lambda: _swapped("A", "C"), "A is not `shared`: the sum of USS"),
        "ahead and view": (lambda: _swapped("B", "D"), "B is not `view`: `/dev/shm` grew, and by"),
        "shared and view": (lambda: _swapped("C", "D"), "C is not `view`: the sum of RES"),
        "own and ahead": (lambda: _swapped("A", "B"), "2 of 4 right. A is not `ahead`"),
        "a word of one's own": (lambda: {**_TAKES, "A": "leak"}, "'leak' is none of the words"),
        "one word for all": (lambda: "own", "is a dict with the keys"),
        "a number": (lambda: {**_TAKES, "B": 3}, "3 is none of the words"),
        "a fifth job": (lambda: {**_TAKES, "E": "own"}, "is a dict with the keys"),
    },
    "08.fix": {
        "a copy, as float32": (lambda: Cloned, "a tensor of float32, 4 bytes for each number"),
        "int16, still a view": (lambda: View, "Who still needs the rest of that storage?"),
        "contiguous and detached": (lambda: Contiguous, "Who still needs the rest"),
        "a view of a shared tensor": (lambda: ViewsOfShared, "Who still needs the rest"),
        "read in main": (lambda: ReadsInMain, "Where does `unpack` get them?"),
        "its path": (lambda: SendsItsPath, "Where does `unpack` get them?"),
        "the whole recording": (lambda: WholeRecording, "Which of them does the loop not use?"),
        "half precision": (
            lambda: sends(lambda part: torch.tensor(part / 2**15).half(), lambda got: got.float()),
            "differs in",
        ),
        "bfloat16": (
            lambda: sends(
                lambda part: torch.tensor(part / 2**15).bfloat16(), lambda got: got.float()
            ),
            "differs in",
        ),
        "int8": (
            lambda: sends(
                lambda part: torch.tensor(part // 256).to(torch.int8), lambda got: got / 2**7
            ),
            "differs in",
        ),
        "numpy's division": (
            lambda: sends(lambda part: part / 2**15, lambda got: got.float()),
            "a tensor of float64, 8 bytes for each number",
        ),
        "a list": (
            lambda: sends(lambda part: part.tolist(), from_numpy),
            "What is in it besides the numbers",
        ),
        "bytes of float32": (
            lambda: sends(
                lambda part: (part / 2**15).astype(np.float32).tobytes(),
                lambda text: torch.from_numpy(np.frombuffer(text, np.float32).copy()),
            ),
            "What is in it besides the numbers",
        ),
        "more than the excerpt": (lambda: SendsMore, "What is in it besides the numbers"),
        "a start below 0": (lambda: Clipped, "recording 5, unpacked, has the shape (2500,)"),
        "a start on the wrong side": (lambda: TheOtherWay, "recording 5, unpacked, has the shape"),
        "through a file": (lambda: ThroughAFile, "compressed, it has"),
        "an index, and all in main": (lambda: AllInMain, "Where does `unpack` get them?"),
        "cannot be sent": (
            lambda: sends(lambda part: lambda: torch.tensor(part) / 2**15, lambda got: got()),
            "`dataset[0]` cannot be sent from a worker to main: `AttributeError: Can't pickle",
        ),
        "int32": (lambda: sends(lambda part: torch.tensor(part).int(), from_numpy), "of int32, 4"),
        "unpacked as int16": (lambda: unpacks(lambda got: (got * 2**15).short()), "is int16, and"),
        "unpacked as float64": (lambda: unpacks(torch.Tensor.double), "is float64, and"),
        "not divided": (lambda: unpacks(lambda got: got * 2**15), "differs in"),
        "a row": (lambda: unpacks(lambda got: got[None]), "has the shape (1, "),
        "every second number": (lambda: unpacks(lambda got: got[::2]), "has the shape (10000,)"),
        "padded": (
            lambda: unpacks(lambda got: torch.cat([got, torch.zeros(SECOND)])[:SECOND]),
            "recording 5, unpacked, has the shape (20000,), and the starter's (15000,)",
        ),
        "as a numpy array": (lambda: unpacks(torch.Tensor.numpy), "is a `ndarray`"),
        "not a number": (lambda: unpacks(lambda got: got / 0 * 0), "differs in"),
        "the last number missing": (
            lambda: unpacks(lambda got: got[:-1]),
            "has the shape (19999,)",
        ),
        "a recording deleted": (lambda: Deletes, "was changed, added or removed"),
        "a file written beside": (lambda: WritesBeside, "was changed, added or removed"),
        "known in the worker only": (lambda: KnowsInTheWorker, "AttributeError"),
        "known since dataset[0]": (lambda: ReadOnce, "unsupported operand type"),
        "an index, padded": (lambda: PaddedIndex, "compressed, it has"),
        "an index of a map, padded": (lambda: PaddedIndexOfAMap, "compressed, it has"),
        "one buffer": (lambda: OneBuffer, "differs in"),
        "only in a worker": (lambda: NeedsAWorker, "without workers, `AttributeError"),
        "heavy in W3": (lambda: HeavyInW3, "With 4 workers under fork, "),
        "one epoch only": (lambda: OnlyOnce, "has given all it had"),
        "a worker ends": (lambda: EndsItsWorker, "exit code 3"),
        "a process left": (lambda: StartsAProcess, "still ran"),
        "one too few": (lambda: OneTooFew, "`len(dataset)` is 23"),
        "no unpack": (lambda: NoUnpack, "has no `unpack`"),
        "an object": (lambda: Light(()), "takes the class itself"),
        "hangs in main": (lambda: HangsInMain, "did not end within 15 s"),
    },
    "08.transfer": {
        "the queue alone": (
            lambda: with_workers(lambda batches: batches._data_queue.qsize()),
            "Main has fetched both already",
        ),
        "all that was asked for": (
            lambda: with_workers(lambda batches: batches._tasks_outstanding),
            "asked for, and not made yet",
        ),
        "sent less received": (
            lambda: with_workers(lambda batches: batches._send_idx - batches._rcvd_idx),
            "before any batch is made, 0 batches are ready. Your function says 6.",
        ),
        "all of _task_info": (
            lambda: with_workers(lambda batches: len(batches._task_info)),
            "asked for, and not made yet",
        ),
        "the early ones alone": (
            lambda: with_workers(
                lambda batches: sum(len(info) == 2 for info in batches._task_info.values())
            ),
            "Where does a batch wait that you have not counted?",
        ),
        "only batches that are one tensor": (
            lambda: with_workers(
                lambda batches: (
                    batches._data_queue.qsize()
                    + sum(
                        isinstance(info[-1], torch.Tensor) for info in batches._task_info.values()
                    )
                )
            ),
            "With 4 workers under fork, ",
        ),
        "the queue and all of _task_info": (
            lambda: with_workers(
                lambda batches: batches._data_queue.qsize() + len(batches._task_info)
            ),
            "asked for, and not made yet",
        ),
        "one queue under two names": (
            lambda: with_workers(
                lambda batches: right_ahead(batches) + batches._worker_result_queue.qsize()
            ),
            "or counted twice",
        ),
        "the product": (
            lambda: with_workers(lambda batches: batches._num_workers * batches._prefetch_factor),
            "Your function says 6.",
        ),
        "with the loop's": (
            lambda: with_workers(lambda batches: right_ahead(batches) + 1),
            "Your function says 1.",
        ),
        "always 0": (lambda: lambda batches: 0, "2 batches are ready. Your function says 0."),
        "no word of 0 workers": (
            lambda: (
                lambda batches: (
                    batches._data_queue.qsize()
                    + sum(len(info) == 2 for info in batches._task_info.values())
                )
            ),
            "without workers, `AttributeError",
        ),
        "None without workers": (
            lambda: (
                lambda batches: right_ahead(batches) if hasattr(batches, "_data_queue") else None
            ),
            "Your function returns None, which is not an `int`",
        ),
        "takes one": (lambda: takes_one, "Which of your lines takes one out?"),
        "drains the queue": (lambda: drains, "Which of your lines takes one out?"),
        "asks for the next": (lambda: asks_for_the_next, "Which of your lines takes one out?"),
        "forgets the early ones": (lambda: forgets_the_early, "Which of your lines takes one out?"),
        "the most so far": (remembers, "or counted twice"),
        "one more from the second time on": (once_only, "or counted twice"),
        "as text": (
            lambda: lambda batches: f"{right_ahead(batches)} ahead",
            "which is not an `int`",
        ),
        "a percentage": (lambda: lambda batches: 5.5, "returns 5.5, which is not an `int`"),
        "a truth": (lambda: lambda batches: right_ahead(batches) > 0, "Your function says True"),
        "digits": (lambda: lambda batches: str(right_ahead(batches)), "returns '0', which is not"),
        "a float": (lambda: lambda batches: float(right_ahead(batches)), "returns 0.0, which is"),
        "asks for more": (lambda: asks_for_more, "1 more had to be made. Which of your lines"),
        "no argument": (lambda: lambda: 0, "takes 0 positional arguments but 1 was given"),
        "the loader too": (
            lambda: lambda batches, loader: 0,
            "missing 1 required positional argument: 'loader'",
        ),
        "the length of the epoch": (lambda: len, "Your function says 24."),
        "ends the workers": (
            lambda: ends_its_workers,
            "workers had ended or been stopped. What in",
        ),
        "raises": (lambda: raises, "ValueError: no idea"),
        "hangs": (lambda: hangs, "did not end within 20 s. Main was at answers"),
        "hangs, busy": (lambda: hangs_busy, "did not end within 20 s. Main was at answers"),
        "waits for a batch": (lambda: waits_for_one, "did not end within 20 s. Main was at "),
        "ends the workers by a signal": (
            lambda: signals_its_workers(signal.SIGTERM),
            "of the loader's workers had ended or been stopped. What in",
        ),
        "stops the workers": (
            lambda: signals_its_workers(signal.SIGSTOP),
            "of the loader's workers had ended or been stopped. What in",
        ),
        "exits": (lambda: exits, "exit code 3"),
    },
}

OTHER_OUTCOMES: OtherOutcomes = {
    "08.predict": {"nothing yet": (lambda: ..., "Not attempted", "set the variable")},
    "08.diagnose": {
        "the dots": (lambda: dict.fromkeys(_TAKES, ...), "Not attempted", "in place of the dots"),
        "None": (lambda: None, "Not attempted", "give each of the four"),
    },
    "08.fix": {
        "the starter": (lambda: Excerpts, "Not attempted", "still the broken one"),
        "None": (lambda: None, "Not attempted", "hand in your class"),
        "a loader without workers": (lambda: loader(), "Not yet", "is a loader, with"),
        "a loader with less ahead": (
            lambda: loader(num_workers=2, prefetch_factor=1),
            "Not yet",
            "is a loader, with",
        ),
    },
    "08.transfer": {
        "the starter": (lambda: ahead, "Not attempted", "still the one from above"),
        "None": (lambda: None, "Not attempted", "hand in your function"),
        "its number": (lambda: 4, "Error in your code", "takes the function itself"),
    },
}
