"""Grade "09.fix": captions that are kept so that no worker grows. "09.transfer" is graded alike.

The answer is made of two files, and read: of the first without workers, of the other with 2 and
with 4. Before that an empty dataset is read with 2, and afterwards the broken class: they show what
a worker has, and grows by, here and now.
"""

from __future__ import annotations

import gc
import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import getpid
from os.path import commonprefix
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.kit.gauge import Gauge
from dltutor.failures.material.captions import Captions
from dltutor.lessons.engine.endings import Ending, ended_well, run_loader
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_class
from dltutor.lessons.engine.memory import Empty, beyond, finished
from dltutor.lessons.engine.outcomes import Result, correct, could_not_check, not_yet
from dltutor.lessons.engine.running import made, still_running, theirs
from dltutor.lessons.lesson_09.material import write_captions
from dltutor.system.processes import descendants

# For each file: how many workers read it, and for how many epochs.
_FILES: Final = {"first": {0: 2}, "second": {2: 1, 4: 1}}
_MAKING: Final = 8  # seconds for making the dataset, and
_READING: Final = 15  # for each reading of it, as the task says
_BATCH: Final = 50  # samples
_BEFORE: Final = 60  # batches for each worker, of the same
_FEW: Final = 250  # samples again and again: then its heap is as large as it gets
_LEAST: Final = 4.0  # MB that the broken dataset must grow by, for a comparison to mean something
_MOST: Final = 0.6  # MB that a worker may grow by, beyond an empty run's: right answers 0 to 0.2,
# numbers in a list 1.2
_MORE: Final = 0.9  # MB that it may have more than the broken class's, before it has read


@dataclass(frozen=True)
class Task:
    """What differs from one dataset that is to be rewritten to another.

    Args:
        noun: What the lesson calls a sample, such as "caption".
        same: Whether a sample is what the second one says.
        told: A sample in words, all of it.
        broken: The starter: a dataset made as `broken(path)`.
        write: Writes a file for it, and returns the samples, kept without Python objects; another
            number makes another file.
    """

    noun: str
    same: Callable[[Any, Any], bool]
    told: Callable[[Any], str]
    broken: type
    write: Callable[[Path, int], Any]


@dataclass
class Run:
    """What a loader with a dataset did.

    Args:
        workers: How many there were.
        end: How it ended.
        first: MB private to each worker when it had read some samples again and again, W0 first.
        last: The same when all samples had been read.
        number: How many samples came.
        different: How many indices had something else, in one epoch at least.
        example: What the first of these was, and what it should be, in words.
        left: What the answer started and left running, in words.
    """

    workers: int
    end: Ending
    first: Sequence[float] = ()
    last: Sequence[float] = ()
    number: int = 0
    different: int = 0
    example: str = ""
    left: str = ""

    @property
    def grown(self) -> tuple[float, str]:
        """MB that a worker grew by at the most while it read, and which one that was."""
        grown = [last - first for first, last in zip(self.first, self.last, strict=True)]
        return max(((max(0.0, by), f"W{n}") for n, by in enumerate(grown)), default=(0.0, ""))


@dataclass(frozen=True)
class Rewritten:
    """What was seen of an answer.

    Args:
        samples: How many there are in each file.
        runs: With 0, 2 and 4 workers, up to the first that is not right.
        broken: The run of the broken dataset with 2 workers, if all samples are right.
        empty: MB that a worker grows by here while it reads what is there already.
        keeps: What its attributes are, and what it did to the garbage collector, in words.
    """

    samples: int
    runs: tuple[Run, ...]
    broken: Run | None = None
    empty: float = 0.0
    keeps: str = ""

    def grown(self, run: Run) -> tuple[float, str]:
        """MB that a worker grew by at the most beyond an empty run's, and which one that was."""
        by, name = run.grown
        return beyond({name: self.empty}, {name: by})[name], name


