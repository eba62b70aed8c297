"""Define right and wrong answers to the exercises of lesson 08."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, get_worker_info
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from answers import OtherOutcomes, RightAnswers, WrongFixes
from dltutor.lessons.lesson_08.fix import SECOND, Excerpts
from dltutor.lessons.lesson_08.transfer import ahead

_TAKES = {"A": "own", "B": "ahead", "C": "shared", "D": "view"}


def middle(numbers: Any) -> Any:
    """Return the middle second of a recording, as a slice."""
    start = max(0, (len(numbers) - SECOND) // 2)
    return numbers[start : start + SECOND]


class Light(Excerpts):
    """A right answer, and a base class."""

    def __getitem__(self, index: int) -> Any:
        return middle(torch.from_numpy(np.load(self.paths[index]))).clone()

    def unpack(self, sample: Any) -> Any:
        return sample / 2**15


def sends(pack: Callable[[Any], Any], unpack: Callable[[Any], Any] = torch.as_tensor) -> type:
    """Make a class that packs each excerpt, a numpy array, and unpacks it with these functions."""

    class MyExcerpts(Excerpts):
        def __getitem__(self, index: int) -> Any:
            return pack(middle(np.load(self.paths[index])))

        def unpack(self, sample: Any) -> Any:
            return unpack(sample)

    return MyExcerpts


def unpacks(change: Callable[[torch.Tensor], Any]) -> type:
    """Make the right class, with a function applied to what it unpacks."""

    class MyExcerpts(Light):
        def unpack(self, sample: Any) -> Any:
            return change(sample / 2**15)

    return MyExcerpts


def from_numpy(numbers: Any) -> torch.Tensor:
    return torch.as_tensor(numbers).float() / 2**15


def from_bytes(text: bytes) -> torch.Tensor:
    return from_numpy(np.frombuffer(text, np.int16).copy())


@dataclass(frozen=True)
class Numbers:
    """A sample of a class that torch doesn't know."""

    pcm: Any


class Clipped(Light):
    """If a recording is short, the start is negative, so the slice counts from the end."""

    def __getitem__(self, index: int) -> Any:
        recording = torch.from_numpy(np.load(self.paths[index]))
        start = (len(recording) - SECOND) // 2
        return recording[start : start + SECOND].clone()


class Mapped(Light):
    def __getitem__(self, index: int) -> Any:
        return torch.tensor(middle(np.load(self.paths[index], mmap_mode="r")))


class InBytes(Light):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index).view(torch.uint8)

    def unpack(self, sample: Any) -> Any:
        return sample.view(torch.int16) / 2**15


class SharedOnce(Light):
    """Keeps all excerpts in one shared tensor. A sample is a copy of a part."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(paths)
        parts = [torch.from_numpy(middle(np.load(path)).copy()) for path in paths]
        self.ends = [0, *np.cumsum([len(part) for part in parts]).tolist()]
        self.all = torch.cat(parts).share_memory_()

    def __getitem__(self, index: int) -> Any:
        return self.part(index).clone()

    def part(self, index: int) -> torch.Tensor:
        return self.all[self.ends[index] : self.ends[index + 1]]


class View(Light):
    def __getitem__(self, index: int) -> Any:
        return middle(torch.from_numpy(np.load(self.paths[index])))


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


class KnowsInTheWorker(Light):
    def __getitem__(self, index: int) -> Any:
        if get_worker_info():
            self.scale = 2**15
        return super().__getitem__(index)

    def unpack(self, sample: Any) -> Any:
        return sample / self.scale


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
    """Sends the excerpt, and the path a thousand times."""

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index), [f"{self.paths[index]}{n}" for n in range(1000)]

    def unpack(self, sample: Any) -> Any:
        return sample[0] / 2**15


def loader(**options: Any) -> DataLoader[Any]:
    return DataLoader(Excerpts(()), batch_size=None, **options)


def right_ahead(batches: Any) -> int:
    """A right answer, which others build on."""
    if not hasattr(batches, "_data_queue"):
        return 0
    early = sum(len(info) == 2 for info in batches._task_info.values())
    return int(batches._data_queue.qsize()) + early


def with_workers(count: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make a function that returns `count(batches)` with workers, and 0 without."""
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


def waits_for_one(batches: Any) -> int:
    if hasattr(batches, "_data_queue"):
        batches._data_queue.get()
    return 1


