"""Grade a dataset that was to be rewritten so that its workers do not grow.

It is run on fresh data beside the broken one and beside one that keeps bytes only: these two runs
say how much growth there is to be saved, here and now. The first thing found is told.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from dltutor.lessons.kit.answers import a_mended_class, made
from dltutor.lessons.kit.outcome import Result, correct, could_not_check
from dltutor.lessons.lesson_09.growth import (
    PATIENCE,
    Collector,
    Same,
    measure,
    private_memory_is_known,
)
from dltutor.lessons.lesson_09.growth_reasons import (
    a_sample,
    say_how_it_ended,
    say_why,
    still_read,
    too_slow,
    wrong,
)
from dltutor.lessons.lesson_09.keeping import (
    array_bytes,
    cached_method,
    emptied,
    python_objects_in,
)
from dltutor.observation import errors
from dltutor.observation.time_limits import DeadlinePassed, deadline

#: Seconds that a check takes at most: the dataset made and looked at, and three runs.
AT_MOST: Final = 7 * PATIENCE

_LEAST: Final = 4.0  # MB that the broken dataset must grow by, for a comparison to mean something
_NOISE: Final = 2.5  # MB
_PART: Final = 0.15  # of the broken dataset's growth
_WASTE: Final = 6  # times the bytes that the data takes packed


_broken_grew: dict[str, float] = {}


@dataclass(frozen=True)
class Rewrite:
    """What differs from one such exercise to another.

    Args:
        broken: The starter: a dataset made as `broken(path)`.
        packed: The same samples, kept as bytes.
        noun: What a sample is: "caption".
        fresh: Makes the file that the answer is graded on.
        read: How many samples to read.
        same: Whether a sample is what it should be.
        kind: What a sample has to be, in words.
        is_kind: Whether it is.
        told: A sample, for a message.
    """

    broken: type
    packed: type
    noun: str
    fresh: Callable[[], AbstractContextManager[Path]]
    read: int
    same: Same
    kind: str
    is_kind: Callable[[Any], bool]
    told: Callable[[Any], str]


def grade(task: Rewrite, answer: Any) -> Result:
    """Grade a dataset class.

    Args:
        task: The exercise.
        answer: The learner's class, made as `answer(path)`.

    Raises:
        Unfit: The answer is wrong or cannot be graded; its result says why.
        Exception: What the answer raises when it is made.
    """
    answer = a_mended_class(
        answer,
        task.broken,
        without_workers="Without workers nothing is copied, and nothing is loaded in parallel.",
    )
    private_memory_is_known()
    collector = Collector.now()
    try:
        with task.fresh() as path:
            return _compare(task, answer, path, collector)
    finally:
        collector.put_back()
        if name := cached_method(answer):
            vars(answer)[name].cache_clear()


def _compare(task: Rewrite, answer: type, path: Path, collector: Collector) -> Result:
    truth = task.packed(path)
    _compare_in_main(task, _build(answer, path), truth)
    dataset = _build(answer, path)  # untouched: what it makes on first use is made in a worker
    run = measure(dataset, task.read, truth=truth, same=task.same)
    if run.observation.end != "finished":
        say_how_it_ended(run)
    if run.different:
        index = run.different[0]
        wrong(
            f"without workers the {task.noun}s are right; with 2, {len(run.different)} of "
            f"{run.compared} are not, {task.noun} {index} among them. What do the workers share?"
        )
    waste = array_bytes(dataset) / max(1, array_bytes(truth))
    kept = python_objects_in(dataset)
    read = next((each for each in kept if _reads(task, dataset, truth, each.name)), None)
    frozen = gc.get_freeze_count() > collector.frozen
    stopped = collector.enabled and not gc.isenabled()
    del dataset
    collector.put_back()
    ideal = measure(truth, task.read)
    if task.noun not in _broken_grew:  # it is no answer: once in a kernel is enough
        _broken_grew[task.noun] = measure(task.broken(path), task.read).more_than(ideal)
    grown, broken = run.more_than(ideal), _broken_grew[task.noun]
    early = run.first - ideal.first
    if not broken > _LEAST:
        return could_not_check(
            f"the broken dataset grew by {broken:.0f} MB in each worker on this machine, too "
            "little to compare yours with."
        )
    if grown > max(_NOISE, _PART * broken):
        fact = (
            f"each worker grew by {grown:.0f} MB while it read; by {broken:.0f} MB with the broken "
            "class."
        )
        told = str(kept[0]) if kept else ""
        say_why(fact, answer, told, frozen=frozen, stopped=stopped, early=early / broken)
    if read:
        still_read(read, grown)
    if waste > _WASTE:
        wrong(
            f"the workers do not grow, but your arrays take {waste:.0f} times the bytes that the "
            "same data takes without gaps: most of it is padding, up to the longest. How can each "
            f"{task.noun} have its own length in one array?"
        )
    rest = ""
    if kept:
        rest = f" Main still pays for the objects, though: `{kept[0].name}` is {kept[0].what}."
    elif grown > 1 and early > grown / 2:
        rest = " Most of that came with the first batch, and no more after it."
    return correct(
        f"{run.compared} of {run.compared} samples are as before, read by 2 workers in random "
        f"order. Each grew by {grown:.0f} MB; with the broken class by {broken:.0f} MB.{rest}"
    )


def _build(answer: type, path: Path) -> Any:
    question = "Does it copy all of an array for each line?"
    return made(answer, path, "path", within=PATIENCE, question=question)


def _compare_in_main(task: Rewrite, dataset: Any, truth: Sequence[Any]) -> None:
    if len(dataset) != len(truth):
        wrong(f"`len()` is {len(dataset)}, and the file holds {len(truth)} {task.noun}s.")
    different = []
    asked = _some(truth)
    try:
        with deadline(PATIENCE):
            for index in asked:
                sample = dataset[index]
                if not task.is_kind(sample):
                    wrong(f"a sample is {a_sample(sample)}. It has to be {task.kind}, as before.")
                if not task.same(sample, truth[index]):
                    different.append((index, sample))
    except DeadlinePassed as passed:
        stood = errors.read(passed).traceback
        too_slow(f"main did not get {len(asked)} {task.noun}s within {PATIENCE} s.", stood[-1:])
    if different:
        index, sample = different[0]
        wrong(
            f"{len(different)} of {len(asked)} {task.noun}s are not as before. Sample {index} "
            f"is {task.told(sample)}, and should be {task.told(truth[index])}."
        )


def _some(truth: Sequence[Any]) -> list[int]:
    chosen = torch.randperm(len(truth), generator=torch.Generator().manual_seed(3))[:500].tolist()
    return [0, 1, 2, len(truth) - 1, *chosen]


def _reads(task: Rewrite, dataset: Any, truth: Sequence[Any], name: str) -> bool:
    """Whether the samples are not what they were once an attribute's objects are taken out."""
    try:
        with deadline(PATIENCE), emptied(dataset, name):
            return not all(task.same(dataset[index], truth[index]) for index in _some(truth))
    except (Exception, DeadlinePassed):
        return True