def grader(task: Task) -> Grader[Rewritten]:
    """The grader of a dataset that is to be rewritten so that no worker grows."""
    without = "Without workers nothing is copied, and nothing is loaded in parallel."
    return Grader(
        gather=partial(gather, task),
        judge=partial(judge, task),
        look=lambda answer: a_fixed_class(answer, task.broken, without_workers=without),
        runs="all samples with 0, 2 and 4 workers, and the broken class beside yours",
        at_most=2 * _MAKING + 3 * _READING + 7,
    )


def gather(task: Task, answer: type) -> Rewritten:
    """Make and run an answer, up to the first thing that is wrong.

    Raises:
        Rejected: It cannot be made, has another length, or changes its file.
    """
    folder = Path(tempfile.mkdtemp())  # goes with the process of the check
    frozen = gc.get_freeze_count()  # some Pythons start with a few hundred objects frozen
    runs: list[Run] = []
    empty = _empty(task, task.write(folder / "empty", len(_FILES)))
    for number, (file, epochs_with) in enumerate(_FILES.items()):
        # A file and a dataset of its own: what was kept of another is wrong here.
        path = folder / file
        truth = task.write(path, number)
        content = path.read_bytes()
        call, slow = f"{answer.__name__}(path)", f"What takes so long for each {task.noun}?"
        dataset = made(answer, path, call=call, within=_MAKING, question=slow)
        with theirs():
            length = len(dataset)
        if length != len(truth):
            not_yet(f"`len()` is {length}, and the {file} file holds {len(truth)} {task.noun}s.")
        for workers, epochs in epochs_with.items():
            run = read_all(task, dataset, truth, workers, epochs)
            runs.append(run)
            if not path.exists() or path.read_bytes() != content:
                now = "is not what it was" if path.exists() else "is gone"
                not_yet(f"the file that your class was given {now}. Who else reads it?")
            seen = Rewritten(length, tuple(runs), empty=empty)
            if run.end.end != "finished" or run.different or run.left:
                return seen
            if seen.grown(run)[0] > _MOST:
                break
            with theirs():
                dataset[0]  # what it opens in main, the next workers inherit
    keeps = _in_words(dataset, frozen)
    del dataset
    # A part of the samples is of nearly all pages.
    broken = read_all(task, task.broken(path), truth, 2, 0.4)
    return replace(seen, broken=broken, keeps=keeps)


def _empty(task: Task, truth: Any) -> float:
    run = read_all(task, Empty(truth), truth, 2, 1)
    finished(run.end, "with 2 workers")
    return run.grown[0]


def read_all(task: Task, dataset: Any, truth: Any, workers: int, epochs: float) -> Run:
    """Read all samples at random, for so many epochs, and before that a few again and again."""
    generator, samples = torch.Generator().manual_seed(7), len(truth)
    before, few = _BEFORE * workers, min(_FEW, samples)
    order = [torch.randint(few, (before * _BATCH,), generator=generator)]
    order += [torch.randperm(samples, generator=generator) for _ in range(math.ceil(epochs))]
    indices = torch.cat(order)[: before * _BATCH + int(epochs * samples)]
    batches = [batch.tolist() for batch in indices.split(_BATCH)]
    run = Run(workers, Ending("hung", _READING))
    different: set[int] = set()

    def read(loader: DataLoader[Any]) -> None:
        gauge, others = Gauge(), descendants(getpid())
        for number, (unlike, words) in enumerate(loader, start=1):
            if number == before - 2 * workers:  # it is two batches ahead
                run.first = gauge.each()
            if number == len(batches):
                run.last = gauge.each()
            if number > before:
                if unlike and not run.example:
                    epoch = math.ceil((run.number + 1) / samples)
                    run.example = f"Sample {unlike[0]} in epoch {epoch} is {words}."
                different.update(unlike)
                run.number += len(batches[number - 1])
        run.different, run.left = len(different), still_running(others)

    compared = _Compared(task, dataset, truth)
    run.end = run_loader(
        compared, read, workers=workers, within=_READING, batch_sampler=batches, collate_fn=list
    )
    return run


