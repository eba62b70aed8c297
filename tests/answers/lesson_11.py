"""Answers to the exercises of lesson 11, wrong and right."""

from __future__ import annotations

import gc
import mmap
import multiprocessing
import os
import pickle
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.managers import SharedMemoryManager
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.multiprocessing
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Subset, get_worker_info

from answers import OtherOutcomes, RightAnswers, WrongFixes
from dltutor.failures.data.sentences import as_list, packed
from dltutor.lessons.lesson_11.material import Rows, collect

Pairs = list[Any]
Samples = list[tuple[torch.Tensor, int]]

# 11.fix


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


def generated(dataset: Any, num_workers: int) -> Pairs:
    def pairs() -> Iterator[Any]:
        for words, lengths, labels in batches(dataset, num_workers, with_lengths, 64):
            for sentence, label in zip(words.split(lengths), labels, strict=True):
                yield torch.tensor(sentence.tolist()), label

    return [*pairs()]


class Collector:
    """Not a function, and called like one."""

    def __init__(self, collate_fn: Any) -> None:
        self.collate_fn = collate_fn

    def __call__(self, dataset: Any, num_workers: int) -> Pairs:
        found: Pairs = []
        for words, offsets, labels in batches(dataset, num_workers, self.collate_fn):
            numbers = words.numpy().copy()
            cut = np.split(numbers, offsets[1:].numpy())
            found += zip(map(torch.from_numpy, cut), labels.tolist(), strict=True)
        return found


def joined_at_the_end(dataset: Any, num_workers: int) -> Pairs:
    words, lengths, labels = [], [], []
    for some, their_lengths, their_labels in batches(dataset, num_workers, with_lengths):
        words.append(some.clone())
        lengths += their_lengths
        labels += their_labels
    return [*zip(torch.cat(words).split(lengths), labels, strict=True)]


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


def fewer_batches_than_workers(dataset: Any, num_workers: int) -> Pairs:
    loader = batches(dataset, num_workers, as_bytes, 1000)
    return [(torch.tensor(w), n) for batch in loader for w, n in pickle.loads(batch)]


def without_its_streams(dataset: Any, num_workers: int) -> Pairs:
    for stream in (1, 2):
        with suppress(OSError):
            os.close(stream)
    return lengths_as_numbers(dataset, num_workers)


def main_reads(share: float) -> Callable[..., Pairs]:
    def in_part(dataset: Any, num_workers: int) -> Pairs:
        at = int(len(dataset) * share) if num_workers else 0
        rest = Subset(dataset, range(at, len(dataset)))
        return [dataset[i] for i in range(at)] + numbers_through_the_pipe(rest, num_workers)

    return in_part


def main_reads_again(dataset: Any, num_workers: int) -> Pairs:
    pairs = numbers_through_the_pipe(dataset, num_workers)
    return [pair if index % 3 else dataset[index] for index, pair in enumerate(pairs)]


def twice_the_workers(dataset: Any, num_workers: int) -> Pairs:
    return numbers_through_the_pipe(dataset, 2 * num_workers)


def in_a_pool(dataset: Any, num_workers: int) -> Pairs:
    if not num_workers:
        return numbers_through_the_pipe(dataset, 0)
    with multiprocessing.get_context("fork").Pool(num_workers) as pool:
        parts = [Subset(dataset, range(at, at + 500)) for at in range(0, len(dataset), 500)]
        found = pool.map(read_as_numbers, parts)
    return [(torch.tensor(words), label) for part in found for words, label in part]


def read_as_numbers(part: Any) -> Any:
    return as_numbers([part[index] for index in range(len(part))])


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


def by_name_for_a_while(dataset: Any, num_workers: int) -> Pairs:
    torch.multiprocessing.set_sharing_strategy("file_system")
    try:
        return [(w.clone(), int(n)) for w, n in collect(dataset, num_workers)]
    finally:
        torch.multiprocessing.set_sharing_strategy("file_descriptor")


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