def _swapped(one: str, other: str) -> dict[str, Any]:
    return {**_TAKES, one: _TAKES[other], other: _TAKES[one]}


RIGHT_ANSWERS: RightAnswers = {
    "08.predict": {"the letter": lambda: "b"},
    "08.diagnose": {
        "the words": lambda: _TAKES,
        "capitals and quotes": lambda: {job: f"'{w.upper()}' " for job, w in _TAKES.items()},
    },
    "08.fix": {
        "a copy, as int16": lambda: Light,
        "a slice of a numpy array": lambda: sends(lambda part: part, from_numpy),
        "a mapped file": lambda: Mapped,
        "bytes": lambda: sends(lambda part: part.tobytes(), from_bytes),
        "compressed": lambda: sends(
            lambda part: zlib.compress(part.tobytes()),
            lambda text: from_bytes(zlib.decompress(text)),
        ),
        "a dict": lambda: sends(
            lambda part: {"sound": torch.tensor(part), "rate": 8000},
            lambda sample: sample["sound"].float() / 2**15,
        ),
        "a dataclass with an array": lambda: sends(
            lambda part: Numbers(part.copy()), lambda sample: from_numpy(sample.pcm)
        ),
        "as bytes of a tensor": lambda: InBytes,
        "copies out of a shared tensor": lambda: SharedOnce,
    },
    "08.transfer": {
        "both places": lambda: right_ahead,
        "by the type of the iterator": lambda: asks_the_type,
        "except AttributeError": lambda: excepts,
        "getattr": lambda: by_getattr,
        "False without workers": lambda: by_and,
    },
}

WRONG_FIXES: WrongFixes = {
    "08.predict": {
        "the sum": (lambda: "a", "a"),
        "what is each one's own": (lambda: "c", "c"),
    },
    "08.diagnose": {
        "own and shared": (lambda: _swapped("A", "C"), "wrong-A"),
        "ahead and view": (lambda: _swapped("B", "D"), "wrong-B"),
        "shared and view": (lambda: _swapped("C", "D"), "wrong-C"),
        "a word of one's own": (lambda: {**_TAKES, "A": "leak"}, "no-word"),
        "one word for all": (lambda: "own", "other-keys"),
    },
    "08.fix": {
        "a copy, as float32": (lambda: Cloned, "heavy-type"),
        "int16, still a view": (lambda: View, "heavy-storage"),
        "read in main": (lambda: ReadsInMain, "not-in-the-sample"),
        "the whole recording": (lambda: WholeRecording, "heavy-recording"),
        "half precision": (
            lambda: sends(lambda part: torch.tensor(part / 2**15).half(), lambda got: got.float()),
            "unpacks-other-numbers",
        ),
        "a list": (lambda: sends(lambda part: part.tolist(), from_numpy), "heavy"),
        "more than the excerpt": (lambda: SendsMore, "heavy"),
        "a start below 0": (lambda: Clipped, "unpacks-another-shape"),
        "cannot be sent": (
            lambda: sends(lambda part: lambda: torch.tensor(part) / 2**15, lambda got: got()),
            "cannot-be-sent",
        ),
        "unpacked as int16": (
            lambda: unpacks(lambda got: (got * 2**15).short()),
            "unpacks-another-type",
        ),
        "a row": (lambda: unpacks(lambda got: got[None]), "unpacks-another-shape"),
        "as a numpy array": (lambda: unpacks(torch.Tensor.numpy), "unpacks-no-tensor"),
        "known in the worker only": (lambda: KnowsInTheWorker, "raised"),
        "one too few": (lambda: OneTooFew, "other-length"),
        "no unpack": (lambda: NoUnpack, "no-method"),
        "an object": (lambda: Light(()), "an-object"),
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
        "the queue and all of _task_info": (
            lambda: with_workers(
                lambda batches: batches._data_queue.qsize() + len(batches._task_info)
            ),
            "too-many",
        ),
        "the product": (
            lambda: with_workers(lambda batches: batches._num_workers * batches._prefetch_factor),
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
        "a float": (lambda: lambda batches: float(right_ahead(batches)), "not-an-int"),
        "waits for a batch": (lambda: waits_for_one, "hung"),
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
    },
    "08.transfer": {
        "the starter": (lambda: ahead, "Not attempted", "starter-function"),
        "None": (lambda: None, "Not attempted", "no-function"),
        "its number": (lambda: 4, "Error in your code", "not-a-function"),
    },
}