@dataclass(frozen=True)
class _Compared(Dataset[Any]):
    """Compares each batch in the worker: to send samples would make its heap grow by 1 or 2 MB."""

    task: Task
    dataset: Any
    truth: Any  # without Python objects: to read it copies nothing

    def __getitems__(self, indices: list[int]) -> tuple[list[int], str]:
        task, truth = self.task, self.truth
        samples = {index: self.dataset[index] for index in indices}
        unlike = [index for index in samples if not task.same(samples[index], truth[index])]
        told = [task.told(each[index]) for index in unlike[:1] for each in (samples, truth)]
        return unlike, where_unlike(*told) if told else ""


def where_unlike(found: str, right: str) -> str:
    """Two texts in one sentence, of each only what is near the first difference."""
    same = len(commonprefix([found, right]))  # noqa: RUF071 - of characters, not of paths
    start = same - 25 if same > 50 else 0
    cut = [
        f"{'...' if start else ''}{text[start : start + 60]}{'...' if text[start + 60 :] else ''}"
        for text in (found, right)
    ]
    return ", and should be ".join(cut)


def judge(task: Task, seen: Rewritten) -> Result:
    """Correct if all samples are as before, and no worker grows like the broken one's."""
    for run in seen.runs:
        where = f"with {run.workers} workers" if run.workers else "without workers"
        ended_well(run.end, where, hung="What takes so long, or waits for what?")
        if run.different:
            them = f"{task.noun}s of the {'second' if run.workers else 'first'} file"
            count = f"{run.different} of {seen.samples} {them}"
            not_yet(f"{where}, {count} are not as before. {run.example}")
        if run.left:
            not_yet(
                f"{where}, {run.left} that your code started still ran when the run had ended. "
                "Who ends what it starts?"
            )
    assert seen.broken, "a run that is not right was not told"
    broken, (broken_by, _) = seen.broken, seen.broken.grown
    if not broken_by > _LEAST:
        could_not_check(
            f"the broken dataset grew by {broken_by:.0f} MB in a worker on this machine, too "
            "little to compare yours with."
        )
    more = max(mb for run in seen.runs for mb in run.first) - max(broken.first)
    if more > _MORE:
        not_yet(
            f"a worker that had read nothing but the first {_FEW} {task.noun}s had "
            f"{more:.1f} MB more for itself than one of the broken class. {seen.keeps} What does "
            "each worker make for itself, or does it collect garbage?"
        )
    worst = max(seen.runs, key=seen.grown)
    by, name = seen.grown(worst)
    if by > _MOST:
        not_yet(
            f"{name} of {worst.workers} workers grew by {by:.1f} MB while it read, and {_MOST} MB "
            f"are allowed; with the broken class by {broken_by:.1f} MB. {seen.keeps} Does a sample "
            "touch Python objects that main has made, write into main's data, or collect garbage? "
            "Does the worker keep something of each?"
        )
    return correct(
        f"All {seen.samples} {task.noun}s of each file are as before, with 0, 2 and 4 workers, "
        f"which read in random order. No worker grew by more than {by:.1f} MB; with the broken "
        f"class by {broken_by:.1f} MB."
    )


def _in_words(dataset: Any, frozen: int) -> str:
    kept = []
    for name, value in getattr(dataset, "__dict__", {}).items():  # a class with slots has none
        if hasattr(value, "__len__") and not isinstance(value, str):
            dtype = f" of {value.dtype}" if isinstance(value, np.ndarray) else ""
            kept.append(f"`{name}` ({type(value).__name__}{dtype})")
    words = f"Your dataset keeps {', '.join(kept)}."
    if not kept:
        words = "No container that your dataset keeps explains it: is it the cache of a library?"
    if gc.get_freeze_count() > frozen or not gc.isenabled():
        words += " The garbage collector is frozen or switched off, so it was not what wrote."
    return words


CAPTIONS: Final = Task(
    noun="caption",
    same=lambda sample, truth: isinstance(sample, str) and bool(sample == truth),
    told=repr,
    broken=Captions,
    write=write_captions,
)
GRADER: Final = grader(CAPTIONS)