def arrays_kept(dataset: Any, num_workers: int) -> Pairs:
    found: Pairs = []
    for words, lengths, labels in batches(dataset, num_workers, with_lengths, 10):
        found += zip([each.numpy() for each in words.split(lengths)], labels, strict=True)
    return found


def collected(dataset: Any, num_workers: int) -> Pairs:
    found: Pairs = []
    for words, lengths, labels in batches(dataset, num_workers, with_lengths):
        found += zip(words.detach().cpu().split(lengths), labels, strict=True)
        gc.collect()
    return found


def as_numpy(dataset: Any, num_workers: int) -> Pairs:
    return [(words.numpy(), label) for words, label in lengths_as_numbers(dataset, num_workers)]


def as_floats(dataset: Any, num_workers: int) -> Pairs:
    return [(words.float(), label) for words, label in lengths_as_numbers(dataset, num_workers)]


def without_the_last(dataset: Any, num_workers: int) -> Pairs:
    loader = batches(dataset, num_workers, as_numbers, 64, drop_last=True)
    return [(torch.tensor(words), label) for batch in loader for words, label in batch]


def shuffled(dataset: Any, num_workers: int) -> Pairs:
    loader = batches(dataset, num_workers, as_numbers, shuffle=True)
    return [(torch.tensor(words), label) for batch in loader for words, label in batch]


def labels_as(make: Callable[[int], Any]) -> Callable[..., Pairs]:
    def with_other_labels(dataset: Any, num_workers: int) -> Pairs:
        pairs = numbers_through_the_pipe(dataset, num_workers)
        return [(words, make(label)) for words, label in pairs]

    return with_other_labels


def views_of_a_clone(dataset: Any, num_workers: int) -> Pairs:
    found: Pairs = []
    for words, offsets, labels in batches(dataset, num_workers, packed):
        cut = torch.tensor_split(words.clone(), offsets[1:])
        found += zip(cut, labels.clone(), strict=True)
    return found


def small_batches(size: int) -> Callable[..., Pairs]:
    def cloned_in_main(dataset: Any, num_workers: int) -> Pairs:
        loader = batches(dataset, num_workers, as_list, size)
        return [(w.clone(), n) for s, ns in loader for w, n in zip(s, ns.tolist(), strict=True)]

    return cloned_in_main


def two_lists(dataset: Any, num_workers: int) -> Any:
    return tuple(zip(*numbers_through_the_pipe(dataset, num_workers), strict=True))


def two_of_four(dataset: Any, num_workers: int) -> Pairs:
    return numbers_through_the_pipe(dataset, min(num_workers, 2))


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


def lazily(dataset: Any, num_workers: int) -> Any:
    yield from numbers_through_the_pipe(dataset, num_workers)


def flat(dataset: Any, num_workers: int) -> Any:
    return [words for words, _ in numbers_through_the_pipe(dataset, num_workers)]


def one_worker(dataset: Any, num_workers: int) -> Pairs:
    return numbers_through_the_pipe(dataset, min(num_workers, 1))


def always_two(dataset: Any, num_workers: int) -> Pairs:
    return numbers_through_the_pipe(dataset, 2)


def or_else_alone(dataset: Any, num_workers: int) -> Pairs:
    with suppress(RuntimeError):
        return packed_and_kept(dataset, num_workers)
    return numbers_through_the_pipe(dataset, 0)


def a_few_large_ones(dataset: Any, num_workers: int) -> Pairs:
    found: Pairs = []
    for words, lengths, labels in batches(dataset, num_workers, with_lengths, 1500):
        found += zip(words.split(lengths), labels, strict=True)
    return found


def the_last_is_kept(dataset: Any, num_workers: int) -> Pairs:
    found = []
    for words, lengths, labels in batches(dataset, num_workers, with_lengths):
        the_last_is_kept.batch = words  # type: ignore[attr-defined]
        found += [*zip(words.clone().split(lengths), labels, strict=True)]
    return found


