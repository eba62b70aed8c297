"""Define right and wrong answers to the exercises of lesson 13."""

from __future__ import annotations

import gc
import itertools
import pickle
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

from answers import OtherOutcomes, RightAnswers, WrongFixes
from dltutor.failures.data.sentences import as_list
from dltutor.lessons.lesson_13 import fix, transfer

# Answers to "13.fix"


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
    """Make an answer that uses one endless iterator of a loader with these options."""

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


def sixteen_ahead(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    coming = islice(endless(forked(dataset, workers)), steps)
    waiting = deque(islice(coming, 16))
    while waiting:
        batch = waiting.popleft()
        waiting.extend(islice(coming, 1))
        yield apart(batch)


def all_first(dataset: Any, steps: int, workers: int) -> list[Any]:
    return list(usual()(dataset, steps, workers))


def next_of_one_epoch(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    batches = iter(forked(dataset, workers))
    for _ in range(steps):
        yield apart(next(batches))


def cycled(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    return map(apart, islice(itertools.cycle(forked(dataset, workers)), steps))


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
    """An answer that's a class instead of a generator."""

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


class OneIterator:
    """A class with `__next__`, whose loader is freed together with it."""

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


def one_epoch(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    for batch in islice(forked(dataset, workers), steps):
        yield apart(batch)


def never_ends(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    return map(apart, endless(forked(dataset, workers)))


def always_persistent(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    return usual(persistent_workers=True)(dataset, steps, workers)


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


def pickled(samples: list[Any]) -> bytes:
    return pickle.dumps([(words.numpy(), label) for words, label in samples])


def as_bytes(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    for batch in islice(endless(forked(dataset, workers, collate_fn=pickled)), steps):
        samples = pickle.loads(batch)
        yield (
            [torch.from_numpy(words) for words, _ in samples],
            torch.tensor([label for _, label in samples]),
        )


class Whole(Dataset[Any]):
    """A dataset that returns a whole batch for a list of indices."""

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


def a_sample_at_a_time(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    loader = forked(dataset, workers, batch_size=None, collate_fn=None)

    def batches() -> Iterator[Any]:
        while True:
            samples = iter(loader)
            while some := list(islice(samples, 32)):
                yield as_list(some)

    return islice(batches(), steps)


def returns_nothing(dataset: Any, steps: int, workers: int) -> None:
    for _ in usual()(dataset, steps, workers):
        pass


# Answers to "13.transfer"


Measure = Callable[..., Any]


def one_run(loader: Any, workers: int, clock: Any) -> float:
    batches = iter(loader)
    for _ in range(max(1, workers)):
        next(batches)
    began = clock()
    for _ in range(16):
        next(batches)
    return float((clock() - began) / 16)


def by_islice(loader: Any, workers: int, clock: Any) -> float:
    batches = iter(loader)
    deque(islice(batches, workers or 1), maxlen=0)
    began = clock()
    list(islice(batches, 16))
    return float((clock() - began) / 16)


def by_zip(loader: Any, workers: int, clock: Any) -> float:
    batches = iter(loader)
    for _ in zip(range(max(1, workers)), batches, strict=False):
        pass
    began = clock()
    for _ in zip(range(16), batches, strict=False):
        pass
    return float((clock() - began) / 16)


def by_a_count(loader: Any, workers: int, clock: Any) -> float:
    began, first = 0.0, max(1, workers)
    for number, _ in enumerate(loader, start=1):
        if number == first:
            began = clock()
        if number == first + 16:
            return float((clock() - began) / 16)
    raise AssertionError("an epoch is longer")


def added_up(loader: Any, workers: int, clock: Any) -> float:
    batches, seconds = iter(loader), 0.0
    for _ in range(workers or 1):
        next(batches)
    for _ in range(16):
        began = clock()
        next(batches)
        seconds += clock() - began
    return seconds / 16


def zip_the_other_way(loader: Any, workers: int, clock: Any) -> float:
    batches = iter(loader)
    for _ in range(max(1, workers)):
        next(batches)
    began = clock()
    for _ in zip(batches, range(16), strict=False):
        pass
    return float((clock() - began) / 16)


def first_batch_again(loader: Any, workers: int, clock: Any) -> float:
    next(iter(loader))
    began = clock()
    for _ in islice(loader, 16):
        pass
    return float((clock() - began) / 16)


def ended_before_the_clock(loader: Any, workers: int, clock: Any) -> float:
    batches = iter(loader)
    list(islice(batches, max(1, workers)))
    began = clock()
    list(islice(batches, 16))
    del batches
    return float((clock() - began) / 16)


def timing(run: Callable[..., float] = one_run, give: Callable[[Any], Any] = dict) -> Measure:
    """Make a measurement that times each run with `run`, and returns `give(times)`."""

    def my_measurement(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
        measured: dict[int, list[float]] = {n: [] for n in counts}
        for workers in [*counts] * 3:
            measured[workers].append(run(make_loader(workers), workers, clock))
            gc.collect()
        return give(measured)

    return my_measurement


def there_and_back(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    measured: dict[int, list[float]] = {n: [] for n in counts}
    for turn in range(3):
        for workers in counts if turn % 2 == 0 else list(counts)[::-1]:
            measured[workers].append(one_run(make_loader(workers), workers, clock))
    return measured


def loaders_kept(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    loaders = {n: make_loader(n) for n in counts}
    return timing()(loaders.__getitem__, counts, clock)


def by_columns(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    turns = [[one_run(make_loader(n), n, clock) for n in counts] for _ in range(3)]
    return dict(zip(counts, np.array(turns).T, strict=True))


def measure(
    *,
    turns: bool = True,
    runs: int = 3,
    warm: Callable[[int], int] = lambda workers: max(1, workers),
    batches: int = 16,
    late: bool = False,
    keep: bool = False,
    clock_of: Callable[[Any], Any] = lambda clock: clock,
) -> Measure:
    """Make the solution, with a mistake for each argument that isn't the default."""

    def my_measurement(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
        clock = clock_of(clock)
        measured: dict[int, list[float]] = {n: [] for n in counts}
        order = [n for _ in range(runs) for n in counts]
        for workers in order if turns else sorted(order):
            loader = make_loader(workers)
            began = clock()
            coming = iter(loader)
            for _ in range(warm(workers)):
                next(coming)
            if not late:
                began = clock()
            for _ in range(batches):
                next(coming)
            measured[workers].append((clock() - began) / batches)
            if not keep:
                del coming
        return measured

    return my_measurement


def own_counts(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
    return timing()(make_loader, (0, 1, 4), clock)


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


_LIMITS = {"A": "sending", "B": "waiting", "C": "training", "D": "computing"}


RIGHT_ANSWERS: RightAnswers = {
    "13.predict": {"the one that waits": lambda: "a", "in capitals": lambda: "(A)"},
    "13.diagnose": {
        "as in the twin": lambda: _LIMITS,
        "small letters": lambda: {
            job.lower(): f"'{each.upper()}' " for job, each in _LIMITS.items()
        },
    },
    "13.fix": {
        "one endless iterator": lambda: usual(),
        "two nested loops": lambda: nested_loops,
        "a new iterator when one ends": lambda: asks_again,
        "16 batches ahead": lambda: sixteen_ahead,
        "padded, with lengths": lambda: unpadded,
        "arrays, which travel in the message": lambda: arrays,
        "everything in one tensor": lambda: one_tensor,
        "a class with __iter__": lambda: Endless,
        "a class with __next__": lambda: OneIterator,
        "a sampler of all epochs": lambda: one_long_epoch,
        "a sampler of all samples": lambda: all_samples,
        "batches made by the dataset": lambda: whole_batches,
        "bytes": lambda: as_bytes,
        "in_order=False": lambda: usual(in_order=False),
        "larger prefetch": lambda: (
            lambda dataset, steps, workers: usual(prefetch_factor=4 if workers else None)(
                dataset, steps, workers
            )
        ),
    },
    "13.transfer": {
        "a function for a run": lambda: timing(),
        "islice": lambda: timing(by_islice),
        "zip": lambda: timing(by_zip),
        "a count in one loop": lambda: timing(by_a_count),
        "16 times added up": lambda: timing(added_up),
        "there and back": lambda: there_and_back,
        "loaders made once": lambda: loaders_kept,
        "columns of an array": lambda: by_columns,
        "one loop": lambda: measure(),
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
        "A and D are swapped": (
            lambda: _LIMITS | {"A": "computing", "D": "sending"},
            "wrong-A",
        ),
        "B and C are swapped": (lambda: _LIMITS | {"B": "training", "C": "waiting"}, "wrong-B"),
        "C waits": (lambda: _LIMITS | {"C": "waiting"}, "wrong-C"),
        "D sends": (lambda: _LIMITS | {"D": "sending"}, "wrong-D"),
        "no such limit": (lambda: _LIMITS | {"B": "disk"}, "no-word"),
        "a list": (lambda: ["sending", "waiting"], "other-keys"),
    },
    "13.fix": {
        "persistent, and an epoch for each step": (
            lambda: persistent_only,
            "repeated-review",
        ),
        "all batches first": (lambda: all_first, "loaded-first"),
        "itertools.cycle": (lambda: cycled, "same-order"),
        "one iterator, and lists": (
            lambda: (
                lambda dataset, steps, workers: islice(
                    endless(forked(dataset, workers, collate_fn=as_list)), steps
                )
            ),
            "many-tensors",
        ),
        "workers not kept": (lambda: usual(persistent_workers=False), "too-many-started"),
        "next(), and one epoch": (lambda: next_of_one_epoch, "too-few-batches"),
        "a loop, and one epoch": (lambda: one_epoch, "too-few-batches"),
        "never ends": (lambda: never_ends, "too-many-batches"),
        "persistent without workers": (lambda: always_persistent, "raised"),
        "no workers": (lambda: no_workers, "too-few-started"),
        "all samples made in main": (lambda: loaded_in_main, "made-in-main"),
        "a global keeps the loader": (lambda: kept, "left-at-the-end"),
        "a global keeps it until the last step": (
            lambda: kept_until_the_last_step,
            "left-when-broken-off",
        ),
        "taken apart in the worker": (lambda: split_in_the_worker, "many-tensors"),
        "padding left in": (lambda: padding_kept, "unknown-review"),
        "the last batch dropped": (lambda: usual(drop_last=True), "repeated-review"),
        "labels in another order": (lambda: labels_sorted, "wrong-label"),
        "labels as a list": (lambda: labels_as_list, "other-labels"),
        "words as floats": (lambda: usual(collate_fn=as_floats), "other-review"),
        "left packed": (lambda: still_packed, "not-a-pair"),
        "not shuffled": (lambda: usual(shuffle=False), "not-shuffled"),
        "batches of 64": (lambda: usual(batch_size=64), "other-size"),
        "batches of 8": (lambda: usual(batch_size=8), "small-batches"),
        "a sample at a time": (lambda: a_sample_at_a_time, "many-tensors"),
        "returns nothing": (lambda: returns_nothing, "raised"),
    },
    "13.transfer": {
        "one number after the other": (lambda: measure(turns=False), "not-in-turns"),
        "start-up in the time": (lambda: measure(late=True), "other-seconds"),
        "the first batch only": (lambda: measure(warm=lambda workers: 1), "other-batches"),
        "no batch to begin with": (lambda: measure(warm=lambda workers: 0), "other-batches"),
        "17 batches": (lambda: measure(batches=17), "other-batches"),
        "two runs": (lambda: measure(runs=2), "other-number-of-runs"),
        "the iterator kept": (lambda: measure(keep=True), "crowded"),
        "another clock": (
            lambda: measure(clock_of=lambda clock: time.perf_counter),
            "never-read-the-clock",
        ),
        "zip takes one more": (lambda: timing(zip_the_other_way), "other-batches"),
        "another epoch for the first batch": (lambda: timing(first_batch_again), "other-epochs"),
        "the workers end before the clock is read": (
            lambda: timing(ended_before_the_clock),
            "other-seconds",
        ),
        "the median": (
            lambda: timing(
                give=lambda found: {n: statistics.median(runs) for n, runs in found.items()}
            ),
            "other-result",
        ),
        "batches per second": (
            lambda: timing(
                give=lambda found: {n: [1 / each for each in runs] for n, runs in found.items()}
            ),
            "other-seconds",
        ),
        "rounded": (
            lambda: timing(
                give=lambda found: {n: [round(x, 3) for x in runs] for n, runs in found.items()}
            ),
            "other-seconds",
        ),
        "counts of its own": (lambda: own_counts, "other-counts"),
        "one epoch for three runs": (lambda: one_epoch_for_three, "other-epochs"),
    },
}

OTHER_OUTCOMES: OtherOutcomes = {
    "13.fix": {
        "the starter": (lambda: fix.starter, "Not attempted", "starter-function"),
    },
    "13.transfer": {
        "the starter": (lambda: transfer.starter, "Not attempted", "starter-function"),
        "what it returns": (lambda: {0: [0.1]}, "Error in your code", "not-a-function"),
    },
    "13.diagnose": {
        "dots": (lambda: dict.fromkeys("ABCD", ...), "Not attempted", "dots"),
    },
}
