"""Define right and wrong answers to the exercises of lesson 11."""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable, Iterable
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
from typing import Any, ClassVar

import numpy as np
import torch
import torch.multiprocessing
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

from answers import RightAnswers, WrongFixes, like
from dltutor.failures.data.sentences import as_list, packed
from dltutor.lessons.lesson_11.helpers import Rows, collect

Pairs = list[Any]
Samples = list[tuple[torch.Tensor, int]]

# Answers to "11.fix"


def reading(
    collate_fn: Callable[[Any], Any],
    pairs_of: Callable[[Any], Iterable[Any]],
    size: int = 100,
    **how: Any,
) -> Callable[[Any, int], Pairs]:
    """Make an answer that reads batches, and collects the pairs in `pairs_of(batch)`.

    Args:
        collate_fn: The loader's `collate_fn`.
        pairs_of: A function that takes a batch apart into pairs, in main.
        size: How many samples a batch has.
        how: More options for the loader. The default start method is fork.
    """

    def my_collect(dataset: Any, num_workers: int) -> Pairs:
        given = {"multiprocessing_context": "fork", **how} if num_workers else how
        found: Pairs = []
        for batch in DataLoader(
            dataset, size, num_workers=num_workers, collate_fn=collate_fn, **given
        ):
            found += pairs_of(batch)
        return found

    return my_collect


def as_numbers(samples: Samples) -> Any:
    return [(words.tolist(), label) for words, label in samples]


def of_numbers(batch: Any) -> Pairs:
    return [(torch.tensor(words), label) for words, label in batch]


def as_a_rectangle(samples: Samples) -> Any:
    words = [words for words, _ in samples]
    lengths = [(len(each), label) for each, label in samples]
    return pad_sequence(words, batch_first=True), lengths


def of_a_rectangle(batch: Any) -> Pairs:
    found = zip(*batch, strict=True)
    return [(row[:length].clone(), label) for row, (length, label) in found]


def with_lengths(samples: Samples) -> Any:
    words = [words for words, _ in samples]
    return torch.cat(words), [len(each) for each in words], [label for _, label in samples]


def cut(words: torch.Tensor, lengths: list[int], labels: list[int]) -> Pairs:
    return [*zip(words.split(lengths), labels, strict=True)]


def cut_a_copy(batch: Any) -> Pairs:
    words, lengths, labels = batch
    return cut(words.clone(), lengths, labels)


def cloned(batch: Any) -> Pairs:
    sentences, labels = batch
    return [(each.clone(), label) for each, label in zip(sentences, labels.tolist(), strict=True)]


def by_offsets(batch: Any, further: int = 0) -> Pairs:
    words, offsets, labels = batch
    return cloned((torch.tensor_split(words, offsets[1:] + further), labels))


def cut_and_collected(batch: Any) -> Pairs:
    gc.collect()
    words, lengths, labels = batch
    return cut(words.detach().cpu(), lengths, labels)


numbers_through_the_pipe = reading(as_numbers, of_numbers)
lengths_as_numbers = reading(with_lengths, cut_a_copy)


def by_name(dataset: Any, num_workers: int) -> Pairs:
    torch.multiprocessing.set_sharing_strategy("file_system")
    return collect(dataset, num_workers)


def with_a_higher_limit(dataset: Any, num_workers: int) -> Pairs:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return collect(dataset, num_workers)


def as_numpy(dataset: Any, num_workers: int) -> Pairs:
    return [(words.numpy(), label) for words, label in lengths_as_numbers(dataset, num_workers)]


def by_class(dataset: Any, num_workers: int) -> Any:
    found: dict[int, Any] = {}
    for words, label in numbers_through_the_pipe(dataset, num_workers):
        found.setdefault(label, []).append(words)
    return found


def with_workers(count: Callable[[int], int]) -> Callable[[Any, int], Pairs]:
    """Make an answer that uses `count(num_workers)` workers instead of `num_workers`."""
    return lambda dataset, num_workers: numbers_through_the_pipe(dataset, count(num_workers))


KEPT: list[torch.Tensor] = []


def the_last_is_kept(batch: Any) -> Pairs:
    KEPT[:] = batch[:1]
    return cut_a_copy(batch)


# Answers to "11.transfer"


class Table(Dataset[torch.Tensor]):
    """A right answer to "11.transfer", and the base class of other answers.

    Unpickling a table attaches the new table to the same shared block.
    """

    def __init__(self, array: Any) -> None:
        self.block: Any = SharedMemory(create=True, size=array.nbytes)
        self.attach(array.shape, array.dtype)
        self.rows[:] = array

    def attach(self, shape: Any, dtype: Any) -> None:
        self.rows = np.ndarray(shape, dtype, buffer=self.block.buf)

    def __getstate__(self) -> Any:
        return self.block, self.rows.shape, self.rows.dtype

    def __setstate__(self, state: Any) -> None:
        self.block, shape, dtype = state
        self.attach(shape, dtype)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(self.rows[index])

    def write(self, index: int, row: Any) -> None:
        self.rows[index] = row

    def close(self) -> None:
        if self.block is not None:
            del self.rows
            self.block.close()
            self.block.unlink()
            self.block = None


class MadeForEachUse:
    """Right: makes a new array over the block for each use. An answer needn't be a Dataset."""

    def __init__(self, array: Any) -> None:
        self.block: Any = SharedMemory(create=True, size=array.nbytes)
        self.kind = array.shape, array.dtype
        self.rows[:] = array

    @property
    def rows(self) -> Any:
        return np.ndarray(*self.kind, buffer=self.block.buf)

    def __len__(self) -> int:
        return int(self.kind[0][0])

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self.rows[index].copy())

    def write(self, index: int, row: Any) -> None:
        self.rows[index] = row

    def close(self) -> None:
        if self.block:
            self.block.close()
            self.block.unlink()
        self.block = None


