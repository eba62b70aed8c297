"""Grade "09.fix": captions that are kept so that no worker grows. "09.transfer" is graded alike.

The answer is made from a fresh file and read without workers, with 2 and with 4; then the broken
class, with 2: it shows how much growth there is to be saved, here and now.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader

from dltutor.failures.kit.gauge import Gauge
from dltutor.failures.material.captions import Captions, PackedCaptions
from dltutor.lessons.kit.endings import Ending, ended_well, run_loader
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class
from dltutor.lessons.kit.outcomes import Result, correct, could_not_check, not_yet
from dltutor.lessons.kit.running import made, theirs
from dltutor.lessons.lesson_09.material import write_captions

_WORKERS: Final = (0, 2, 4)
_MAKING: Final = 3  # seconds for making the dataset, and
_READING: Final = 8  # for reading all of it, as the task says
_BATCH: Final = 100
_LEAST: Final = 4.0  # MB that the broken dataset must grow by, for a comparison to mean something
_MOST: Final = 0.75  # MB that a worker may grow by while it reads
_BEFORE: Final = 2.5  # MB that it may have more than the broken class's, before it has read


@dataclass(frozen=True)
class Task:
    """What differs from one dataset that is to be rewritten to another.

    Args:
        noun: What the lesson calls a sample, such as "caption".
        same: Whether a sample is what the second one says.
        told: A sample, for a message.
        broken: The starter: a dataset made as `broken(path)`.
        packed: The same samples, kept as bytes.
        write: Writes a file for them.
    """

    noun: str
    same: Callable[[Any, Any], bool]
    told: Callable[[Any], str]
    broken: type
    packed: type
    write: Callable[[Path], None]


@dataclass
class Run:
    """What a loader with a dataset did.

    Args:
        workers: How many there were.
        end: How it ended.
        first: MB private to each worker when it had read one sample again and again.
        last: The same when all samples had been read.
        number: How many samples came.
        different: How many of them were something else.
        example: The index of the first of these, what it is and what it should be.
    """

    workers: int
    end: Ending
    first: float = 0.0
    last: float = 0.0
    number: int = 0
    different: int = 0
    example: tuple[int, str, str] = (0, "", "")

    @property
    def grown(self) -> float:
        """MB that each worker grew by while it read."""
        return max(0.0, self.last - self.first)


@dataclass(frozen=True)
class Rewritten:
    """What was seen of an answer.

    Args:
        promised: What `len()` says.
        samples: How many there are.
        runs: With 0, 2 and 4 workers, up to the first that is not right.
        broken: The run of the broken dataset with 2 workers, if all are.
        file_now: What has become of the file that it was made from, if anything.
        keeps: What its attributes are, and what it did to the garbage collector, in words.
    """

    promised: int
    samples: int
    runs: tuple[Run, ...] = ()
    broken: Run | None = None
    file_now: str = ""
    keeps: str = ""


def grader(task: Task) -> Grader[Rewritten]:
    """The grader of a dataset that is to be rewritten so that no worker grows."""
    without = "Without workers nothing is copied, and nothing is loaded in parallel."
    return Grader(
        gather=partial(gather, task),
        judge=partial(judge, task),
        look=lambda answer: a_fixed_class(answer, task.broken, without_workers=without),
        runs="all samples with 0, 2 and 4 workers, and the broken class beside yours",
        at_most=2 * _MAKING + (len(_WORKERS) + 1) * _READING + 4,
    )


def gather(task: Task, answer: type) -> Rewritten:
    """Make and run an answer, up to the first thing that is wrong."""
    path, ours = _file(task), _file(task)  # nobody knows what an answer does to its file
    content, truth = path.read_bytes(), task.packed(ours)
    collector = gc.get_freeze_count(), gc.isenabled()
    dataset = _make(answer, path)
    with theirs():
        promised = len(dataset)
    runs: list[Run] = []
    for workers in _WORKERS if promised == len(truth) else ():
        if workers == 2:  # untouched: what it makes on first use is made in the workers
            dataset = _make(answer, path)
        runs.append(read_all(task, dataset, truth, workers))
        if runs[-1].end.end != "finished" or runs[-1].different:
            return Rewritten(promised, len(truth), tuple(runs))
    keeps = _in_words(dataset, collector)
    del dataset
    broken = read_all(task, task.broken(ours), truth, 2, part=0.4)  # of nearly all pages
    file_now = "is gone" if not path.exists() else ""
    if not file_now and path.read_bytes() != content:
        file_now = "is not what it was"
    return Rewritten(promised, len(truth), tuple(runs), broken, file_now, keeps)


def read_all(task: Task, dataset: Any, truth: Any, workers: int, part: float = 1) -> Run:
    """Read all samples, or a part, at random, and before that one of them again and again."""
    order = torch.randperm(len(truth), generator=torch.Generator().manual_seed(7)).tolist()
    order = order[: int(part * len(order))]
    # For each worker two batches to be taken, and two that it is ahead: they touch nothing new.
    before = 4 * workers
    batches = [order[:1] * _BATCH] * before
    batches += [order[at : at + _BATCH] for at in range(0, len(order), _BATCH)]
    run = Run(workers, Ending("finished", _READING))

    def read(loader: DataLoader[Any]) -> None:
        gauge = Gauge()
        for number, (samples, indices) in enumerate(zip(loader, batches, strict=True), start=1):
            if number == 2 * workers:
                run.first = gauge.private()
            if number == len(batches):
                run.last = gauge.private()
            for index, sample in zip(indices, samples, strict=True) if number > before else ():
                # The truth has no Python objects: main reads it while the workers share its pages.
                run.number += 1
                if not task.same(sample, truth[index]):
                    if not run.different:
                        run.example = index, task.told(sample), task.told(truth[index])
                    run.different += 1

    run.end = run_loader(
        dataset, read, workers=workers, within=_READING, batch_sampler=batches, collate_fn=list
    )
    return run


def judge(task: Task, seen: Rewritten) -> Result:
    """Correct if all samples are as before, and no worker grows like the broken one's."""
    if seen.promised != seen.samples:
        not_yet(f"`len()` is {seen.promised}, and the file holds {seen.samples} {task.noun}s.")
    for run in seen.runs:
        where = f"with {run.workers} workers" if run.workers else "without workers"
        ended_well(run.end, where, hung="What takes so long for each sample?")
        if run.different:
            index, is_now, should_be = run.example
            not_yet(
                f"{where}, {run.different} of {run.number} {task.noun}s are not as before. Sample "
                f"{index} is {is_now}, and should be {should_be}."
            )
    if seen.file_now:
        not_yet(f"the file that your class was given {seen.file_now}. Who else reads it?")
    assert seen.broken, "a run that is not right was not told"
    run, broken = seen.runs[_WORKERS.index(2)], seen.broken
    if not broken.grown > _LEAST:
        could_not_check(
            f"the broken dataset grew by {broken.grown:.0f} MB in each worker on this machine, too "
            "little to compare yours with."
        )
    most = f"with the broken class by {broken.grown:.1f} MB. {seen.keeps}"
    more = run.first - broken.first
    if more > _BEFORE:
        not_yet(
            f"before it had read a second {task.noun}, each worker had grown by {more:.1f} MB; "
            f"when it had read them all, {most} What does each worker make for itself?"
        )
    if run.grown > _MOST:
        not_yet(
            f"each worker grew by {run.grown:.1f} MB while it read; {most} Which Python objects "
            "that main has made does a sample touch?"
        )
    return correct(
        f"{run.number} of {run.number} {task.noun}s are as before, with 0, 2 and 4 workers, which "
        f"read in random order. Each of two grew by {run.grown:.0f} MB; with the broken class by "
        f"{broken.grown:.0f} MB."
    )


