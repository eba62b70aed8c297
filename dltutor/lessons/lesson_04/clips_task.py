"""Grade "04.fix": the epoch has to reach the workers, and the count of silence has to come back.

The answer is run under fork with persistent and with fresh workers, in slow motion, and under
spawn, on recordings that the lesson does not show. The first thing found is told.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from dltutor.lessons.kit.answers import a_mended_class, made, wrong
from dltutor.lessons.kit.outcome import Result, correct
from dltutor.lessons.lesson_04.clips import CountedClips, make_clips
from dltutor.lessons.lesson_04.clips_account import (
    EPOCHS,
    Heard,
    compare_counts,
    compare_stretches,
    number_in,
    single_numbers,
    some_are_lost,
)
from dltutor.lessons.lesson_04.copies import (
    BUILDING,
    PATIENCE,
    refuse_a_loader,
    run,
)
from dltutor.lessons.lesson_04.from_cell import FromCell, LeftBehind
from dltutor.lessons.lesson_04.guarded import guarded
from dltutor.lessons.lesson_04.slow_motion import SlowMotion

_SPAWNED: Final = 30  # seconds for the run under spawn, where every worker imports torch

#: Seconds that a check takes at most: five runs, the last of them under spawn.
AT_MOST: Final = 4 * PATIENCE + _SPAWNED + 5 * BUILDING

_SEED: Final = 45
_BATCH_SIZE: Final = 4


def grade(answer: Any) -> Result:
    """Grade a class with `set_epoch` and `silent`.

    Args:
        answer: The learner's class, made as `answer(clips)`.

    Raises:
        Unfit: The answer is wrong or cannot be graded; its result says why.
        Exception: What the answer raises when it is made.
    """
    refuse_a_loader(answer)
    methods = ("__len__", "__getitem__", "set_epoch", "silent")
    answer = a_mended_class(answer, CountedClips, methods=methods)
    clips = make_clips(EPOCHS, seed=_SEED)
    _run_and_compare(answer, clips, "with 2 persistent workers under fork", persistent=True)
    _run_and_compare(answer, clips, "with 2 fresh workers under fork", persistent=False)
    _in_slow_motion(answer)
    _run_and_compare(answer, clips, "with a persistent worker under spawn", start_method="spawn")
    return correct(
        f"In the epochs {', '.join(map(str, EPOCHS))} all {len(clips)} stretches are the epoch's "
        "own, and every silent one is counted: with persistent workers under fork and spawn, with "
        "fresh ones, and when the workers write slowly."
    )


def _run_and_compare(
    answer: type,
    clips: torch.Tensor,
    where: str,
    *,
    persistent: bool = True,
    start_method: str = "fork",
) -> None:
    dataset = made(answer, clips.clone(), "clips", within=BUILDING)
    forked = start_method == "fork"
    try:
        loader = _loader(
            dataset if forked else FromCell(dataset),
            start_method=start_method,
            num_workers=2 if forked else 1,
            persistent_workers=persistent,
        )
    except LeftBehind as left:
        wrong(
            f"under fork all is well. Under spawn a worker gets the dataset, with its attributes, "
            f"and makes every global of the module anew. Your class reads the global `{left}`. "
            "How could that travel with the dataset?"
        )
    heard: Heard = run(loader, _train(dataset), where, patience=PATIENCE if forked else _SPAWNED)
    compare_stretches(answer, dataset, clips, heard, where)
    if some_are_lost(clips, heard):
        _in_slow_motion(answer)  # where it does not depend on luck, and the reason can be told
    compare_counts(answer, dataset, clips, heard, where)


def _loader(dataset: Any, *, start_method: str = "fork", **options: Any) -> DataLoader[Any]:
    return DataLoader(
        dataset, batch_size=_BATCH_SIZE, multiprocessing_context=start_method, **options
    )


def _train(dataset: Any, added_to: set[str] | None = None) -> Callable[[DataLoader[Any]], Heard]:
    # added_to: is given the names of the shared tensors of one number that workers write to.
    def train(loader: DataLoader[Any]) -> Heard:
        heard = []
        for epoch in EPOCHS:
            dataset.set_epoch(epoch)
            before = single_numbers(dataset)
            batches = [
                batch.clone() if isinstance(batch, torch.Tensor) else batch for batch in loader
            ]
            heard.append((batches, dataset.silent()))
            if added_to is not None:
                now = single_numbers(dataset)
                added_to.update(name for name in now if now[name] != before.get(name))
        return heard

    return train


def _in_slow_motion(answer: type) -> None:
    dataset = made(answer, torch.zeros_like(make_clips(())), "clips", within=BUILDING)
    fork = multiprocessing.get_context("fork")
    loader = _loader(
        dataset,
        num_workers=2,
        persistent_workers=True,
        worker_init_fn=SlowMotion(answer, fork.Barrier(2)),
    )
    where = "with 2 persistent workers that write slowly"
    added_to: set[str] = set()
    heard: Heard = run(loader, _train(dataset, added_to), where)
    for name in sorted(added_to):
        if not _under_a_lock(answer, name):
            wrong(
                f"`{name}` is one number in a shared tensor, and both workers add to it. Reading "
                "it and writing it back are two steps, also in a tensor: now and then a count gets "
                "lost. What does a `Value` have that a tensor has not? Or who could write where?"
            )
    counted, silent = number_in(heard[-1][1]), len(EPOCHS) * len(dataset)
    if counted != silent:
        wrong(
            f"counts get lost where two workers count at the same time. Each waited a moment "
            f"between reading the number and writing it back: of {silent} silent stretches "
            f"`silent()` has {'fewer' if counted < silent else 'more'}. What may nobody else do "
            "between those two?"
        )


def _under_a_lock(answer: type, name: str) -> bool:
    # A tensor's own step cannot be slowed down: so whether a worker waits for a lock is tried.
    dataset = made(answer, torch.zeros_like(make_clips(())), "clips", within=BUILDING)
    started = multiprocessing.get_context("fork").Barrier(3)
    loader = _loader(dataset, num_workers=2, worker_init_fn=SlowMotion(answer, started))
    train = guarded(dataset, started, lambda: single_numbers(dataset)[name])
    return bool(run(loader, train, "with 2 workers that wait for a lock"))