class SharedTensor(Dataset[torch.Tensor]):
    def __init__(self, array: Any) -> None:
        self.rows: Any = torch.from_numpy(array).share_memory_()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> torch.Tensor:
        row: torch.Tensor = self.rows[index].clone()
        return row

    def write(self, index: int, row: Any) -> None:
        self.rows[index] = row

    def close(self) -> None:
        self.rows = None


class CopiesAlone(Rows):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(self.rows[index])


class NotUnlinked(Table):
    def close(self) -> None:
        self.block.close()


class NotClosed(Table):
    def close(self) -> None:
        if self.block is not None:
            self.kept, self.block = self.block, None
            self.kept.unlink()


class ClosedOnce(Table):
    def close(self) -> None:
        self.block.close()
        self.block.unlink()


class ClosedUnderAnArray(Table):
    """Wrong, because a block can't be closed while an array from `np.frombuffer` exists."""

    def attach(self, shape: Any, dtype: Any) -> None:
        self.rows = np.frombuffer(self.block.buf, dtype, int(np.prod(shape))).reshape(shape)

    def close(self) -> None:
        if self.block is not None:
            self.block.close()
            self.block.unlink()
            self.block = None


class Unregisters(Table):
    """Wrong: unregisters the block wherever the table is unpickled, as answers on the web advise.

    Main and its workers share a resource tracker, so `unlink` in main unregisters the block again.
    """

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        resource_tracker.unregister(self.block._name, "shared_memory")


class UnlinksAtOnce(Table):
    def __init__(self, array: Any) -> None:
        super().__init__(array)
        self.block.unlink()


class OneName(Table):
    def __init__(self, array: Any) -> None:
        self.block = SharedMemory("dltutor-rows", create=True, size=array.nbytes)
        self.attach(array.shape, array.dtype)
        self.rows[:] = array


class OneForAll(Table):
    every: ClassVar[list[Any]] = []

    def __init__(self, array: Any) -> None:
        if not self.every:
            self.every.append(SharedMemory(create=True, size=array.nbytes))
        self.block = self.every[0]
        self.attach(array.shape, array.dtype)
        self.rows[:] = array


RIGHT_ANSWERS: RightAnswers = {
    "11.diagnose": {"with commas": "A, C, E and G", "a set": {"a", "c", "e", "g"}},
    "11.fix": {
        "packed, and cloned": reading(packed, by_offsets),
        "lengths as numbers": lengths_as_numbers,
        "numbers through the pipe": numbers_through_the_pipe,
        "padded": reading(as_a_rectangle, of_a_rectangle, prefetch_factor=None),
        "lists of eight": reading(as_list, cloned, 8),
    },
    "11.transfer": {
        "attached where it is unpickled": Table,
        "made for each use": MadeForEachUse,
        "a shared tensor": SharedTensor,
    },
}

WRONG_FIXES: WrongFixes = {
    "11.diagnose": {
        "a view alone": ("a", "missing"),
        "a copy, too": ("acdeg", "wrong-d"),
        "all": (list("abcdefg"), "wrong-b"),
        "none": ("", "missing"),
        "another letter": ("ax", "unknown-letter"),
        "a number": (4, "not-letters"),
    },
    "11.fix": {
        "zero workers": (with_workers(lambda workers: 0), "read-in-main"),
        "packed, and kept": (
            reading(with_lengths, lambda batch: cut(*batch), 10),
            "too-many-open-files",
        ),
        "cloned alone": (reading(as_list, cloned), "lost-batch"),
        "shared by name": (by_name, "other-strategy"),
        "a higher limit": (with_a_higher_limit, "lost-batch"),
        "collected": (reading(with_lengths, cut_and_collected), "left-open"),
        "numpy arrays": (as_numpy, "wrong-types"),
        "without the last": (reading(as_numbers, of_numbers, 64, drop_last=True), "missing"),
        "cut one too far": (reading(packed, partial(by_offsets, further=1)), "wrong-pairs"),
        "a dict": (by_class, "no-pairs"),
        "one worker": (with_workers(lambda workers: min(workers, 1)), "other-loader"),
        "always two": (with_workers(lambda workers: 2), "not-without-workers"),
        "the last is kept": (reading(with_lengths, the_last_is_kept), "left-open"),
        "a loader": (DataLoader([1]), "not-a-function"),  # type: ignore[arg-type]
    },
    "11.transfer": {
        "rows in the block": (
            like(Table, __getitem__=lambda self, index: torch.from_numpy(self.rows[index])),
            "shares",
        ),
        "copies alone": (CopiesAlone, "old-rows"),
        "not unlinked": (NotUnlinked, "left-files"),
        "not closed": (NotClosed, "left-mapped"),
        "too short": (like(Table, __len__=lambda self: len(self.rows) - 1), "length"),
        "closed once": (ClosedOnce, "close-raised"),
        "closed under an array": (ClosedUnderAnArray, "view-left"),
        "unregisters": (Unregisters, "tracker"),
        "unlinks at once": (UnlinksAtOnce, "worker-died"),
        "one name": (OneName, "raised"),
        "one for all": (OneForAll, "other-row"),
        "numpy arrays": (
            like(Table, __getitem__=lambda self, index: self.rows[index].copy()),
            "other-type",
        ),
        "writes nothing": (like(Table, write=lambda self, index, row: None), "lost"),
    },
}
