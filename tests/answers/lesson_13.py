"""The usual wrong answers to the exercises of lesson 13."""

from __future__ import annotations

import atexit
import gc
import itertools
import os
import pickle
import random
import statistics
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from itertools import islice
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

from answers import OtherOutcomes, RightAnswers, WrongFixes
from dltutor.failures.data.sentences import as_list
from dltutor.lessons.lesson_13 import fix, transfer

# 13.fix


def packed(samples: list[Any]) -> tuple[torch.Tensor, ...]:
    words = [words for words, _ in samples]
    labels = torch.tensor([label for _, label in samples])
    return torch.cat(words), torch.tensor([len(each) for each in words]), labels


def apart(batch: Any) -> tuple[Any, Any]:
    words, lengths, labels = batch
    return list(words.split(lengths.tolist())), labels


def forked(dataset: Any, workers: int, **options: Any) -> DataLoader[Any]:
    given: dict[str, Any] = {
        "batch_size": 32,
        "shuffle": True,
        "collate_fn": packed,
        "persistent_workers": workers > 0,
        "multiprocessing_context": "fork" if workers else None,
    }
    given |= options
    return DataLoader(dataset, num_workers=workers, **given)


def endless(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


def usual(**options: Any) -> Callable[..., Any]:
    """One endless iterator of a loader with these options."""

    def my_batches(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
        for batch in islice(endless(forked(dataset, workers, **options)), steps):
            yield apart(batch)

    return my_batches


def nested_loops(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    loader = forked(dataset, workers)
    done = 0
    while True:
        for batch in loader:
            if done == steps:
                return
            done += 1
            yield apart(batch)


def ahead(count: int, *, beyond: bool = False) -> Callable[..., Any]:
    """Reads so many batches ahead of the loop, and some that nobody asked for."""

    def my_batches(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
        batches = endless(forked(dataset, workers))
        coming = batches if beyond else islice(batches, steps)
        waiting = deque(islice(coming, count))
        for _ in range(steps):
            batch = waiting.popleft()
            waiting.extend(islice(coming, 1))
            yield apart(batch)

    return my_batches


def eager(dataset: Any, steps: int, workers: int) -> list[Any]:
    return list(usual()(dataset, steps, workers))


def asks_again(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    loader = forked(dataset, workers)
    batches = iter(loader)
    for _ in range(steps):
        try:
            batch = next(batches)
        except StopIteration:
            batches = iter(loader)
            batch = next(batches)
        yield apart(batch)


def padded(samples: list[Any]) -> tuple[torch.Tensor, ...]:
    words, labels = as_list(samples)
    return pad_sequence(words, batch_first=True), torch.tensor([len(w) for w in words]), labels


def unpadded(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    loader = forked(dataset, workers, collate_fn=padded)
    for rows, lengths, labels in islice(endless(loader), steps):
        yield [row[:length] for row, length in zip(rows, lengths, strict=True)], labels


def as_arrays(samples: list[Any]) -> tuple[list[Any], torch.Tensor]:
    words, labels = as_list(samples)
    return [each.numpy() for each in words], labels


def arrays(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    loader = forked(dataset, workers, collate_fn=as_arrays)
    for words, labels in islice(endless(loader), steps):
        yield [torch.from_numpy(each) for each in words], labels


def in_one(samples: list[Any]) -> torch.Tensor:
    words, lengths, labels = packed(samples)
    return torch.cat([torch.tensor([len(lengths)]), lengths, labels, words])


def one_tensor(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    for batch in islice(endless(forked(dataset, workers, collate_fn=in_one)), steps):
        count = int(batch[0])
        lengths, labels, words = batch[1:].tensor_split([count, 2 * count])
        yield words.split(lengths.tolist()), labels


class Endless:
    """A class in place of a generator."""

    def __init__(self, dataset: Any, steps: int, workers: int) -> None:
        self.loader = forked(dataset, workers)
        self.steps = steps

    def __iter__(self) -> Iterator[Any]:
        for batch in islice(endless(self.loader), self.steps):
            yield apart(batch)

    def __len__(self) -> int:
        return self.steps


class AllEpochs:
    """A sampler of all epochs, one after the other."""

    def __init__(self, dataset: Any, steps: int) -> None:
        self.batches = BatchSampler(RandomSampler(dataset), 32, drop_last=False)
        self.steps = steps

    def __iter__(self) -> Iterator[Any]:
        return islice(endless(self.batches), self.steps)

    def __len__(self) -> int:
        return self.steps


def one_long_epoch(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_sampler=AllEpochs(dataset, steps),  # type: ignore[arg-type]
        num_workers=workers,
        collate_fn=packed,
        multiprocessing_context="fork" if workers else None,
    )
    return map(apart, loader)


def all_samples(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    sampler = RandomSampler(dataset, num_samples=32 * steps)
    return map(apart, forked(dataset, workers, sampler=sampler, shuffle=None))


def all_at_once(dataset: Any, steps: int, workers: int) -> list[Any]:
    return [*usual()(dataset, min(steps, 20), workers)]


class OneIterator:
    """`__next__`, and what it holds goes with it."""

    def __init__(self, dataset: Any, steps: int, workers: int) -> None:
        self.batches = islice(endless(forked(dataset, workers)), steps)

    def __iter__(self) -> OneIterator:
        return self

    def __next__(self) -> Any:
        return apart(next(self.batches))


def persistent_only(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    loader = forked(dataset, workers, collate_fn=as_list)
    for _ in range(steps):
        yield next(iter(loader))


def new_loader_for_an_epoch(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    done = 0
    while True:
        for batch in forked(dataset, workers, persistent_workers=False):
            if done == steps:
                return
            done += 1
            yield apart(batch)


def one_epoch(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    for batch in islice(forked(dataset, workers), steps):
        yield apart(batch)


def never_ends(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    return map(apart, endless(forked(dataset, workers)))


def one_too_many(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    return usual()(dataset, steps + 1, workers)


def always_persistent(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    return usual(persistent_workers=True)(dataset, steps, workers)


def always_two(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    return usual()(dataset, steps, 2)


def no_workers(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    return usual()(dataset, steps, 0)


def loaded_in_main(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    samples = [dataset[index] for index in range(len(dataset))]
    return usual()(samples, steps, workers)


KEPT: list[Any] = []


def kept(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    KEPT.append(loader := forked(dataset, workers))
    for batch in islice(endless(loader), steps):
        yield apart(batch)


def kept_until_the_last_step(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    yield from kept(dataset, steps, workers)
    KEPT.clear()


def views(samples: list[Any]) -> tuple[Any, torch.Tensor]:
    words, lengths, labels = packed(samples)
    return words.split(lengths.tolist()), labels


def split_in_the_worker(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    return islice(endless(forked(dataset, workers, collate_fn=views)), steps)


def padding_kept(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    loader = forked(dataset, workers, collate_fn=padded)
    for rows, _, labels in islice(endless(loader), steps):
        yield list(rows), labels


def zeros_cut(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    for words, labels in unpadded(dataset, steps, workers):
        yield [each[each > 100] for each in words], labels


def empty_dropped(samples: list[Any]) -> tuple[torch.Tensor, ...]:
    return packed([(words, label) for words, label in samples if len(words)])


def labels_sorted(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    for words, labels in usual()(dataset, steps, workers):
        yield words, labels.sort().values


def labels_as_list(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    for words, labels in usual()(dataset, steps, workers):
        yield words, labels.tolist()


def as_floats(samples: list[Any]) -> tuple[torch.Tensor, ...]:
    words, lengths, labels = packed(samples)
    return words.float(), lengths, labels


def still_packed(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    return islice(endless(forked(dataset, workers)), steps)


def seeded_each_epoch(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    loader = forked(dataset, workers)

    def epochs() -> Iterator[Any]:
        while True:
            torch.manual_seed(0)
            yield from loader

    return map(apart, islice(epochs(), steps))


def same_batch(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    batch = next(iter(forked(dataset, workers, persistent_workers=False)))
    for _ in range(steps):
        yield apart(batch)


def recycled(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    batches = list(forked(dataset, workers, persistent_workers=False))
    return map(apart, islice(itertools.cycle(batches), steps))


def pickled(samples: list[Any]) -> bytes:
    return pickle.dumps([(words.numpy(), label) for words, label in samples])


def as_bytes(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    for batch in islice(endless(forked(dataset, workers, collate_fn=pickled)), steps):
        samples = pickle.loads(batch)
        yield (
            [torch.from_numpy(words) for words, _ in samples],
            torch.tensor([label for _, label in samples]),
        )


def short(samples: list[Any]) -> tuple[torch.Tensor, ...]:
    words, lengths, labels = packed(samples)
    return words.to(torch.int16), lengths, labels


def short_on_the_way(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    loader = forked(dataset, workers, collate_fn=short)
    for words, lengths, labels in islice(endless(loader), steps):
        yield words.long().split(lengths.tolist()), labels


class Whole(Dataset[Any]):
    """Makes whole batches."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __getitem__(self, numbers: list[int]) -> Any:
        return packed([self.dataset[number] for number in numbers])


def whole_batches(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    loader = forked(
        Whole(dataset),
        workers,
        batch_size=None,
        shuffle=None,
        sampler=BatchSampler(RandomSampler(dataset), 32, drop_last=False),
        collate_fn=None,
    )
    return map(apart, islice(endless(loader), steps))


READ_BY_THE_POOL: list[Any] = []


def made_by_the_pool(numbers: list[int]) -> Any:
    return packed([READ_BY_THE_POOL[-1][number] for number in numbers])


def pool(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    if not workers:
        yield from usual()(dataset, steps, 0)
        return
    READ_BY_THE_POOL.append(dataset)
    with get_context("fork").Pool(workers) as processes:
        for batch in processes.imap(made_by_the_pool, AllEpochs(dataset, steps)):
            yield apart(batch)


def shut_down_at_last(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    loader = forked(dataset, workers)
    try:
        yield from map(apart, islice(endless(loader), steps))
    finally:
        if loader._iterator is not None:
            loader._iterator._shutdown_workers()  # type: ignore[attr-defined]


def looked_at(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    dataset[0]
    return usual()(dataset, steps, workers)


def a_sample_at_a_time(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    loader = forked(dataset, workers, batch_size=None, collate_fn=None)

    def batches() -> Iterator[Any]:
        while True:
            samples = iter(loader)
            while some := list(islice(samples, 32)):
                yield as_list(some)

    return islice(batches(), steps)


def two_halves(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    loader = forked(dataset, workers, batch_size=16)

    def batches() -> Iterator[Any]:
        while True:
            halves = map(apart, loader)
            while some := list(islice(halves, 2)):
                yield [each for words, _ in some for each in words], torch.cat([b for _, b in some])

    return islice(batches(), steps)


def changed(change: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The solution, with each batch changed at the end."""

    def my_batches(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
        for words, labels in usual()(dataset, steps, workers):
            yield change(words, labels)

    return my_batches


def left_short(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    return map(apart, islice(endless(forked(dataset, workers, collate_fn=short)), steps))


def first_batch_in_main(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    batches = usual()(dataset, steps, workers)
    reviews = [words.tolist() for words in dataset.reviews]
    first, _ = next(batches)
    yield as_list([dataset[reviews.index(words.tolist())] for words in first])
    yield from batches


def in_the_order(order: Callable[[int, int], list[int]]) -> Callable[..., Any]:
    """The solution, in an order made of the number of the epoch and the length."""

    class Order:
        def __init__(self, length: int) -> None:
            self.length, self.epoch = length, 0

        def __len__(self) -> int:
            return self.length

        def __iter__(self) -> Iterator[int]:
            self.epoch += 1
            return iter(order(self.epoch, self.length))

    return lambda dataset, steps, workers: usual(sampler=Order(len(dataset)), shuffle=None)(
        dataset, steps, workers
    )


def in_blocks(epoch: int, length: int) -> list[int]:
    blocks = [range(at, min(at + 8, length)) for at in range(0, length, 8)]
    return list(itertools.chain(*random.sample(blocks, len(blocks))))


def kept_and_shuffled(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    batches = list(forked(dataset, workers, persistent_workers=False))

    def epochs() -> Iterator[Any]:
        while True:
            random.shuffle(batches)
            yield from batches

    return map(apart, islice(epochs(), steps))


def numbers_sent(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    for numbers in islice(
        endless(forked(range(len(dataset)), workers, collate_fn=list)),
        steps,
    ):
        words = [torch.from_numpy(dataset.reviews[number]) for number in numbers]
        yield words, torch.tensor([dataset.labels[number] for number in numbers])


def one_buffer(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    buffer = torch.empty(32 * 40, dtype=torch.int64)
    for words, lengths, labels in islice(endless(forked(dataset, workers)), steps):
        buffer[: len(words)] = words
        yield buffer[: len(words)].split(lengths.tolist()), labels


def raises(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    return [][0]  # type: ignore[no-any-return]


def leaves(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    yield from islice(usual()(dataset, steps, workers), 1)
    os._exit(3)


def waits_for_ever(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    yield from islice(usual()(dataset, steps, workers), 1)
    while True:
        with suppress(BaseException):
            time.sleep(60)


def returns_nothing(dataset: Any, steps: int, workers: int) -> None:
    for _ in usual()(dataset, steps, workers):
        pass


def stopped_at_exit(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    loader = forked(dataset, workers)
    atexit.register(lambda: loader)
    for batch in islice(endless(loader), steps):
        yield apart(batch)


# 13.transfer


Measure = Callable[..., Any]


def with_islice(make_loader: Any, counts: Iterable[int], clock: Any = time.perf_counter) -> Any:
    measured: dict[int, list[float]] = {}
    for _ in range(3):
        for workers in counts:
            batches = iter(make_loader(workers))
            list(islice(batches, workers or 1))
            began = clock()
            list(islice(batches, 16))
            measured.setdefault(workers, []).append((clock() - began) / 16)
            batches = None
    return measured


def one_run(make_loader: Any, workers: int, clock: Any) -> float:
    batches = iter(make_loader(workers))
    for _ in range(max(1, workers)):
        next(batches)
    began = clock()
    for _ in range(16):
        next(batches)
    return float((clock() - began) / 16)


def collecting(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    measured: dict[int, list[float]] = {}
    for _ in range(3):
        for workers in counts:
            batches = iter(make_loader(workers))
            deque(islice(batches, max(workers, 1)), maxlen=0)
            began = clock()
            deque(islice(batches, 16), maxlen=0)
            measured.setdefault(workers, []).append((clock() - began) / 16)
            del batches
            gc.collect()
    return measured


def with_a_function(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    turns = [{n: one_run(make_loader, n, clock) for n in counts} for _ in range(3)]
    return {n: [turn[n] for turn in turns] for n in counts}


def as_tuples(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    found = with_a_function(make_loader, counts, clock)
    return {n: tuple(np.float64(each) for each in runs) for n, runs in found.items()}


def with_a_count(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    measured: dict[int, list[float]] = {n: [] for n in counts}
    for _ in range(3):
        for workers in counts:
            first = max(1, workers)
            for number, _batch in enumerate(make_loader(workers), start=1):
                if number == first:
                    began = clock()
                if number == first + 16:
                    measured[workers].append((clock() - began) / 16)
                    break
    return measured


def there_and_back(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    measured: dict[int, list[float]] = {n: [] for n in counts}
    for turn in range(3):
        for workers in counts if turn % 2 == 0 else list(counts)[::-1]:
            measured[workers].append(one_run(make_loader, workers, clock))
    return measured


def loaders_kept(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    loaders = {n: make_loader(n) for n in counts}
    return with_a_function(loaders.__getitem__, counts, clock)


def shut_down(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    measured: dict[int, list[float]] = {n: [] for n in counts}
    for _ in range(3):
        for workers in counts:
            batches = iter(make_loader(workers))
            for _ in range(max(1, workers)):
                next(batches)
            began = clock()
            for _ in range(16):
                next(batches)
            measured[workers].append((clock() - began) / 16)
            if hasattr(batches, "_shutdown_workers"):
                batches._shutdown_workers()
    return measured


def with_zip(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    measured: dict[int, list[float]] = {n: [] for n in counts}
    for _ in range(3):
        for workers in counts:
            batches = iter(make_loader(workers))
            for _ in zip(range(max(1, workers)), batches, strict=False):
                pass
            began = clock()
            for _ in zip(range(16), batches, strict=False):
                pass
            measured[workers] += [(clock() - began) / 16]
            del batches
    return measured


def measure(
    *,
    turns: bool = True,
    runs: int = 3,
    warm: Callable[[int], int] = lambda workers: max(1, workers),
    batches: int = 16,
    divide: float = 16,
    late: bool = False,
    keep: bool = False,
    more: int = 0,
    clock_of: Callable[[Any], Any] = lambda clock: clock,
) -> Measure:
    """The solution with one slip."""

    def my_measurement(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
        clock = clock_of(clock)
        measured: dict[int, list[float]] = {n: [] for n in counts}
        order = [n for _ in range(runs) for n in counts]
        for workers in order if turns else sorted(order):
            loader = make_loader(workers)
            began = clock()
            new = iter(loader)
            if not keep:
                held = None
            for _ in range(warm(workers)):
                next(new)
            if not late:
                began = clock()
            for _ in range(batches):
                next(new)
            measured[workers].append((clock() - began) / divide)
            for _ in range(more):
                next(new)
            held = new
            del new
            if not keep:
                del held
        return measured

    return my_measurement


def iterator_left(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    measured: dict[int, list[float]] = {n: [] for n in counts}
    for _ in range(3):
        for workers in counts:
            batches = iter(make_loader(workers))
            for _ in range(max(1, workers)):
                next(batches)
            began = clock()
            for _ in range(16):
                next(batches)
            measured[workers].append((clock() - began) / 16)
    return measured


def zipped_the_other_way(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    measured: dict[int, list[float]] = {n: [] for n in counts}
    for _ in range(3):
        for workers in counts:
            batches = iter(make_loader(workers))
            for _ in range(max(1, workers)):
                next(batches)
            began = clock()
            for _ in zip(batches, range(16), strict=False):
                pass
            measured[workers].append((clock() - began) / 16)
            del batches
    return measured


def first_batch_again(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    measured: dict[int, list[float]] = {n: [] for n in counts}
    for _ in range(3):
        for workers in counts:
            loader = make_loader(workers)
            next(iter(loader))
            began = clock()
            for _ in islice(loader, 16):
                pass
            measured[workers].append((clock() - began) / 16)
    return measured


def medians(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    found = with_a_function(make_loader, counts, clock)
    return {n: statistics.median(runs) for n, runs in found.items()}


def a_list(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    return list(with_a_function(make_loader, counts, clock).values())


def thrice_the_same(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    return {n: [one_run(make_loader, n, clock)] * 3 for n in counts}


def per_second(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    found = with_a_function(make_loader, counts, clock)
    return {n: [1 / each for each in runs] for n, runs in found.items()}


def only_some(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    return with_a_function(make_loader, [n for n in counts if n], clock)


def made_up(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    return {n: [0.02, 0.02, 0.02] for n in counts}


def prints(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> None:
    print(with_a_function(make_loader, counts, clock))


def own_counts(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    return with_a_function(make_loader, (0, 1, 4), clock)


def ends_its_process(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    os._exit(1)


def endless_run(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    began = clock()
    while clock() - began < 60:
        pass


def put_in_order(finish: Callable[[Any], Any], give: Callable[[Any], Any] = dict) -> Measure:
    """The solution, with something done to each iterator, and to what is returned."""

    def my_measurement(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
        measured: dict[int, list[float]] = {n: [] for n in counts}
        for workers in [*counts] * 3:
            batches = iter(make_loader(workers))
            for _ in range(max(1, workers)):
                next(batches)
            began = clock()
            for _ in range(16):
                next(batches)
            measured[workers].append((clock() - began) / 16)
            finish(batches)
            if workers:
                del batches
        return give(measured)

    return my_measurement


def returning(give: Callable[[dict[int, list[float]]], Any]) -> Measure:
    return put_in_order(lambda batches: None, give)


def by_columns(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    turns = np.array([[one_run(make_loader, n, clock) for n in counts] for _ in range(3)])
    return dict(zip(counts, turns.T, strict=True))


def in_any_order(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    measured = defaultdict(list)
    for _ in range(3):
        for workers in random.sample([*counts], len(counts)):
            measured[workers].append(one_run(make_loader, workers, clock))
    return measured


def added_up(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    measured: dict[int, list[float]] = {n: [] for n in counts}
    for workers in [*counts] * 3:
        batches = iter(make_loader(workers))
        for _ in range(workers or 1):
            next(batches)
        seconds = 0.0
        for _ in range(16):
            began = clock()
            next(batches)
            seconds += clock() - began
        measured[workers].append(seconds / 16)
        del batches
    return measured


def stamps(batches: Any, workers: int, clock: Any) -> Iterator[float]:
    for number, _ in enumerate(batches, start=1):
        if number in (first := max(1, workers), first + 16):
            yield clock()


def by_stamps(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    measured: dict[int, list[float]] = {n: [] for n in counts}
    for workers in [*counts] * 3:
        times = stamps(make_loader(workers), workers, clock)
        measured[workers].append(-(next(times) - next(times)) / 16)
        times.close()
    return measured


def ended_before_the_clock(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    measured: dict[int, list[float]] = {n: [] for n in counts}
    for workers in [*counts] * 3:
        batches = iter(make_loader(workers))
        list(islice(batches, max(1, workers)))
        began = clock()
        list(islice(batches, 16))
        del batches
        measured[workers].append((clock() - began) / 16)
    return measured


def sorts_what_it_was_given(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    counts.sort()
    return with_a_function(make_loader, counts, clock)


def one_epoch_for_three(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    measured: dict[int, list[float]] = {n: [] for n in counts}
    for workers in counts:
        batches = iter(make_loader(workers))
        list(islice(batches, max(1, workers)))
        for _ in range(3):
            began = clock()
            list(islice(batches, 16))
            measured[workers].append((clock() - began) / 16)
    return measured


def closing_each(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    for workers in counts:
        with closing(iter(make_loader(workers))):
            pass
    return {}


RIGHT_ANSWERS: RightAnswers = {
    "13.predict": {"the one that waits": lambda: "a", "in capitals": lambda: "(A)"},
    "13.diagnose": {
        "as in the twin": lambda: {
            "A": "sending",
            "B": "waiting",
            "C": "training",
            "D": "computing",
        },
        "small letters": lambda: {
            "a": "Sending",
            "b": "'waiting'",
            "c": "training ",
            "d": "computing.",
        },
    },
    "13.fix": {
        "one endless iterator": lambda: usual(),
        "two nested loops": lambda: nested_loops,
        "a new iterator when one ends": lambda: asks_again,
        "16 batches ahead": lambda: ahead(16),
        "64 batches ahead": lambda: ahead(64),
        "64 batches ahead, more than are asked for": lambda: ahead(64, beyond=True),
        "all batches first": lambda: eager,
        "padded, with lengths": lambda: unpadded,
        "arrays, which travel in the message": lambda: arrays,
        "everything in one tensor": lambda: one_tensor,
        "a class with __iter__": lambda: Endless,
        "a class with __next__": lambda: OneIterator,
        "a sampler of all epochs": lambda: one_long_epoch,
        "a sampler of all samples": lambda: all_samples,
        "batches made by the dataset": lambda: whole_batches,
        "a pool": lambda: pool,
        "bytes": lambda: as_bytes,
        "shorter numbers on the way": lambda: short_on_the_way,
        "in_order=False": lambda: usual(in_order=False),
        "shut down by hand": lambda: shut_down_at_last,
        "one sample looked at first": lambda: looked_at,
        "larger prefetch": lambda: (
            lambda dataset, steps, workers: usual(prefetch_factor=4 if workers else None)(
                dataset, steps, workers
            )
        ),
    },
    "13.transfer": {
        "a function for a run": lambda: with_a_function,
        "islice": lambda: with_islice,
        "garbage collected after each run": lambda: collecting,
        "tuples of numpy's numbers": lambda: as_tuples,
        "a count in one loop": lambda: with_a_count,
        "there and back": lambda: there_and_back,
        "loaders made once": lambda: loaders_kept,
        "workers shut down by hand": lambda: shut_down,
        "zip": lambda: with_zip,
        "the solution": lambda: measure(),
        "shut down where there are workers": lambda: put_in_order(
            lambda batches: getattr(batches, "_shutdown_workers", int)()
        ),
        "columns of an array": lambda: by_columns,
        "in any order in each turn": lambda: in_any_order,
        "16 times added up": lambda: added_up,
        "a generator of times": lambda: by_stamps,
        "tensors": lambda: returning(lambda found: {n: torch.tensor(s) for n, s in found.items()}),
    },
}

WRONG_FIXES: WrongFixes = {
    "13.predict": {
        "the photos": (lambda: "b", "b"),
        "the rows": (lambda: "c", "c"),
        "all": (lambda: "d", "d"),
        "a number": (lambda: 8, "no-option"),
    },
    "13.diagnose": {
        "A computes": (
            lambda: {"A": "computing", "B": "waiting", "C": "training", "D": "sending"},
            "wrong-A",
        ),
        "C waits": (
            lambda: {"A": "sending", "B": "training", "C": "waiting", "D": "computing"},
            "wrong-B",
        ),
        "only C waits": (
            lambda: {"A": "sending", "B": "waiting", "C": "waiting", "D": "computing"},
            "wrong-C",
        ),
        "D sends": (
            lambda: {"A": "sending", "B": "waiting", "C": "training", "D": "sending"},
            "wrong-D",
        ),
        "one is missing": (lambda: {"A": "sending"}, "other-keys"),
        "no such limit": (
            lambda: {"A": "sending", "B": "disk", "C": "training", "D": "computing"},
            "no-limit",
        ),
        "a list": (lambda: ["sending", "waiting"], "other-keys"),
    },
    "13.fix": {
        "the starter, called by another": (
            lambda: lambda dataset, steps, workers: fix.starter(dataset, steps, workers),
            "repeated-review",
        ),
        "persistent, and an epoch for each step": (
            lambda: persistent_only,
            "repeated-review",
        ),
        "one iterator, and lists": (
            lambda: (
                lambda dataset, steps, workers: islice(
                    endless(forked(dataset, workers, collate_fn=as_list)), steps
                )
            ),
            "many-tensors",
        ),
        "a new loader for each epoch": (lambda: new_loader_for_an_epoch, "too-many-started"),
        "workers not kept": (lambda: usual(persistent_workers=False), "too-many-started"),
        "one epoch": (lambda: one_epoch, "too-few-batches"),
        "never ends": (lambda: never_ends, "too-many-batches"),
        "one batch too many": (lambda: one_too_many, "too-many-batches"),
        "persistent without workers": (lambda: always_persistent, "raised"),
        "always two workers": (lambda: always_two, "too-many-started"),
        "no workers": (lambda: no_workers, "too-few-started"),
        "all samples made in main": (lambda: loaded_in_main, "made-in-main"),
        "a global keeps the loader": (lambda: kept, "left-at-the-end"),
        "a global keeps it until the last step": (
            lambda: kept_until_the_last_step,
            "left-when-broken-off",
        ),
        "a handler keeps the loader": (lambda: stopped_at_exit, "left-at-the-end"),
        "taken apart in the worker": (lambda: split_in_the_worker, "many-tensors"),
        "padding left in": (lambda: padding_kept, "unknown-review"),
        "small numbers cut off": (lambda: zeros_cut, "unknown-review"),
        "the last batch dropped": (lambda: usual(drop_last=True), "repeated-review"),
        "the empty one dropped": (
            lambda: usual(collate_fn=empty_dropped),
            "repeated-review",
        ),
        "labels in another order": (lambda: labels_sorted, "wrong-label"),
        "labels as a list": (lambda: labels_as_list, "other-labels"),
        "words as floats": (lambda: usual(collate_fn=as_floats), "other-review"),
        "left packed": (lambda: still_packed, "not-a-pair"),
        "not shuffled": (lambda: usual(shuffle=False), "not-shuffled"),
        "one order for all epochs": (
            lambda: in_the_order(
                lambda epoch, length: random.Random(0).sample(range(length), length)
            ),
            "same-order",
        ),
        "the same seed in each epoch": (lambda: seeded_each_epoch, "same-order"),
        "the same batch": (lambda: same_batch, "repeated-review"),
        "one epoch again and again": (lambda: recycled, "not-made"),
        "batches of 64": (lambda: usual(batch_size=64), "other-size"),
        "batches of 1": (lambda: usual(batch_size=1), "small-batches"),
        "batches of 8": (lambda: usual(batch_size=8), "small-batches"),
        "a sample at a time": (lambda: a_sample_at_a_time, "many-tensors"),
        "two messages for a batch": (lambda: two_halves, "many-tensors"),
        "shorter numbers left": (lambda: left_short, "other-review"),
        "labels as floats": (
            lambda: changed(lambda words, labels: (words, labels.float())),
            "other-labels",
        ),
        "labels in a column": (
            lambda: changed(lambda words, labels: (words, labels[:, None])),
            "other-labels",
        ),
        "reviews that come once": (
            lambda: changed(lambda words, labels: (iter(words), labels)),
            "not-a-pair",
        ),
        "a dict": (
            lambda: changed(lambda words, labels: {"reviews": words, "labels": labels}),
            "not-a-pair",
        ),
        "the first batch made in main": (lambda: first_batch_in_main, "made-in-main"),
        "blocks in another order": (lambda: in_the_order(in_blocks), "not-shuffled"),
        "backwards and forwards": (
            lambda: in_the_order(lambda epoch, length: [*range(length)][:: (-1) ** epoch]),
            "not-shuffled",
        ),
        "shuffled in the first epoch only": (
            lambda: in_the_order(
                lambda epoch, length: (
                    random.sample(range(length), length if epoch == 1 else 0) or [*range(length)]
                )
            ),
            "not-shuffled",
        ),
        "two orders by turns": (
            lambda: in_the_order(
                lambda epoch, length: random.Random(epoch % 2).sample(range(length), length)
            ),
            "same-order",
        ),
        "kept batches, shuffled": (lambda: kept_and_shuffled, "not-made"),
        "workers send numbers": (lambda: numbers_sent, "not-made"),
        "one buffer for all": (lambda: one_buffer, "unknown-review"),
        "raises": (lambda: raises, "raised"),
        "ends its process": (lambda: leaves, "process-ended"),
        "waits forever": (lambda: waits_for_ever, "over-the-limit"),
        "returns nothing": (lambda: returns_nothing, "raised"),
        "takes too little": (lambda: lambda dataset: [], "raised"),
    },
    "13.transfer": {
        "the starter, called by another": (
            lambda: lambda make, counts, clock: transfer.starter(make, counts, clock),
            "not-in-turns",
        ),
        "start-up in the time": (
            lambda: measure(late=True),
            "other-seconds",
        ),
        "one number after the other": (lambda: measure(turns=False), "not-in-turns"),
        "the first batch only": (lambda: measure(warm=lambda workers: 1), "other-batches"),
        "no batch to begin with": (lambda: measure(warm=lambda workers: 0), "other-batches"),
        "as many as workers, without them none": (
            lambda: measure(warm=lambda workers: workers),
            "other-batches",
        ),
        "divided by 17": (lambda: measure(divide=17), "other-seconds"),
        "not divided": (lambda: measure(divide=1), "other-seconds"),
        "17 batches": (lambda: measure(batches=17, divide=17), "other-batches"),
        "one batch more": (lambda: measure(more=1), "other-batches"),
        "two runs": (lambda: measure(runs=2), "other-number-of-runs"),
        "five runs": (lambda: measure(runs=5), "other-number-of-runs"),
        "the iterator kept": (lambda: iterator_left, "crowded"),
        "zip takes one more": (lambda: zipped_the_other_way, "other-batches"),
        "another epoch for the first batch": (lambda: first_batch_again, "other-epochs"),
        "another clock": (
            lambda: measure(clock_of=lambda clock: time.perf_counter),
            "never-read-the-clock",
        ),
        "the median": (lambda: medians, "other-result"),
        "a list": (lambda: a_list, "other-result"),
        "one run, three times": (lambda: thrice_the_same, "other-epochs"),
        "batches per second": (lambda: per_second, "other-seconds"),
        "without 0": (lambda: only_some, "other-counts"),
        "made up": (lambda: made_up, "other-epochs"),
        "prints it": (lambda: prints, "other-result"),
        "counts of its own": (lambda: own_counts, "other-counts"),
        "the workers end before the clock is read": (
            lambda: ended_before_the_clock,
            "other-seconds",
        ),
        "shut down without workers": (
            lambda: put_in_order(lambda batches: batches._shutdown_workers()),
            "raised",
        ),
        "sorts what it was given": (lambda: sorts_what_it_was_given, "raised"),
        "one epoch for three runs": (lambda: one_epoch_for_three, "other-epochs"),
        "texts for numbers": (
            lambda: returning(lambda found: {n: [*map(str, s)] for n, s in found.items()}),
            "other-result",
        ),
        "texts for workers": (
            lambda: returning(lambda found: {str(n): s for n, s in found.items()}),
            "other-result",
        ),
        "halves of workers": (
            lambda: returning(lambda found: {n + 0.5: s for n, s in found.items()}),
            "other-result",
        ),
        "sets": (
            lambda: returning(lambda found: {n: set(s) for n, s in found.items()}),
            "other-result",
        ),
        "what comes once": (
            lambda: returning(lambda found: {n: iter(s) for n, s in found.items()}),
            "other-result",
        ),
        "the best of three, three times": (
            lambda: returning(lambda found: {n: [min(s)] * 3 for n, s in found.items()}),
            "other-seconds",
        ),
        "rounded": (
            lambda: returning(
                lambda found: {n: [round(x, 3) for x in s] for n, s in found.items()}
            ),
            "other-seconds",
        ),
        "nothing measured": (lambda: closing_each, "raised"),
        "ends its process": (lambda: ends_its_process, "process-ended"),
        "runs forever": (lambda: endless_run, "not-ready"),
    },
}

OTHER_OUTCOMES: OtherOutcomes = {
    "13.fix": {
        "the starter": (lambda: fix.starter, "Not attempted", "starter-function"),
        "nothing": (lambda: ..., "Not attempted", "no-function"),
        "a loader": (
            lambda: forked([1, 2], 0),
            "Error in your code",
            "not-a-function",
        ),
    },
    "13.transfer": {
        "the starter": (lambda: transfer.starter, "Not attempted", "starter-function"),
        "what it returns": (lambda: {0: [0.1]}, "Error in your code", "not-a-function"),
    },
    "13.diagnose": {
        "dots": (lambda: dict.fromkeys("ABCD", ...), "Not attempted", "dots"),
    },
}
