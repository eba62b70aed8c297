"""Grade "09.fix": captions that are kept so that no worker grows. "09.transfer" is graded alike.

The answer is made of three files, one after the other, and each is read for two epochs: without
workers, with 2 and with 4. Then the broken class, with 2: it shows how much growth there is to be
saved, here and now.
"""

from __future__ import annotations

import gc
import math
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

_WORKERS: Final = {0: "first", 2: "second", 4: "third"}  # and the file that they read
_MAKING: Final = 3  # seconds for making the dataset, and
_READING: Final = 10  # for reading all of it twice, as the task says
_ENDED: Final = Ending("finished", _READING)
_BATCH: Final = 25  # with larger ones of arrays, what a worker sends makes it grow as well
_LEAST: Final = 4.0  # MB that the broken dataset must grow by, for a comparison to mean something
_MOST: Final = 1.0  # MB that a worker may grow by while it reads
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
        write: Writes a file for them; another number makes another file.
    """

    noun: str
    same: Callable[[Any, Any], bool]
    told: Callable[[Any], str]
    broken: type
    packed: type
    write: Callable[[Path, int], None]


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
        epoch: The one in which it came.
        promised: What `len()` says.
        file_now: What has become of the file that the dataset was made of, if anything.
    """

    workers: int
    end: Ending
    first: float = 0.0
    last: float = 0.0
    number: int = 0
    different: int = 0
    example: tuple[int, str, str] = (0, "", "")
    epoch: int = 1
    promised: int = 0
    file_now: str = ""

    @property
    def grown(self) -> float:
        """MB that each worker grew by while it read."""
        return max(0.0, self.last - self.first)


@dataclass(frozen=True)
class Rewritten:
    """What was seen of an answer.

    Args:
        samples: How many there are in each file.
        runs: With 0, 2 and 4 workers, up to the first that is not right.
        broken: The run of the broken dataset with 2 workers, if all are.
        keeps: What its attributes are, and what it did to the garbage collector, in words.
    """

    samples: int
    runs: tuple[Run, ...]
    broken: Run | None = None
    keeps: str = ""


def grader(task: Task) -> Grader[Rewritten]:
    """The grader of a dataset that is to be rewritten so that no worker grows."""
    without = "Without workers nothing is copied, and nothing is loaded in parallel."
    return Grader(
        gather=partial(gather, task),
        judge=partial(judge, task),
        look=lambda answer: a_fixed_class(answer, task.broken, without_workers=without),
        runs="two epochs with 0, 2 and 4 workers, and the broken class beside yours",
        at_most=3 * _MAKING + (len(_WORKERS) + 1) * _READING + 4,
    )


def gather(task: Task, answer: type) -> Rewritten:
    """Make and run an answer, up to the first thing that is wrong."""
    collector = gc.get_freeze_count(), gc.isenabled()
    runs: list[Run] = []
    for workers in _WORKERS:  # a file and a dataset for each: what was kept of others is wrong here
        path = _file(task, workers)
        content, truth = path.read_bytes(), task.packed(path)
        dataset = _make(answer, path)
        with theirs():
            promised = len(dataset)
        same = promised == len(truth)
        run = read_all(task, dataset, truth, workers) if same else Run(workers, _ENDED)
        run.promised = promised
        if not path.exists():
            run.file_now = "is gone"
        elif path.read_bytes() != content:
            run.file_now = "is not what it was"
        runs.append(run)
        if not same or run.end.end != "finished" or run.different or run.file_now:
            return Rewritten(len(truth), tuple(runs))
    keeps = _in_words(dataset, collector)
    del dataset
    # A part is of nearly all pages.
    broken = read_all(task, task.broken(_file(task, workers)), truth, 2, epochs=0.4)
    return Rewritten(len(truth), tuple(runs), broken, keeps)


def read_all(task: Task, dataset: Any, truth: Any, workers: int, epochs: float = 2) -> Run:
    """Read all samples at random, for so many epochs, and before that one again and again."""
    generator, samples = torch.Generator().manual_seed(7), len(truth)
    shuffled = [torch.randperm(samples, generator=generator) for _ in range(math.ceil(epochs))]
    order = torch.cat(shuffled)[: int(epochs * samples)].tolist()
    # For each worker two batches to be taken, and two that it is ahead: they touch nothing new.
    before = 4 * workers
    batches = [order[:1] * _BATCH] * before
    batches += [order[at : at + _BATCH] for at in range(0, len(order), _BATCH)]
    run = Run(workers, _ENDED)

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
                        run.epoch = math.ceil(run.number / len(truth))
                    run.different += 1

    run.end = run_loader(
        dataset, read, workers=workers, within=_READING, batch_sampler=batches, collate_fn=list
    )
    return run


def judge(task: Task, seen: Rewritten) -> Result:
    """Correct if all samples are as before, and no worker grows like the broken one's."""
    for run in seen.runs:
        file = f"{_WORKERS[run.workers]} file"
        if run.promised != seen.samples:
            not_yet(f"`len()` is {run.promised}, and the {file} holds {seen.samples} {task.noun}s.")
        where = f"with {run.workers} workers" if run.workers else "without workers"
        ended_well(run.end, where, hung="What takes so long for each sample?")
        if run.different:
            index, is_now, should_be = run.example
            noun = f"{task.noun}s in two epochs of the {file}"
            not_yet(
                f"{where}, {run.different} of {run.number} {noun} are not as before. Sample "
                f"{index} is {is_now} in epoch {run.epoch}, and should be {should_be}."
            )
        if run.file_now:
            not_yet(f"the file that your class was given {run.file_now}. Who else reads it?")
    assert seen.broken, "a run that is not right was not told"
    run, broken = max(seen.runs[1:], key=lambda run: run.grown), seen.broken
    if not broken.grown > _LEAST:
        could_not_check(
            f"the broken dataset grew by {broken.grown:.0f} MB in each worker on this machine, too "
            "little to compare yours with."
        )
    most = f"with the broken class by {broken.grown:.1f} MB. {seen.keeps}"
    more = max(run.first for run in seen.runs[1:]) - broken.first
    if more > _BEFORE:
        not_yet(
            f"before it had read a second {task.noun}, each worker had grown by {more:.1f} MB; "
            f"when it had read them all, {most} What does each worker make for itself?"
        )
    if run.grown > _MOST:
        not_yet(
            f"each of {run.workers} workers grew by {run.grown:.1f} MB while it read; {most} Does "
            "a sample touch Python objects that main has made, or write into main's data, or does "
            "the worker keep something of each?"
        )
    return correct(
        f"{seen.samples} {task.noun}s of three files are as before, in two epochs with 0, 2 "
        f"and 4 workers, which read in random order. Each worker grew by {run.grown:.0f} MB at "
        f"the most; with the broken class by {broken.grown:.0f} MB."
    )


def _file(task: Task, number: int) -> Path:
    path = Path(tempfile.mkdtemp(), "data")  # goes with the process of the check
    task.write(path, number)
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
    write=lambda path, number: write_captions(path, 50_000, number),
)
GRADER: Final = grader(CAPTIONS)
