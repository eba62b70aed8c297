"""Grade a loader whose workers must not fill up, for "10.fix": run on fresh recordings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from torch.utils.data import DataLoader, Dataset, RandomSampler

from dltutor.failures.growing_cache import CachedRecordings
from dltutor.lessons.kit.answers import Unfit, failed_in_loader, same_code, wrong
from dltutor.lessons.kit.outcome import Result, correct, error_in_your_code, not_attempted
from dltutor.lessons.lesson_10.held_memory import counted_collections, held
from dltutor.lessons.lesson_10.leak_names import why_it_grew
from dltutor.lessons.lesson_10.worker_growth import Growth, grown
from dltutor.observation import Observation, observe

PATIENCE: Final = 30  # seconds for all epochs
LIMIT: Final = 24  # MB that a worker may grow by

_RECORDINGS: Final = 64
_LENGTH: Final = 300_000  # 1.2 MB as float32
_EPOCHS: Final = 3


def grade(answer: Any) -> Result:
    """Grade a function that makes the loader.

    Args:
        answer: The learner's function, called with the paths of the recordings.

    Raises:
        Unfit: The answer is wrong or cannot be graded; its result says why.
    """
    if isinstance(answer, (type, DataLoader, Dataset)) or not callable(answer):
        return error_in_your_code(
            "the check takes the function that makes the loader, `my_loader`, without parentheses."
        )
    with _fresh_recordings() as paths, counted_collections() as collections:
        before = held(os.getpid())
        loader = answer(paths)
        taken = held(os.getpid()) - before
        _look_at(loader, answer)
        growth = Growth()
        seen = observe(loader, deadline=PATIENCE, consume=lambda each: growth.run(each, _EPOCHS))
        if seen.end != "finished":
            _say_how_it_ended(seen)
        _every_sample_came(growth.epochs, paths)
        _workers_stayed(loader, growth)
        _nothing_else_grew(taken, growth)
        each = grown(growth.workers)
        if each > LIMIT:
            wrong(why_it_grew(loader.dataset, each, collections(), _RECORDINGS * _EPOCHS))
    return correct(
        f"{_RECORDINGS * _EPOCHS} of {_RECORDINGS * _EPOCHS} samples are right, in {_EPOCHS} "
        f"epochs of two workers that live through all of them, and no worker grew by more than "
        f"{LIMIT} MB. The broken one is past twice that by then, and goes on."
    )


def _look_at(loader: Any, answer: Any) -> None:
    if not isinstance(loader, DataLoader):
        name = getattr(answer, "__name__", "your function")
        kind = type(loader).__name__
        raise Unfit(error_in_your_code(f"`{name}(paths)` returns a {kind}, not a DataLoader."))
    kept = loader.num_workers == 2 and loader.persistent_workers
    kept = kept and isinstance(loader.sampler, RandomSampler)
    if kept and same_code(type(loader.dataset), CachedRecordings):
        raise Unfit(
            not_attempted(
                "`MyRecordings` still keeps all that it reads. Change it, run its cell, then this "
                "one."
            )
        )


def _say_how_it_ended(seen: Observation) -> None:
    if seen.end == "raised":
        raise Unfit(failed_in_loader(seen))
    wrong(f"the epochs did not end well: {seen.story().title}. What does your class wait for?")


def _every_sample_came(epochs: list[list[float]], paths: Sequence[str]) -> None:
    expected = [float(np.abs(np.load(path).astype(np.float32)).mean()) for path in paths]
    for came in epochs:
        if len(came) != len(expected):
            wrong(f"{len(came)} of {len(expected)} samples came in an epoch.")
        right = np.isclose(sorted(came), sorted(expected), rtol=1e-4)
        if not right.all():
            wrong(
                f"{int((~right).sum())} of {len(expected)} samples are not the loudness of a "
                "recording any more. What does your cache give back?"
            )
    if all(np.allclose(came, expected, rtol=1e-4) for came in epochs):
        wrong(
            "the samples came in the order of their files, in every epoch: `shuffle=True` is gone. "
            "Each worker then keeps to one half, and two halves are the whole archive all the same."
        )


def _workers_stayed(loader: DataLoader[Any], growth: Growth) -> None:
    if loader.num_workers == 0:
        wrong(
            f"`num_workers=0`: now main keeps the cache, and grew by {grown(growth.main):.0f} MB. "
            "The exercise keeps its two workers and mends what they run."
        )
    if loader.num_workers != 2:
        wrong(f"`num_workers={loader.num_workers}`: the exercise keeps its two workers.")
    if len(growth.pids) > 1 and not growth.pids[0] & growth.pids[1]:
        wrong(
            "`persistent_workers=False` ends the workers after each epoch, and starts "
            "new ones: what they kept goes with them, and every file is read again. That hides it: "
            "within one epoch a worker grows as before. How long is an epoch with 400 GB?"
        )


def _nothing_else_grew(taken: float, growth: Growth) -> None:
    if taken > LIMIT:
        wrong(
            f"your function took {taken:.0f} MB in main before the first batch: all recordings at "
            "once. Fine if they fit, and shared by forked workers; this archive does not fit."
        )
    others = grown(growth.others)
    if others > LIMIT:
        wrong(
            f"the workers stay small, and a process that your code started grew by {others:.0f} "
            "MB: the cache has moved. What bounds it there?"
        )


@contextmanager
def _fresh_recordings() -> Iterator[tuple[str, ...]]:
    with TemporaryDirectory(prefix="dltutor-", ignore_cleanup_errors=True) as folder:
        random = np.random.default_rng(10)
        paths = [Path(folder, f"{number:03}.npy") for number in range(_RECORDINGS)]
        for loudness, path in enumerate(paths, start=1):
            values = random.integers(-400 * loudness, 400 * loudness, _LENGTH, dtype=np.int16)
            np.save(path, values)
        yield tuple(map(str, paths))
