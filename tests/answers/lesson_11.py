"""Define right and wrong answers to the exercises of lesson 11."""

from __future__ import annotations

import gc
import os
import pickle
import resource
import tempfile
from collections.abc import Callable
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.multiprocessing
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Subset

from answers import OtherOutcomes, RightAnswers, WrongFixes
from dltutor.failures.data.sentences import as_list, packed
from dltutor.lessons.lesson_11.helpers import Rows, collect

Pairs = list[Any]
Samples = list[tuple[torch.Tensor, int]]

# Answers to "11.fix"


def batches(dataset: Any, workers: int, collate_fn: Any, size: int = 100, **how: Any) -> Any:
    how.setdefault("multiprocessing_context", "fork" if workers else None)
    return DataLoader(dataset, size, num_workers=workers, collate_fn=collate_fn, **how)


def as_numbers(samples: Samples) -> Any:
    return [(words.tolist(), label) for words, label in samples]


def as_arrays(samples: Samples) -> Any:
    return [(words.numpy(), label) for words, label in samples]


def as_a_rectangle(samples: Samples) -> Any:
    words = [words for words, _ in samples]
    lengths = [(len(each), label) for each, label in samples]
    return pad_sequence(words, batch_first=True), lengths


def as_bytes(samples: Samples) -> bytes:
    return pickle.dumps(as_numbers(samples))


def with_lengths(samples: Samples) -> Any:
    words = [words for words, _ in samples]
    return torch.cat(words), [len(each) for each in words], [label for _, label in samples]


def packed_and_cloned(dataset: Any, num_workers: int) -> Pairs:
    found = []
    for words, offsets, labels in batches(dataset, num_workers, packed):
        sentences = torch.tensor_split(words, offsets[1:])
        found += [(s.clone(), n) for s, n in zip(sentences, labels.tolist(), strict=True)]
    return found


def lengths_as_numbers(dataset: Any, num_workers: int) -> Pairs:
    found = []
    for words, lengths, labels in batches(dataset, num_workers, with_lengths):
        found += list(zip(words.clone().split(lengths), labels, strict=True))
    return found


def numbers_through_the_pipe(dataset: Any, num_workers: int) -> Pairs:
    loader = batches(dataset, num_workers, as_numbers)
    return [(torch.tensor(words), label) for batch in loader for words, label in batch]


def arrays_through_the_pipe(dataset: Any, num_workers: int) -> Pairs:
    loader = batches(dataset, num_workers, as_arrays, persistent_workers=num_workers > 0)
    return [(torch.from_numpy(words), label) for batch in loader for words, label in batch]


def bytes_through_the_pipe(dataset: Any, num_workers: int) -> Pairs:
    found: Pairs = []
    for batch in batches(dataset, num_workers, as_bytes, 500):
        found.extend((torch.tensor(words), label) for words, label in pickle.loads(batch))
    return found


def padded(dataset: Any, num_workers: int) -> Pairs:
    found = []
    for rows, lengths in batches(dataset, num_workers, as_a_rectangle, prefetch_factor=None):
        for row, (length, label) in zip(rows, lengths, strict=True):
            found.append((row[:length].clone(), label))
    return found


def pickled(dataset: Any, num_workers: int) -> Pairs:
    how: Any = {"multiprocessing_context": "forkserver"} if num_workers else {}
    loader = batches(dataset, num_workers, pickle.dumps, 300, **how)
    return [pair for batch in loader for pair in pickle.loads(batch)]


def part_by_part(dataset: Any, num_workers: int) -> Pairs:
    found: Pairs = []
    for at in range(0, len(dataset), 1000):
        part = Subset(dataset, range(at, at + 1000))
        for batch in batches(part, num_workers, as_numbers):
            found += [(torch.tensor(words), label) for words, label in batch]
    return found


def without_workers(dataset: Any, num_workers: int) -> Pairs:
    return numbers_through_the_pipe(dataset, 0)


def packed_and_kept(dataset: Any, num_workers: int) -> Pairs:
    found: Pairs = []
    for words, lengths, labels in batches(dataset, num_workers, with_lengths, 10):
        found += zip(words.split(lengths), labels, strict=True)
    return found


