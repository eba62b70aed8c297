"""Define right and wrong answers to the exercises of lesson 13."""

from __future__ import annotations

import gc
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, RandomSampler

from answers import RightAnswers, WrongFixes
from dltutor.failures.data.sentences import as_list

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


def usual(pair_of: Callable[[Any], Any] = apart, **options: Any) -> Callable[..., Any]:
    """Make an answer that takes all batches from one endless iterator over a loader.

    Args:
        pair_of: A function that takes a batch apart, in main.
        options: Options for the loader, which override the defaults in `forked`.
    """

    def my_batches(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
        for batch in islice(endless(forked(dataset, workers, **options)), steps):
            yield pair_of(batch)

    return my_batches


def as_it_is(batch: Any) -> Any:
    return batch


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


def unpadded(batch: Any) -> Any:
    rows, lengths, labels = batch
    return [row[:length] for row, length in zip(rows, lengths, strict=True)], labels


def with_labels(change: Callable[[torch.Tensor], Any]) -> Callable[..., Any]:
    """Make an answer that passes the labels of each batch through a function."""

    def changed(batch: Any) -> Any:
        words, labels = apart(batch)
        return words, change(labels)

    return usual(changed)


def all_samples(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    sampler = RandomSampler(dataset, num_samples=32 * steps)
    return map(apart, forked(dataset, workers, sampler=sampler, shuffle=None))


def persistent_only(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    loader = forked(dataset, workers, collate_fn=as_list)
    for _ in range(steps):
        yield next(iter(loader))


def never_ends(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    return map(apart, endless(forked(dataset, workers)))


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


def as_floats(samples: list[Any]) -> tuple[torch.Tensor, ...]:
    words, lengths, labels = packed(samples)
    return words.float(), lengths, labels


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


def by_a_count(loader: Any, workers: int, clock: Any) -> float:
    began, first = 0.0, max(1, workers)
    for number, _ in enumerate(loader, start=1):
        if number == first:
            began = clock()
        if number == first + 16:
            return float((clock() - began) / 16)
    raise AssertionError("an epoch is longer")


def first_batch_again(loader: Any, workers: int, clock: Any) -> float:
    next(iter(loader))
    began = clock()
    for _ in islice(loader, 16):
        pass
    return float((clock() - began) / 16)


def with_the_start(loader: Any, workers: int, clock: Any) -> float:
    began = clock()
    one_run(loader, workers, clock)
    return float((clock() - began) / 16)


def with_its_iterator_kept(loader: Any, workers: int, clock: Any) -> float:
    KEPT[:] = [iter(loader)]
    return one_run(KEPT[0], workers, clock)


def timing(
    run: Callable[..., float] = one_run,
    give: Callable[[Any], Any] = dict,
    order: Callable[[Any], Any] = lambda counts: [*counts] * 3,
) -> Measure:
    """Make a measurement that times runs with each number of workers.

    Args:
        run: A function that times one run of a loader, and returns the seconds per batch.
        give: A function that makes the result from a dict. Its keys are the numbers of workers, and
            its values are lists of each run's seconds per batch.
        order: A function that takes the given numbers of workers, and returns the number for each
            run. By default, each number has three runs, alternating with the others.
    """

    def my_measurement(make_loader: Any, counts: Any, clock: Any = time.perf_counter) -> Any:
        measured: dict[int, list[float]] = {}
        for workers in order(counts):
            seconds = run(make_loader(workers), workers, clock)
            measured.setdefault(workers, []).append(seconds)
            gc.collect()
        return give(measured)

    return my_measurement


_LIMITS = {"A": "sending", "B": "waiting", "C": "training", "D": "computing"}


RIGHT_ANSWERS: RightAnswers = {
    "13.diagnose": {"as in the twin": _LIMITS},
    "13.fix": {
        "one endless iterator": usual(),
        "a new iterator when one ends": asks_again,
        "padded, with lengths": usual(unpadded, collate_fn=padded),
        "a sampler of all samples": all_samples,
        "in_order=False": usual(in_order=False),
    },
    "13.transfer": {
        "a function for a run": timing(),
        "a count in one loop": timing(by_a_count),
        "there and back": timing(
            order=lambda counts: [*counts, *reversed(counts), *counts],
        ),
    },
}

WRONG_FIXES: WrongFixes = {
    "13.diagnose": {
        "A and D are swapped": (_LIMITS | {"A": "computing", "D": "sending"}, "wrong-A"),
        "B and C are swapped": (_LIMITS | {"B": "training", "C": "waiting"}, "wrong-B"),
        "C waits": (_LIMITS | {"C": "waiting"}, "wrong-C"),
        "D sends": (_LIMITS | {"D": "sending"}, "wrong-D"),
        "no such limit": (_LIMITS | {"B": "disk"}, "no-word"),
        "a list": (["sending", "waiting"], "other-keys"),
    },
    "13.fix": {
        "persistent, and an epoch for each step": (persistent_only, "repeated-review"),
        "all batches first": (all_first, "loaded-first"),
        "itertools.cycle": (cycled, "same-order"),
        "one iterator, and lists": (usual(as_it_is, collate_fn=as_list), "many-tensors"),
        "workers not kept": (usual(persistent_workers=False), "too-many-started"),
        "next(), and one epoch": (next_of_one_epoch, "too-few-batches"),
        "never ends": (never_ends, "too-many-batches"),
        "persistent without workers": (usual(persistent_workers=True), "raised"),
        "no workers": (no_workers, "too-few-started"),
        "all samples made in main": (loaded_in_main, "made-in-main"),
        "a global keeps the loader": (kept, "left"),
        "a global keeps it until the last step": (kept_until_the_last_step, "left"),
        "padding left in": (
            usual(lambda batch: (list(batch[0]), batch[2]), collate_fn=padded),
            "unknown-review",
        ),
        "labels in another order": (
            with_labels(lambda labels: labels.sort().values),
            "wrong-label",
        ),
        "labels as a list": (with_labels(torch.Tensor.tolist), "other-labels"),
        "words as floats": (usual(collate_fn=as_floats), "other-review"),
        "left packed": (usual(as_it_is), "not-a-pair"),
        "not shuffled": (usual(shuffle=False), "not-shuffled"),
        "batches of 64": (usual(batch_size=64), "other-size"),
        "batches of 8": (usual(batch_size=8), "small-batches"),
    },
    "13.transfer": {
        "one number after the other": (
            timing(order=lambda counts: sorted([*counts] * 3)),
            "not-in-turns",
        ),
        "start-up in the time": (timing(with_the_start), "other-seconds"),
        "the first batch only": (
            timing(lambda loader, workers, clock: one_run(loader, 1, clock)),
            "other-batches",
        ),
        "two runs": (timing(order=lambda counts: [*counts] * 2), "other-number-of-runs"),
        "the iterator kept": (timing(with_its_iterator_kept), "crowded"),
        "another clock": (
            timing(lambda loader, workers, clock: one_run(loader, workers, time.perf_counter)),
            "never-read-the-clock",
        ),
        "another epoch for the first batch": (timing(first_batch_again), "other-epochs"),
        "the median": (
            timing(give=lambda found: {n: statistics.median(runs) for n, runs in found.items()}),
            "other-result",
        ),
        "counts of its own": (timing(order=lambda counts: [0, 1, 4] * 3), "other-counts"),
    },
}