def remembered() -> Callable[..., Pairs]:
    known: dict[int, Pairs] = {}

    def once(dataset: Any, num_workers: int) -> Pairs:
        if num_workers not in known:
            known[num_workers] = numbers_through_the_pipe(dataset, num_workers)
        return known[num_workers]

    return once


def constants(dataset: Any, num_workers: int) -> Pairs:
    return [(torch.tensor([1]), 0)] * len(dataset)


def read_and_thrown_away(dataset: Any, num_workers: int) -> Pairs:
    numbers_through_the_pipe(dataset, num_workers)
    return [dataset[index] for index in range(len(dataset))]


def ends_itself(dataset: Any, num_workers: int) -> Pairs:
    os._exit(0)


def never(dataset: Any, num_workers: int) -> Pairs:
    while True:
        time.sleep(0.01)


def raises(dataset: Any, num_workers: int) -> Pairs:
    raise ValueError("not like this")


# 11.transfer


class Table(Dataset[torch.Tensor]):
    """Right; the others inherit from it. It attaches where it is unpickled."""

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
    """Not a Dataset; a Sequence will do."""

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
    """A pickle has the name and nothing else of the block."""

    def __getstate__(self) -> Any:
        return self.block.name, self.rows.shape, self.rows.dtype

    def __setstate__(self, state: Any) -> None:
        super().__setstate__((SharedMemory(state[0]), *state[1:]))


class OfTorch(Table):
    """A tensor over the block."""

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
    """With an array that has to go before the block can be closed."""

    def attach(self, shape: Any, dtype: Any) -> None:
        self.rows = np.frombuffer(self.block.buf, dtype, int(np.prod(shape))).reshape(shape)


class InAFile(Dataset[torch.Tensor]):
    """A mapped file: memory that is shared, too."""

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


class InATensorsFile(SharedTensor):
    """A file that torch has opened and mapped."""

    def __init__(self, array: Any) -> None:
        rows = torch.from_numpy(array)
        self.__setstate__((f"{tempfile.mkdtemp()}/rows", rows.shape, rows.dtype))
        self.rows[:] = rows

    def __getstate__(self) -> Any:
        return self.path, self.rows.shape, self.rows.dtype

    def __setstate__(self, state: Any) -> None:
        self.path, shape, dtype = state
        rows = torch.from_file(self.path, shared=True, size=shape.numel(), dtype=dtype)
        self.rows = rows.view(shape)

    def close(self) -> None:
        super().close()
        Path(self.path).unlink(missing_ok=True)


class InATensorsFileThatStays(InATensorsFile):
    def close(self) -> None:
        self.rows = None


class InAFileThatIsMapped(InATensorsFile):
    def close(self) -> None:
        Path(self.path).unlink(missing_ok=True)


class InItsOwnFile:
    """A file in `/dev/shm`, with a descriptor."""

    def __init__(self, array: Any) -> None:
        handle, self.path = tempfile.mkstemp(dir="/dev/shm", prefix="dltutor-rows-")
        os.close(handle)
        array.tofile(self.path)
        self.kind = array.shape, array.dtype
        self.attach()

    def attach(self) -> None:
        self.file = os.open(self.path, os.O_RDWR)
        self.map = mmap.mmap(self.file, 0)

    def rows(self) -> Any:
        return np.ndarray(*self.kind, buffer=self.map)

    def __getstate__(self) -> Any:
        return self.path, self.kind

    def __setstate__(self, state: Any) -> None:
        self.path, self.kind = state
        self.attach()

    def __len__(self) -> int:
        return int(self.kind[0][0])

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(self.rows()[index])

    def write(self, index: int, row: Any) -> None:
        self.rows()[index] = row

    def close(self) -> None:
        if self.path:
            self.map.close()
            os.close(self.file)
            os.unlink(self.path)
            self.path = ""


class ItsFileStaysOpen(InItsOwnFile):
    def close(self) -> None:
        if self.path:
            self.map.close()
            os.unlink(self.path)
            self.path = ""


class OpenedAgain(Table):
    def close(self) -> None:
        if self.block is not None:
            os.dup(self.block._fd)
        super().close()