def cloned_alone(dataset: Any, num_workers: int) -> Pairs:
    found: Pairs = []
    for sentences, labels in batches(dataset, num_workers, as_list):
        found += zip([each.clone() for each in sentences], labels.tolist(), strict=True)
    return found


def by_name(dataset: Any, num_workers: int) -> Pairs:
    torch.multiprocessing.set_sharing_strategy("file_system")
    return collect(dataset, num_workers)


def by_name_in_workers(worker: int) -> None:
    torch.multiprocessing.set_sharing_strategy("file_system")


def by_name_from_workers(dataset: Any, num_workers: int) -> Pairs:
    init = by_name_in_workers
    return [
        (words.clone(), int(label))
        for sentences, labels in batches(dataset, num_workers, as_list, worker_init_fn=init)
        for words, label in zip(sentences, labels, strict=True)
    ]


def with_a_higher_limit(dataset: Any, num_workers: int) -> Pairs:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return collect(dataset, num_workers)


def labels_kept(dataset: Any, num_workers: int) -> Pairs:
    found: Pairs = []
    for words, offsets, labels in batches(dataset, num_workers, packed, 10):
        cut = torch.tensor_split(words.clone(), offsets[1:])
        found += zip(cut, labels, strict=True)
    return found


def collected(dataset: Any, num_workers: int) -> Pairs:
    found: Pairs = []
    for words, lengths, labels in batches(dataset, num_workers, with_lengths):
        found += zip(words.detach().cpu().split(lengths), labels, strict=True)
        gc.collect()
    return found


def as_numpy(dataset: Any, num_workers: int) -> Pairs:
    return [(words.numpy(), label) for words, label in lengths_as_numbers(dataset, num_workers)]


def without_the_last(dataset: Any, num_workers: int) -> Pairs:
    loader = batches(dataset, num_workers, as_numbers, 64, drop_last=True)
    return [(torch.tensor(words), label) for batch in loader for words, label in batch]


def shuffled(dataset: Any, num_workers: int) -> Pairs:
    loader = batches(dataset, num_workers, as_numbers, shuffle=True)
    return [(torch.tensor(words), label) for batch in loader for words, label in batch]


def small_batches(size: int) -> Callable[..., Pairs]:
    def cloned_in_main(dataset: Any, num_workers: int) -> Pairs:
        loader = batches(dataset, num_workers, as_list, size)
        return [(w.clone(), n) for s, ns in loader for w, n in zip(s, ns.tolist(), strict=True)]

    return cloned_in_main


def cut_one_too_far(dataset: Any, num_workers: int) -> Pairs:
    found = []
    for words, offsets, labels in batches(dataset, num_workers, packed):
        sentences = torch.tensor_split(words.clone(), offsets[1:] + 1)
        found += [*zip(sentences, labels.tolist(), strict=True)]
    return found


def by_class(dataset: Any, num_workers: int) -> Any:
    found: dict[int, Any] = {}
    for words, label in numbers_through_the_pipe(dataset, num_workers):
        found.setdefault(label, []).append(words)
    return found


def one_worker(dataset: Any, num_workers: int) -> Pairs:
    return numbers_through_the_pipe(dataset, min(num_workers, 1))


def always_two(dataset: Any, num_workers: int) -> Pairs:
    return numbers_through_the_pipe(dataset, 2)


def the_last_is_kept(dataset: Any, num_workers: int) -> Pairs:
    found = []
    for words, lengths, labels in batches(dataset, num_workers, with_lengths):
        the_last_is_kept.batch = words  # type: ignore[attr-defined]
        found += [*zip(words.clone().split(lengths), labels, strict=True)]
    return found


# Answers to "11.transfer"


class Table(Dataset[torch.Tensor]):
    """A right answer, and a base class. It attaches to the block when it's unpickled."""

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
    """Makes its array for each use. It isn't a Dataset, because a Sequence works, too."""

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


