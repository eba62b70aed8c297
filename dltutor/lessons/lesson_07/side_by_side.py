"""Grade "07.fix": pairs of files, read at the same time, by a thread that each process has.

The class is made on a fresh folder, main looks at one sample as people do, and then two forked
workers run two epochs. Threads that start in the workers are counted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from dltutor.failures.lost_thread import Pairs
from dltutor.lessons.kit.answers import (
    Unfit,
    a_mended_class,
    failed_in_loader,
    made,
)
from dltutor.lessons.kit.outcome import Result, correct, not_yet
from dltutor.lessons.lesson_07.fork_hooks import hooks_end_here
from dltutor.lessons.lesson_07.fresh_pairs import PAIRS, fresh_pairs
from dltutor.lessons.lesson_07.standstill import (
    not_called_under_fork,
    of_lost_workers,
    where_they_stood,
)
from dltutor.lessons.lesson_07.started_threads import threads_counted
from dltutor.observation import Observation, observe
from dltutor.observation.time_limits import DeadlinePassed, deadline

PATIENCE: Final = 4  # seconds for each thing that the answer does
AT_MOST: Final = 5 * PATIENCE

_EPOCHS: Final = 2


def grade(answer: Any) -> Result:
    """Grade a dataset class, made as `answer(folder)`."""
    answer = a_mended_class(
        answer,
        Pairs,
        without_workers="Without workers there is no fork: what does a fork leave behind?",
    )
    with fresh_pairs() as (folder, expected), hooks_end_here():
        dataset = _make_and_touch(answer, folder, expected)
        with threads_counted() as threads:
            seen, got = _run(dataset, PATIENCE)
        if seen.end == "hung" and (not got or len(got) % PAIRS):
            return not_yet(_why_it_stands(answer, folder, seen))
        return _problem(seen, got, expected, threads.total) or _well_done(dataset, threads.total)


def _make_and_touch(answer: type, folder: Path, expected: torch.Tensor) -> Any:
    dataset = made(answer, folder, "folder", within=PATIENCE)
    try:
        with deadline(PATIENCE):
            length, first = len(dataset), torch.as_tensor(dataset[0])
    except DeadlinePassed:
        text = f"In main, without any worker, `dataset[0]` did not come within {PATIENCE} s."
        raise Unfit(not_yet(f"{text} What does it wait for?")) from None
    if length != PAIRS:
        raise Unfit(not_yet(f"The folder holds {PAIRS} pairs, and `len(dataset)` is {length}."))
    if not torch.equal(first, expected[0]):
        text = "In main, `dataset[0]` is not the bytes of the first image and of its mask."
        raise Unfit(not_yet(f"{text} Which files does it read?"))
    return dataset


def _run(dataset: Any, patience: float) -> tuple[Observation, list[torch.Tensor]]:
    got: list[torch.Tensor] = []

    def collect(loader: DataLoader[Any]) -> None:
        for batch in loader:
            got.extend(torch.as_tensor(batch).clone())

    # An answer is typed into a notebook, so its workers have to be forked.
    loader = DataLoader(dataset, batch_size=4, num_workers=2, multiprocessing_context="fork")
    return observe(loader, deadline=patience, consume=collect, epochs=_EPOCHS), got


def _why_it_stands(answer: type, folder: Path, seen: Observation) -> str:
    stood = f"The epoch was stopped after {PATIENCE} s. {where_they_stood(seen)}"
    if pickled := not_called_under_fork(answer):
        return f"{stood}{pickled} Who works for what they wait for, and where was it started?"
    untouched, _ = _run(answer(folder), 1.5)
    if untouched.end == "finished":
        return (
            f"{stood} Without main's `dataset[0]` before, the same class finishes. So the thread "
            "is made late, once, by whoever asks first, and here main did. How can a worker tell "
            "that the executor it finds was made by another process?"
        )
    return f"{stood} Who works for what they wait for, and in which process was it started?"


def _problem(
    seen: Observation, got: list[torch.Tensor], expected: torch.Tensor, threads: int
) -> Result | None:
    if seen.end == "hung":
        return not_yet(
            f"All pairs of an epoch came, and then its workers did not end: stopped after "
            f"{PATIENCE} s. A process ends when its threads have ended. Who tells yours that there "
            "is no more work, or that nobody has to wait for it?"
        )
    if seen.end == "worker died":
        return of_lost_workers(seen)
    if seen.raised_in_worker == "TimeoutError":
        return not_yet(
            f"After {len(got)} pairs, `TimeoutError` in W{seen.failed_worker}: the wait has an end "
            "now, and what it waits for still does not come. Who should bring it?"
        )
    if seen.end != "finished":
        return failed_in_loader(seen)
    wrong = [i for i, pair in enumerate(got) if not torch.equal(pair, expected[i % PAIRS])]
    if wrong:
        return not_yet(
            f"{len(wrong)} of {len(got)} pairs are not what the files hold. Where does what the "
            "file does not hold come from, and who will notice it in training?"
        )
    if not threads:
        return not_yet(
            "All pairs come, and no worker started a thread: image and mask are read one after the "
            "other. That ends the standstill by giving up what the class was for. Keep the thread, "
            "and give it to the process that waits for it."
        )
    if threads >= len(got):
        return not_yet(
            f"All pairs come. For {len(got)} of them the workers started {threads} threads: at "
            "least one for each pair. Once in each process is enough. What would a worker have to "
            "remember?"
        )
    return None


def _well_done(dataset: Any, threads: int) -> Result:
    workers = _EPOCHS * 2
    each = "one" if threads == workers else f"{threads / workers:.3g} on average"
    return correct(
        f"{PAIRS} of {PAIRS} pairs arrive in {_EPOCHS} epochs with 2 workers, after main had "
        f"used the dataset too. Threads started in each worker: {each}."
    )