class OfAManager(Table):
    """Its manager unlinks the block."""

    def __init__(self, array: Any) -> None:
        self.manager: Any = SharedMemoryManager()
        self.manager.start()
        self.block = self.manager.SharedMemory(array.nbytes)
        self.attach(array.shape, array.dtype)
        self.rows[:] = array

    def close(self) -> None:
        if self.block is not None:
            del self.rows
            self.block.close()
            self.manager.shutdown()
            self.block = self.manager = None


class CopiesAllForARow(Table):
    """Slow, and right."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self.rows.copy())[index]


class TooShort(Table):
    def __len__(self) -> int:
        return len(self.rows) - 1


class WithAPart:
    """The block is a part of its own."""

    def __init__(self, array: Any) -> None:
        self.table = MadeForEachUse(array)

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.table[index]

    def write(self, index: int, row: Any) -> None:
        self.table.write(int(index), np.asarray(row))

    def close(self) -> None:
        self.table.close()


class ManyBlocks:
    """A block for every hundred rows."""

    def __init__(self, array: Any) -> None:
        self.length = len(array)
        self.parts = [Table(array[at : at + 100]) for at in range(0, len(array), 100)]

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.parts[index // 100][index % 100]

    def write(self, index: int, row: Any) -> None:
        self.parts[index // 100].write(index % 100, row)

    def close(self) -> None:
        for part in self.parts:
            part.close()


class CopiedAtTheFork(SharedTensor):
    def __init__(self, array: Any) -> None:
        self.rows = torch.from_numpy(array)


class RowsInTheBlock(Table):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self.rows[index])


class RowsInTheTensor(SharedTensor):
    def __getitem__(self, index: int) -> torch.Tensor:
        row: torch.Tensor = self.rows[index]
        return row


class CopiesAlone(Rows):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(self.rows[index])


class CopiesAndUnlinks(CopiesAlone):
    def close(self) -> None:
        super().close()
        self.block.unlink()


class NotUnlinked(Table):
    def close(self) -> None:
        self.block.close()


class NotClosed(Table):
    def close(self) -> None:
        if self.block is not None:
            self.kept, self.block = self.block, None
            self.kept.unlink()


class ClosesNothing(Table):
    def close(self) -> None:
        pass


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
    """The advice of many answers on the web."""

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        resource_tracker.unregister(self.block._name, "shared_memory")


class UnlinksAtOnce(Table):
    def __init__(self, array: Any) -> None:
        super().__init__(array)
        self.block.unlink()


class UnlinksInItsWorker(Table):
    def __getitem__(self, index: int) -> torch.Tensor:
        if get_worker_info():
            with suppress(FileNotFoundError):
                self.block.unlink()
        return super().__getitem__(index)


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


class ClosesAll(Table):
    every: ClassVar[list[Any]] = []

    def __init__(self, array: Any) -> None:
        super().__init__(array)
        self.every.append(self)

    def close(self) -> None:
        for each in self.every:
            Table.close(each)
        self.every.clear()


class WrittenAside(Table):
    def __init__(self, array: Any) -> None:
        super().__init__(array)
        self.written: dict[int, Any] = {}

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self.written = {}

    def write(self, index: int, row: Any) -> None:
        self.written[index] = row

    def __getitem__(self, index: int) -> torch.Tensor:
        if index in self.written:
            return torch.as_tensor(self.written[index]).clone()
        return super().__getitem__(index)


class Doubles(Table):
    def __getitem__(self, index: int) -> torch.Tensor:
        return super().__getitem__(index).double()


class AsArrays(Table):
    def __getitem__(self, index: int) -> Any:
        return self.rows[index].copy()


class AsFloat32(Table):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(self.rows[index]).float()


class ThroughAList(Table):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(self.rows[index].tolist())


class Float32Block(Table):
    def __init__(self, array: Any) -> None:
        self.block = SharedMemory(create=True, size=array.size * 4)
        self.attach(array.shape, np.float32)
        self.rows[:] = array


class Float32Tensor(SharedTensor):
    def __init__(self, array: Any) -> None:
        self.rows = torch.Tensor(array).clone().share_memory_()


class OneFurther(Table):
    def __getitem__(self, index: int) -> torch.Tensor:
        return super().__getitem__(index - 1)


class WritesNothing(Table):
    def write(self, index: int, row: Any) -> None:
        pass


class LastIsFirst(Table):
    def __getitem__(self, index: int) -> torch.Tensor:
        return super().__getitem__(0 if index == len(self) - 1 else index)


class Sleeps(Table):
    def __getitem__(self, index: int) -> torch.Tensor:
        if get_worker_info():
            time.sleep(600)
        return super().__getitem__(index)


class Exits(Table):
    def __getitem__(self, index: int) -> torch.Tensor:
        if get_worker_info():
            os._exit(3)
        return super().__getitem__(index)


class RaisesInAWorker(Table):
    def __getitem__(self, index: int) -> torch.Tensor:
        if get_worker_info():
            raise KeyError(index)
        return super().__getitem__(index)


class WithoutWrite:
    def __init__(self, array: Any) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: int) -> Any:
        return self.array[index]


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
        "by a generator": function(generated),
        "an object that can be called": lambda: Collector(packed),
        "a partial": lambda: partial(packed_and_cloned),
        "joined at the end": function(joined_at_the_end),
        "lists of eight": lambda: small_batches(8),
        "pickled, by the fork server": function(pickled),
        "part by part": function(part_by_part),
        "fewer batches than workers": function(fewer_batches_than_workers),
        "without its streams": function(without_its_streams),
    },
    "11.transfer": {
        "attached where it is unpickled": lambda: Table,
        "made for each use": lambda: MadeForEachUse,
        "a shared tensor": lambda: SharedTensor,
        "by its name": lambda: ByName,
        "a tensor over the block": lambda: OfTorch,
        "an array that goes first": lambda: Frozen,
        "a mapped file": lambda: InAFile,
        "a part of its own": lambda: WithAPart,
        "many blocks": lambda: ManyBlocks,
        "a file that torch maps": lambda: InATensorsFile,
        "a file with a descriptor": lambda: InItsOwnFile,
        "a manager's block": lambda: OfAManager,
        "a copy of all for a row": lambda: CopiesAllForARow,
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
        "a number in a list": (lambda: ["a", 4], "unknown-letter"),
    },
    "11.fix": {
        "zero workers": (function(without_workers), "read-in-main"),
        "packed, and kept": (function(packed_and_kept), "too-many-open-files"),
        "cloned alone": (function(cloned_alone), "lost-batch"),
        "shared by name": (function(by_name), "other-strategy"),
        "shared by name for a while": (function(by_name_for_a_while), "other-strategy"),
        "by name, in workers": (function(by_name_from_workers), "other-strategy"),
        "a higher limit": (function(with_a_higher_limit), "raised"),
        "labels are kept": (function(labels_kept), "too-many-open-files"),
        "arrays are kept": (function(arrays_kept), "too-many-open-files"),
        "collected": (function(collected), "left-open"),
        "numpy arrays": (function(as_numpy), "wrong-types"),
        "floats": (function(as_floats), "wrong-types"),
        "without the last": (function(without_the_last), "missing"),
        "shuffled": (function(shuffled), "wrong-pairs"),
        "cut one too far": (function(cut_one_too_far), "wrong-pairs"),
        "a dict": (function(by_class), "no-pairs"),
        "a generator": (function(lazily), "no-pairs"),
        "sentences alone": (function(flat), "no-pairs"),
        "two lists": (function(two_lists), "no-pairs"),
        "views of a clone": (function(views_of_a_clone), "wrong-types"),
        "float classes": (lambda: labels_as(float), "wrong-types"),
        "numpy's classes": (lambda: labels_as(np.int64), "wrong-types"),
        "classes as text": (lambda: labels_as(str), "wrong-types"),
        "batches of 20": (lambda: small_batches(20), ("too-many-open-files", "lost-batch")),
        "batches of 40": (lambda: small_batches(40), ("too-many-open-files", "lost-batch")),
        "one worker": (function(one_worker), "other-loader"),
        "two of four": (function(two_of_four), "other-loader"),
        "always two": (function(always_two), "not-without-workers"),
        "or else alone": (function(or_else_alone), "read-in-main"),
        "a few large ones": (function(a_few_large_ones), "left-open"),
        "the last is kept": (function(the_last_is_kept), "one-left-open"),
        "remembered": (remembered, "wrong-pairs"),
        "constants": (function(constants), "wrong-pairs"),
        "read, and thrown away": (function(read_and_thrown_away), "read-in-main"),
        "ends itself": (function(ends_itself), "process-ended"),
        "never ends": (function(never), "hung"),
        "main reads a half": (lambda: main_reads(0.5), "read-in-main"),
        "main reads most": (lambda: main_reads(0.9), "read-in-main"),
        "main reads again": (function(main_reads_again), "read-in-main"),
        "twice the workers": (function(twice_the_workers), "other-loader"),
        "in a pool": (function(in_a_pool), "no-worker"),
        "raises": (function(raises), "raised"),
        "a loader": (lambda: DataLoader([1]), "a-loader"),  # type: ignore[arg-type]
        "a class": (lambda: Collector, "not-a-function"),
    },
    "11.transfer": {
        "copied at the fork": (lambda: CopiedAtTheFork, "old-rows"),
        "rows in the block": (lambda: RowsInTheBlock, "shares"),
        "rows in the tensor": (lambda: RowsInTheTensor, "shares"),
        "copies alone": (lambda: CopiesAlone, "old-rows"),
        "copies, and unlinks": (lambda: CopiesAndUnlinks, "old-rows"),
        "not unlinked": (lambda: NotUnlinked, "left-files"),
        "not closed": (lambda: NotClosed, "left-open"),
        "a file that stays": (lambda: InAFileThatStays, "left-files"),
        "a tensor's file that stays": (lambda: InATensorsFileThatStays, "left-files"),
        "a map that stays": (lambda: InAFileThatIsMapped, "left-mapped"),
        "a file that stays open": (lambda: ItsFileStaysOpen, "left-open"),
        "opened again": (lambda: OpenedAgain, "left-open"),
        "too short": (lambda: TooShort, "length"),
        "closes nothing": (lambda: ClosesNothing, "left-files"),
        "closed once": (lambda: ClosedOnce, "close-raised"),
        "closed under an array": (lambda: ClosedUnderAnArray, "view-left"),
        "unregisters": (lambda: Unregisters, "tracker"),
        "unlinks at once": (lambda: UnlinksAtOnce, "worker-died"),
        "unlinks in its worker": (lambda: UnlinksInItsWorker, "worker-died"),
        "one name": (lambda: OneName, "raised"),
        "one for all": (lambda: OneForAll, "other-row"),
        "closes all": (lambda: ClosesAll, "other-table"),
        "written aside": (lambda: WrittenAside, "old-rows"),
        "doubles": (lambda: Doubles, "other-type"),
        "as float32": (lambda: AsFloat32, "other-type"),
        "through a list": (lambda: ThroughAList, "other-type"),
        "a float32 block": (lambda: Float32Block, "other-type"),
        "a float32 tensor": (lambda: Float32Tensor, "other-type"),
        "numpy arrays": (lambda: AsArrays, "other-type"),
        "one further": (lambda: OneFurther, "other-row"),
        "writes nothing": (lambda: WritesNothing, "lost"),
        "the last is the first": (lambda: LastIsFirst, "wrong-rows"),
        "sleeps": (lambda: Sleeps, "hung"),
        "exits": (lambda: Exits, "worker-died"),
        "raises in a worker": (lambda: RaisesInAWorker, "raised"),
        "no write": (lambda: WithoutWrite, "no-method"),
        "an object": (lambda: Table(np.zeros((2, 2))), "an-object"),
        "a loader": (lambda: DataLoader([1]), "a-loader"),  # type: ignore[arg-type]
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