class ByName(Table):
    """Pickles the block's name instead of the block."""

    def __getstate__(self) -> Any:
        return self.block.name, self.rows.shape, self.rows.dtype

    def __setstate__(self, state: Any) -> None:
        super().__setstate__((SharedMemory(state[0]), *state[1:]))


class OfTorch(Table):
    """Keeps a tensor that uses the block's memory."""

    def attach(self, shape: Any, dtype: Any) -> None:
        self.kind = shape, dtype
        tensor = torch.frombuffer(self.block.buf, dtype=torch.from_numpy(np.empty(0, dtype)).dtype)
        self.rows: Any = tensor[: int(np.prod(shape))].view(shape)

    def __init__(self, array: Any) -> None:
        self.block = SharedMemory(create=True, size=array.nbytes)
        self.attach(array.shape, array.dtype)
        self.rows[:] = torch.from_numpy(array)

    def __getstate__(self) -> Any:
        return self.block, *self.kind

    def __getitem__(self, index: int) -> torch.Tensor:
        row: torch.Tensor = self.rows[index].clone()
        return row


class Frozen(Table):
    """Has an array that must be freed before the block can be closed."""

    def attach(self, shape: Any, dtype: Any) -> None:
        self.rows = np.frombuffer(self.block.buf, dtype, int(np.prod(shape))).reshape(shape)


class InAFile(Dataset[torch.Tensor]):
    """Uses a mapped file, which is also shared memory."""

    def __init__(self, array: Any) -> None:
        handle, self.path = tempfile.mkstemp()
        os.close(handle)
        array.tofile(self.path)
        self.kind = array.dtype, "r+", 0, array.shape
        self.rows: Any = np.memmap(self.path, *self.kind)

    def __getstate__(self) -> Any:
        return self.path, self.kind

    def __setstate__(self, state: Any) -> None:
        self.path, self.kind = state
        self.rows = np.memmap(self.path, *self.kind)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(np.array(self.rows[index]))

    def write(self, index: int, row: Any) -> None:
        self.rows[index] = row

    def close(self) -> None:
        self.rows = None
        Path(self.path).unlink(missing_ok=True)


class InAFileThatStays(InAFile):
    def close(self) -> None:
        self.rows = None


class TooShort(Table):
    def __len__(self) -> int:
        return len(self.rows) - 1


class CopiedAtTheFork(SharedTensor):
    def __init__(self, array: Any) -> None:
        self.rows = torch.from_numpy(array)


class RowsInTheBlock(Table):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self.rows[index])


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


class ClosedUnderAnArray(Frozen):
    def close(self) -> None:
        if self.block is not None:
            self.block.close()
            self.block.unlink()
            self.block = None


class Unregisters(Table):
    """Unregisters the block in each worker, as many answers on the web advise."""

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


class Doubles(Table):
    def __getitem__(self, index: int) -> torch.Tensor:
        return super().__getitem__(index).double()


class AsArrays(Table):
    def __getitem__(self, index: int) -> Any:
        return self.rows[index].copy()


class OneFurther(Table):
    def __getitem__(self, index: int) -> torch.Tensor:
        return super().__getitem__(index - 1)


class WritesNothing(Table):
    def write(self, index: int, row: Any) -> None:
        pass


def function(answer: Any) -> Callable[[], Any]:
    return lambda: answer


RIGHT_ANSWERS: RightAnswers = {
    "11.predict": {"the letter": lambda: "c", "in brackets": lambda: "(C)"},
    "11.diagnose": {
        "a word": lambda: "aceg",
        "with commas": lambda: "A, C, E and G",
        "a list": lambda: ["g", "e", "c", "a"],
        "a set": lambda: {"a", "c", "e", "g"},
        "with quotes": lambda: "'a' 'c' 'e' 'g'",
    },
    "11.fix": {
        "packed, and cloned": function(packed_and_cloned),
        "lengths as numbers": function(lengths_as_numbers),
        "numbers through the pipe": function(numbers_through_the_pipe),
        "arrays through the pipe": function(arrays_through_the_pipe),
        "bytes through the pipe": function(bytes_through_the_pipe),
        "padded": function(padded),
        "lists of eight": lambda: small_batches(8),
        "pickled, by the fork server": function(pickled),
        "part by part": function(part_by_part),
    },
    "11.transfer": {
        "attached where it is unpickled": lambda: Table,
        "made for each use": lambda: MadeForEachUse,
        "a shared tensor": lambda: SharedTensor,
        "by its name": lambda: ByName,
        "a tensor over the block": lambda: OfTorch,
        "a mapped file": lambda: InAFile,
    },
}

