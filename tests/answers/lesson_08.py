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
        "the sum": (lambda: "a", "a"),
        "what is each one's own": (lambda: "c", "c"),
        "a number": (lambda: 3, "no-option"),
    },
    "08.diagnose": {
        "own and shared": (lambda: _swapped("A", "C"), "wrong-A"),
        "ahead and view": (lambda: _swapped("B", "D"), "wrong-B"),
        "shared and view": (lambda: _swapped("C", "D"), "wrong-C"),
        "own and ahead": (lambda: _swapped("A", "B"), "wrong-A"),
        "a word of one's own": (lambda: {**_TAKES, "A": "leak"}, "no-word"),
        "one word for all": (lambda: "own", "other-keys"),
        "a number": (lambda: {**_TAKES, "B": 3}, "no-word"),
        "a fifth job": (lambda: {**_TAKES, "E": "own"}, "other-keys"),
    },
    "08.fix": {
        "a copy, as float32": (lambda: Cloned, "heavy-type"),
        "int16, still a view": (lambda: View, "heavy-storage"),
        "contiguous and detached": (lambda: Contiguous, "heavy-storage"),
        "a view of a shared tensor": (lambda: ViewsOfShared, "heavy-storage"),
        "read in main": (lambda: ReadsInMain, "not-in-the-sample"),
        "its path": (lambda: SendsItsPath, "not-in-the-sample"),
        "the whole recording": (lambda: WholeRecording, "heavy-recording"),
        "half precision": (
            lambda: sends(lambda part: torch.tensor(part / 2**15).half(), lambda got: got.float()),
            "unpacks-other-numbers",
        ),
        "bfloat16": (
            lambda: sends(
                lambda part: torch.tensor(part / 2**15).bfloat16(), lambda got: got.float()
            ),
            "unpacks-other-numbers",
        ),
        "int8": (
            lambda: sends(
                lambda part: torch.tensor(part // 256).to(torch.int8), lambda got: got / 2**7
            ),
            "unpacks-other-numbers",
        ),
        "numpy's division": (
            lambda: sends(lambda part: part / 2**15, lambda got: got.float()),
            "heavy-type",
        ),
        "a list": (lambda: sends(lambda part: part.tolist(), from_numpy), "heavy"),
        "bytes of float32": (
            lambda: sends(
                lambda part: (part / 2**15).astype(np.float32).tobytes(),
                lambda text: torch.from_numpy(np.frombuffer(text, np.float32).copy()),
            ),
            "heavy",
        ),
        "more than the excerpt": (lambda: SendsMore, "heavy"),
        "a start below 0": (lambda: Clipped, "unpacks-another-shape"),
        "a start on the wrong side": (lambda: TheOtherWay, "unpacks-another-shape"),
        "through a file": (lambda: ThroughAFile, "not-in-the-sample"),
        "an index, and all in main": (lambda: AllInMain, "not-in-the-sample"),
        "cannot be sent": (
            lambda: sends(lambda part: lambda: torch.tensor(part) / 2**15, lambda got: got()),
            "cannot-be-sent",
        ),
        "int32": (lambda: sends(lambda part: torch.tensor(part).int(), from_numpy), "heavy-type"),
        "unpacked as int16": (
            lambda: unpacks(lambda got: (got * 2**15).short()),
            "unpacks-another-type",
        ),
        "unpacked as float64": (lambda: unpacks(torch.Tensor.double), "unpacks-another-type"),
        "not divided": (lambda: unpacks(lambda got: got * 2**15), "unpacks-other-numbers"),
        "a row": (lambda: unpacks(lambda got: got[None]), "unpacks-another-shape"),
        "every second number": (lambda: unpacks(lambda got: got[::2]), "unpacks-another-shape"),
        "padded": (
            lambda: unpacks(lambda got: torch.cat([got, torch.zeros(SECOND)])[:SECOND]),
            "unpacks-another-shape",
        ),
        "as a numpy array": (lambda: unpacks(torch.Tensor.numpy), "unpacks-no-tensor"),
        "not a number": (lambda: unpacks(lambda got: got / 0 * 0), "unpacks-other-numbers"),
        "the last number missing": (lambda: unpacks(lambda got: got[:-1]), "unpacks-another-shape"),
        "a recording deleted": (lambda: Deletes, "changed-files"),
        "a file written beside": (lambda: WritesBeside, "changed-files"),
        "known in the worker only": (lambda: KnowsInTheWorker, "raised"),
        "known since dataset[0]": (lambda: ReadOnce, "raised"),
        "an index, padded": (lambda: PaddedIndex, "not-in-the-sample"),
        "an index of a map, padded": (lambda: PaddedIndexOfAMap, "not-in-the-sample"),
        "one buffer": (lambda: OneBuffer, "unpacks-other-numbers"),
        "only in a worker": (lambda: NeedsAWorker, "raised"),
        "heavy in W3": (lambda: HeavyInW3, "heavy-type"),
        "one epoch only": (lambda: OnlyOnce, "raised"),
        "a worker ends": (lambda: EndsItsWorker, "worker-died"),
        "a process left": (lambda: StartsAProcess, "still-running"),
        "one too few": (lambda: OneTooFew, "other-length"),
        "no unpack": (lambda: NoUnpack, "no-method"),
        "an object": (lambda: Light(()), "an-object"),
        "hangs in main": (lambda: HangsInMain, "hung"),
    },
    "08.transfer": {
        "the queue alone": (
            lambda: with_workers(lambda batches: batches._data_queue.qsize()),
            "forgets-early-batches",
        ),
        "all that was asked for": (
            lambda: with_workers(lambda batches: batches._tasks_outstanding),
            "too-many",
        ),
        "sent less received": (
            lambda: with_workers(lambda batches: batches._send_idx - batches._rcvd_idx),
            "too-many",
        ),
        "all of _task_info": (
            lambda: with_workers(lambda batches: len(batches._task_info)),
            "too-many",
        ),
        "the early ones alone": (
            lambda: with_workers(
                lambda batches: sum(len(info) == 2 for info in batches._task_info.values())
            ),
            "too-few",
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
            "too-few",
        ),
        "the queue and all of _task_info": (
            lambda: with_workers(
                lambda batches: batches._data_queue.qsize() + len(batches._task_info)
            ),
            "too-many",
        ),
        "one queue under two names": (
            lambda: with_workers(
                lambda batches: right_ahead(batches) + batches._worker_result_queue.qsize()
            ),
            "too-many",
        ),
        "the product": (
            lambda: with_workers(lambda batches: batches._num_workers * batches._prefetch_factor),
            "too-many",
        ),
        "with the loop's": (
            lambda: with_workers(lambda batches: right_ahead(batches) + 1),
            "too-many",
        ),
        "always 0": (lambda: lambda batches: 0, "too-few"),
        "no word of 0 workers": (
            lambda: (
                lambda batches: (
                    batches._data_queue.qsize()
                    + sum(len(info) == 2 for info in batches._task_info.values())
                )
            ),
            "raised",
        ),
        "None without workers": (
            lambda: (
                lambda batches: right_ahead(batches) if hasattr(batches, "_data_queue") else None
            ),
            "not-an-int",
        ),
        "takes one": (lambda: takes_one, "took-batches"),
        "drains the queue": (lambda: drains, "took-batches"),
        "asks for the next": (lambda: asks_for_the_next, "took-batches"),
        "forgets the early ones": (lambda: forgets_the_early, "took-batches"),
        "the most so far": (remembers, "too-many"),
        "one more from the second time on": (once_only, "too-many"),
        "as text": (lambda: lambda batches: f"{right_ahead(batches)} ahead", "not-an-int"),
        "a percentage": (lambda: lambda batches: 5.5, "not-an-int"),
        "a truth": (lambda: lambda batches: right_ahead(batches) > 0, "too-few"),
        "digits": (lambda: lambda batches: str(right_ahead(batches)), "not-an-int"),
        "a float": (lambda: lambda batches: float(right_ahead(batches)), "not-an-int"),
        "asks for more": (lambda: asks_for_more, "asked-for-more"),
        "no argument": (lambda: lambda: 0, "raised"),
        "the loader too": (lambda: lambda batches, loader: 0, "raised"),
        "the length of the epoch": (lambda: len, "too-many"),
        "ends the workers": (lambda: ends_its_workers, "ended-workers"),
        "raises": (lambda: raises, "raised"),
        "hangs": (lambda: hangs, "hung"),
        "hangs, busy": (lambda: hangs_busy, "hung"),
        "waits for a batch": (lambda: waits_for_one, "hung"),
        "ends the workers by a signal": (
            lambda: signals_its_workers(signal.SIGTERM),
            ("ended-workers", "ended-workers-later"),
        ),
        "stops the workers": (
            lambda: signals_its_workers(signal.SIGSTOP),
            ("ended-workers", "ended-workers-later"),
        ),
        "exits": (lambda: exits, "process-ended"),
    },
}

OTHER_OUTCOMES: OtherOutcomes = {
    "08.predict": {"nothing yet": (lambda: ..., "Not attempted", "no-letter")},
    "08.diagnose": {
        "the dots": (lambda: dict.fromkeys(_TAKES, ...), "Not attempted", "dots"),
        "None": (lambda: None, "Not attempted", "no-words"),
    },
    "08.fix": {
        "the starter": (lambda: Excerpts, "Not attempted", "starter-class"),
        "None": (lambda: None, "Not attempted", "no-class"),
        "a loader without workers": (lambda: loader(), "Not yet", "a-loader"),
        "a loader with less ahead": (
            lambda: loader(num_workers=2, prefetch_factor=1),
            "Not yet",
            "a-loader",
        ),
    },
    "08.transfer": {
        "the starter": (lambda: ahead, "Not attempted", "starter-function"),
        "None": (lambda: None, "Not attempted", "no-function"),
        "its number": (lambda: 4, "Error in your code", "not-a-function"),
    },
}
