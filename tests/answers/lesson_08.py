"""Define right and wrong answers to the exercises of lesson 08."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from answers import RightAnswers, WrongFixes, like
from dltutor.lessons.lesson_08.fix import SECOND, Excerpts

_TAKES = {"A": "own", "B": "ahead", "C": "shared", "D": "view"}


def middle(numbers: Any) -> Any:
    """Return the middle second of a recording as a slice, or all of a shorter recording."""
    start = max(0, (len(numbers) - SECOND) // 2)
    return numbers[start : start + SECOND]


class Light(Excerpts):
    """A right answer to "08.fix", which sends a copy of the excerpt as int16.

    Other answers are subclasses of it.
    """

    def __getitem__(self, index: int) -> Any:
        return middle(torch.from_numpy(np.load(self.paths[index]))).clone()

    def unpack(self, sample: Any) -> Any:
        return sample / 2**15


def sends(pack: Callable[[Any], Any], unpack: Callable[[Any], Any] = torch.as_tensor) -> type:
    """Make an answer from two functions.

    Args:
        pack: A function that takes an excerpt, which is a numpy array, and returns a sample.
        unpack: A function that the method `unpack` calls with a sample.
    """

    class MyExcerpts(Excerpts):
        def __getitem__(self, index: int) -> Any:
            return pack(middle(np.load(self.paths[index])))

        def unpack(self, sample: Any) -> Any:
            return unpack(sample)

    return MyExcerpts


def unpacks(change: Callable[[torch.Tensor], Any]) -> type:
    """Make a subclass of `Light` that passes each unpacked excerpt through a function."""

    class MyExcerpts(Light):
        def unpack(self, sample: Any) -> Any:
            return change(sample / 2**15)

    return MyExcerpts


def from_numpy(numbers: Any) -> torch.Tensor:
    return torch.as_tensor(numbers).float() / 2**15


def from_bytes(text: bytes) -> torch.Tensor:
    return from_numpy(np.frombuffer(text, np.int16).copy())


class Clipped(Light):
    """Wrong: if a recording is short, `start` is negative, so the slice counts from the end."""

    def __getitem__(self, index: int) -> Any:
        recording = torch.from_numpy(np.load(self.paths[index]))
        start = (len(recording) - SECOND) // 2
        return recording[start : start + SECOND].clone()


class View(Light):
    def __getitem__(self, index: int) -> Any:
        return middle(torch.from_numpy(np.load(self.paths[index])))


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


class NoUnpack:
    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return middle(torch.from_numpy(np.load(self.paths[index])))


def right_ahead(batches: Any) -> int:
    """A right answer to "08.transfer", which counts queued batches, and early ones in `_task_info`.

    Other answers call it.
    """
    if not hasattr(batches, "_data_queue"):
        return 0
    early = sum(len(info) == 2 for info in batches._task_info.values())
    return int(batches._data_queue.qsize()) + early


def with_workers(count: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make a function that returns `count(batches)` with workers, and 0 without."""
    return lambda batches: count(batches) if hasattr(batches, "_data_queue") else 0


def by_and(batches: Any) -> int:
    return hasattr(batches, "_data_queue") and right_ahead(batches)


def drains(batches: Any) -> int:
    found = 0
    while batches._data_queue.qsize():
        batches._data_queue.get()
        found += 1
    return found


def _swapped(one: str, other: str) -> dict[str, Any]:
    return {**_TAKES, one: _TAKES[other], other: _TAKES[one]}


RIGHT_ANSWERS: RightAnswers = {
    "08.diagnose": {"the words": _TAKES},
    "08.fix": {
        "a copy, as int16": Light,
        "a slice of a numpy array": sends(lambda part: part, from_numpy),
        "bytes": sends(lambda part: part.tobytes(), from_bytes),
        "a dict": sends(
            lambda part: {"sound": torch.tensor(part), "rate": 8000},
            lambda sample: sample["sound"].float() / 2**15,
        ),
    },
    "08.transfer": {
        "both places": right_ahead,
        "False without workers": by_and,
    },
}

WRONG_FIXES: WrongFixes = {
    "08.diagnose": {
        "own and shared": (_swapped("A", "C"), "wrong-A"),
        "ahead and view": (_swapped("B", "D"), "wrong-B"),
        "shared and view": (_swapped("C", "D"), "wrong-C"),
        "a word of one's own": ({**_TAKES, "A": "leak"}, "no-word"),
        "one word for all": ("own", "other-keys"),
    },
    "08.fix": {
        "a copy, as float32": (
            like(
                Excerpts, __getitem__=lambda self, index: Excerpts.__getitem__(self, index).clone()
            ),
            "heavy-type",
        ),
        "int16, still a view": (View, "heavy-storage"),
        "read in main": (ReadsInMain, "not-in-the-sample"),
        "the whole recording": (WholeRecording, "heavy-recording"),
        "half precision": (
            sends(lambda part: torch.tensor(part / 2**15).half(), lambda got: got.float()),
            "unpacks-other-numbers",
        ),
        "a list": (sends(lambda part: part.tolist(), from_numpy), "heavy"),
        "a start below 0": (Clipped, "unpacks-another-form"),
        "cannot be sent": (
            sends(lambda part: lambda: torch.tensor(part) / 2**15, lambda got: got()),
            "cannot-be-sent",
        ),
        "unpacked as int16": (unpacks(lambda got: (got * 2**15).short()), "unpacks-another-form"),
        "as a numpy array": (unpacks(torch.Tensor.numpy), "unpacks-another-form"),
        "one too few": (like(Light, __len__=lambda self: len(self.paths) - 1), "other-length"),
        "no unpack": (NoUnpack, "no-method"),
    },
    "08.transfer": {
        "the queue alone": (
            with_workers(lambda batches: batches._data_queue.qsize()),
            "forgets-early-batches",
        ),
        "all that was asked for": (
            with_workers(lambda batches: batches._tasks_outstanding),
            "too-many",
        ),
        "the early ones alone": (
            with_workers(
                lambda batches: sum(len(info) == 2 for info in batches._task_info.values())
            ),
            "too-few",
        ),
        "no word of 0 workers": (
            lambda batches: (
                batches._data_queue.qsize()
                + sum(len(info) == 2 for info in batches._task_info.values())
            ),
            "raised",
        ),
        "None without workers": (
            lambda batches: right_ahead(batches) if hasattr(batches, "_data_queue") else None,
            "not-an-int",
        ),
        "drains the queue": (drains, "took-batches"),
    },
}