WRONG_FIXES: WrongFixes = {
    "11.predict": {
        "an error": (lambda: "a", "a"),
        "it works": (lambda: "b", "b"),
        "a number": (lambda: 3, "no-option"),
    },
    "11.diagnose": {
        "a view alone": (lambda: "a", "missing"),
        "a copy, too": (lambda: "acdeg", "wrong-d"),
        "all": (lambda: list("abcdefg"), "wrong-b"),
        "none": (lambda: "", "none-named"),
        "another letter": (lambda: "ax", "unknown-letter"),
        "a number": (lambda: 4, "not-letters"),
    },
    "11.fix": {
        "zero workers": (function(without_workers), "read-in-main"),
        "packed, and kept": (function(packed_and_kept), "too-many-open-files"),
        "cloned alone": (function(cloned_alone), "lost-batch"),
        "shared by name": (function(by_name), "other-strategy"),
        "by name, in workers": (function(by_name_from_workers), "other-strategy"),
        "a higher limit": (function(with_a_higher_limit), "lost-batch"),
        "labels are kept": (function(labels_kept), "too-many-open-files"),
        "collected": (function(collected), "left-open"),
        "numpy arrays": (function(as_numpy), "wrong-types"),
        "without the last": (function(without_the_last), "missing"),
        "shuffled": (function(shuffled), "wrong-pairs"),
        "cut one too far": (function(cut_one_too_far), "wrong-pairs"),
        "a dict": (function(by_class), "no-pairs"),
        "batches of 40": (lambda: small_batches(40), ("too-many-open-files", "lost-batch")),
        "one worker": (function(one_worker), "other-loader"),
        "always two": (function(always_two), "not-without-workers"),
        "the last is kept": (function(the_last_is_kept), "one-left-open"),
        "a loader": (lambda: DataLoader([1]), "a-loader"),  # type: ignore[arg-type]
    },
    "11.transfer": {
        "copied at the fork": (lambda: CopiedAtTheFork, "old-rows"),
        "rows in the block": (lambda: RowsInTheBlock, "shares"),
        "copies alone": (lambda: CopiesAlone, "old-rows"),
        "not unlinked": (lambda: NotUnlinked, "left-files"),
        "not closed": (lambda: NotClosed, "left-mapped"),
        "a file that stays": (lambda: InAFileThatStays, "left-files"),
        "too short": (lambda: TooShort, "length"),
        "closed once": (lambda: ClosedOnce, "close-raised"),
        "closed under an array": (lambda: ClosedUnderAnArray, "view-left"),
        "unregisters": (lambda: Unregisters, "tracker"),
        "unlinks at once": (lambda: UnlinksAtOnce, "worker-died"),
        "one name": (lambda: OneName, "raised"),
        "one for all": (lambda: OneForAll, "other-row"),
        "doubles": (lambda: Doubles, "other-type"),
        "numpy arrays": (lambda: AsArrays, "other-type"),
        "one further": (lambda: OneFurther, "other-row"),
        "writes nothing": (lambda: WritesNothing, "lost"),
    },
}

OTHER_OUTCOMES: OtherOutcomes = {
    "11.predict": {"unset": (lambda: ..., "Not attempted", "no-letter")},
    "11.diagnose": {"unset": (lambda: None, "Not attempted", "no-letters")},
    "11.fix": {
        "the starter": (lambda: collect, "Not attempted", "starter-function"),
        "unset": (lambda: ..., "Not attempted", "no-function"),
    },
    "11.transfer": {
        "the starter": (lambda: Rows, "Not attempted", "starter-class"),
        "unset": (lambda: None, "Not attempted", "no-class"),
    },
}