def _file(task: Task) -> Path:
    path = Path(tempfile.mkdtemp(), "data")  # goes with the process of the check
    task.write(path)
    return path


def _make(answer: type, path: Path) -> Any:
    call, question = f"{answer.__name__}(path)", "What takes so long for each line?"
    return made(answer, path, call=call, within=_MAKING, question=question)


def _in_words(dataset: Any, collector: tuple[int, bool]) -> str:
    kept = []
    for name, value in getattr(dataset, "__dict__", {}).items():  # a class with slots has none
        dtype = f" of {value.dtype}" if isinstance(value, np.ndarray) else ""
        kept.append(f"`{name}` ({type(value).__name__}{dtype})")
    words = f"Your dataset keeps {', '.join(kept)}."
    if gc.get_freeze_count() > collector[0]:
        words += " `gc.freeze()` was called, so it was not the collector that wrote."
    elif collector[1] and not gc.isenabled():
        words += " The collector is switched off, so it was not the collector that wrote."
    return words


CAPTIONS: Final = Task(
    noun="caption",
    same=lambda sample, truth: isinstance(sample, str) and bool(sample == truth),
    told=lambda sample: f"{sample!r:.60}",
    broken=Captions,
    packed=PackedCaptions,
    write=partial(write_captions, count=50_000),
)
GRADER: Final = grader(CAPTIONS)
