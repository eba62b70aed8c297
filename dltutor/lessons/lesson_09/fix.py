"""Grade "09.fix" and "09.transfer", which ask for a dataset that makes no worker's memory grow.

The check makes a dataset from each of two files, and reads the first without workers and the
second with 2 and with 4. To see how much a worker grows on this machine, the check also reads an
empty dataset first and, if all samples are right, the broken class last, both with 2 workers.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os.path import commonprefix
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.data.captions import Captions
from dltutor.failures.tools.gauge import Gauge
from dltutor.lessons.engine.endings import Ending, check_ending, run_loader, where
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_class
from dltutor.lessons.engine.memory import Empty, finished
from dltutor.lessons.engine.outcomes import Result, correct, could_not_check, not_yet
from dltutor.lessons.engine.running import made, theirs
from dltutor.lessons.lesson_09.helpers import write_captions

_FILES: Final = {
    "first": (0,),
    "second": (2, 4),
}  # file -> the number of workers in each run that reads the file
_MAKING: Final = 8  # time limit in seconds for making the dataset, as the task says
_READING: Final = 15  # time limit in seconds for each reading of the dataset, as the task says
_BATCH: Final = 50  # samples in a batch
# First, each worker reads 60 batches of the same 250 samples, after which its heap hardly grows.
_BEFORE: Final = 60  # batches
_FEW: Final = 250  # samples
# The check gives up unless the broken class makes a worker grow by more than this many MB.
_LEAST: Final = 4.0
# The most MB that a worker may grow by beyond an empty run. In our runs, workers grew by up to 0.2
# MB with right answers, and by 1.2 MB with numbers in a list, which is wrong.
_MOST: Final = 0.6
# A worker may start larger than a worker with the broken class, by this fraction of the broken
# class's growth, which was 5.5 MB in our runs. Right answers started larger by up to 0.3 MB, or by
# 1.5 MB on a machine with a load of 25. Answers that read the whole file in each worker started
# larger by 13 MB.
_MORE: Final = 0.3


@dataclass
class Run:
    """A record of how a loader read a dataset.

    Args:
        workers: The number of workers.
        end: How the run ended.
        first: The private MB of each worker, W0 first, after the worker had read a few samples
            repeatedly.
        last: The private MB of each worker when the last batch had arrived.
        different: How many samples were wrong.
        example: The first wrong sample, for a message: `index`, `found`, and `right`.
    """

    workers: int
    end: Ending
    first: Sequence[float] = ()
    last: Sequence[float] = ()
    different: int = 0
    example: dict[str, object] = field(default_factory=dict)

    @property
    def grown(self) -> tuple[float, str]:
        """The most MB that a worker grew by, and the worker's name, or 0 and "" without workers."""
        grown = [last - first for first, last in zip(self.first, self.last, strict=True)]
        return max(((max(0.0, by), f"W{n}") for n, by in enumerate(grown)), default=(0.0, ""))


@dataclass(frozen=True)
class Rewritten:
    """A record of an answer's runs, of its dataset, and of the runs to compare them with.

    Args:
        samples: How many samples each file has.
        runs: The runs with 0, 2, and 4 workers, up to the first run that failed, had a wrong
            sample, or grew too much.
        broken: The broken class's run with 2 workers, if all samples are right.
        empty: The MB that a worker grows by on this machine while it reads an empty dataset.
        kept: The containers among the dataset's attributes, such as "`captions` (list)", or "".
        frozen: Whether the answer froze the garbage collector, or turned it off.
    """

    samples: int
    runs: tuple[Run, ...]
    broken: Run | None = None
    empty: float = 0.0
    kept: str = ""
    frozen: bool = False

    def grown(self, run: Run) -> tuple[float, str]:
        """Return the most MB that a worker grew by beyond an empty run, and that worker's name."""
        by, name = run.grown
        return max(0.0, by - self.empty), name


def grader(broken: type, write: Callable[[Path, int], Any]) -> Grader[Rewritten]:
    """Return the grader for rewriting a dataset class so that no worker grows.

    Args:
        broken: The starter class, which takes the path of a file.
        write: A function that writes a file to a path, with other samples for each number that it
            gets, and returns the right samples, stored without Python objects.
    """
    return Grader(
        gather=partial(gather, broken, write),
        judge=judge,
        look=partial(a_fixed_class, starter=broken),
        at_most=2 * _MAKING + 3 * _READING + 7,
    )


def gather(broken: type, write: Callable[[Path, int], Any], answer: type) -> Rewritten:
    """Make datasets with the answer's class, and run them up to the first mistake.

    Before that, read an empty dataset. If all samples are right, also read the broken class last.

    Raises:
        Rejected: The empty dataset's run didn't finish, or the answer's dataset can't be made, has
            the wrong length, or raises an exception in main.
    """
    folder = Path(tempfile.mkdtemp())  # removed when the check ends
    frozen = gc.get_freeze_count()  # some builds of Python start with a few hundred frozen objects
    runs: list[Run] = []
    truth = write(folder / "empty", len(_FILES))
    empty = read_all(Empty(truth), truth, 2)
    finished(empty.end, where(2))
    for number, (file, workers_of) in enumerate(_FILES.items()):
        # Each file gets its own dataset, to find a class that keeps samples from the other file.
        path = folder / file
        truth = write(path, number)
        dataset = made(answer, path, call=f"{answer.__name__}(path)", within=_MAKING)
        with theirs():
            length = len(dataset)
        if length != len(truth):
            not_yet("length", length=length, file=file, samples=len(truth))
        for workers in workers_of:
            run = read_all(dataset, truth, workers)
            runs.append(run)
            seen = Rewritten(length, tuple(runs), empty=empty.grown[0])
            if run.end.end != "finished" or run.different:
                return seen
            if seen.grown(run)[0] > _MOST:
                break
            with theirs():
                dataset[0]  # the next workers inherit what `dataset[0]` opens in main
    off = gc.get_freeze_count() > frozen or not gc.isenabled()
    seen = replace(seen, kept=_kept(dataset), frozen=off)
    del dataset
    # 40 percent of the samples are enough, because they touch nearly all pages.
    return replace(seen, broken=read_all(broken(path), truth, 2, 0.4))


def read_all(dataset: Any, truth: Any, workers: int, part: float = 1) -> Run:
    """Read a dataset through a loader, and record wrong samples and each worker's memory.

    Workers first read a few samples so often that their heaps stop growing. After that, they grow
    only by what reading the other samples takes up.

    Args:
        dataset: The dataset to read.
        truth: The right samples, by index.
        workers: The number of workers.
        part: The fraction of the samples to read, in random order.
    """
    generator, samples = torch.Generator().manual_seed(7), len(truth)
    before = _BEFORE * workers
    again = torch.randint(min(_FEW, samples), (before * _BATCH,), generator=generator)
    order = torch.randperm(samples, generator=generator)[: int(part * samples)]
    batches = [batch.tolist() for batch in torch.cat([again, order]).split(_BATCH)]
    run = Run(workers, Ending("hung", _READING))

    def read(loader: DataLoader[Any]) -> None:
        gauge = Gauge()
        for number, (unlike, texts) in enumerate(loader, start=1):
            if number == before - 2 * workers:  # because each worker is two batches ahead
                run.first = gauge.each()
            if number == len(batches):
                run.last = gauge.each()
            if unlike and number > before:
                first = {"index": unlike[0], "found": texts[0], "right": texts[1]}
                run.example = run.example or first
                run.different += len(unlike)

    compared = _Compared(dataset, truth)
    run.end = run_loader(
        compared, read, workers=workers, within=_READING, batch_sampler=batches, collate_fn=list
    )
    return run


@dataclass(frozen=True)
class _Compared(Dataset[Any]):
    """A dataset that sends comparisons, because sending samples makes a worker's heap grow."""

    dataset: Any
    truth: Any  # without Python objects, so that reading it copies no pages

    def __getitems__(self, indices: list[int]) -> tuple[list[int], list[str]]:
        truth, samples = self.truth, {index: self.dataset[index] for index in indices}
        unlike = [index for index in samples if not _same(samples[index], truth[index])]
        texts = [_as_text(each[index]) for index in unlike[:1] for each in (samples, truth)]
        return unlike, where_unlike(*texts) if texts else []


def _same(sample: Any, right: Any) -> bool:
    if not isinstance(sample, type(right)):
        return False
    if isinstance(right, np.ndarray):
        return sample.dtype == right.dtype and np.array_equal(sample, right)
    return bool(sample == right)


def _as_text(sample: Any) -> str:
    if isinstance(sample, np.ndarray):
        return f"ndarray of {sample.dtype}, {sample.shape}, {sample.tolist()}"
    return repr(sample)


def where_unlike(found: str, right: str) -> list[str]:
    """Return up to 60 characters from each of two strings, around their first difference.

    Three dots mark what's left out.
    """
    same = len(commonprefix([found, right]))  # noqa: RUF071 - these aren't paths
    start = same - 25 if same > 50 else 0
    return [
        f"{'...' if start else ''}{text[start : start + 60]}{'...' if text[start + 60 :] else ''}"
        for text in (found, right)
    ]


def judge(seen: Rewritten) -> Result:
    """Return "Correct" if all samples are right, and no worker starts too large or grows too much.

    Otherwise, or if a run didn't finish or the broken class hardly grew, raise `Rejected`.
    """
    for run in seen.runs:
        there, file = where(run.workers), "second" if run.workers else "first"
        check_ending(run.end, there)
        if run.different:
            counts = {"different": run.different, "samples": seen.samples}
            not_yet("different", where=there, file=file, **counts, **run.example)
    assert seen.broken, "a run that isn't right was not rejected"
    broken, (broken_by, _) = seen.broken, seen.broken.grown
    if not broken_by > _LEAST:
        could_not_check("broken-stayed-small", broken=f"{broken_by:.0f}")
    started_larger, grew = "started-larger", "grew"
    if not seen.kept:
        started_larger, grew = "started-larger-elsewhere", "grew-elsewhere"
    elif seen.frozen:
        started_larger, grew = "started-larger-frozen", "grew-frozen"
    worst = max(seen.runs, key=seen.grown)
    by, name = seen.grown(worst)
    grown = {"grown": f"{by:.1f}", "broken": f"{broken_by:.1f}"}
    more = max(mb for run in seen.runs for mb in run.first) - max(broken.first)
    if more > max(_MORE * broken_by, by):
        not_yet(started_larger, few=_FEW, more=f"{more:.1f}", kept=seen.kept)
    if by > _MOST:
        there = where(worst.workers)
        not_yet(grew, where=there, worker=name, most=_MOST, kept=seen.kept, **grown)
    return correct(samples=seen.samples, **grown)


def _kept(dataset: Any) -> str:
    kept = []
    for name, value in getattr(dataset, "__dict__", {}).items():  # absent in a class with slots
        if hasattr(value, "__len__") and not isinstance(value, str):
            dtype = f" of {value.dtype}" if isinstance(value, np.ndarray) else ""
            kept.append(f"`{name}` ({type(value).__name__}{dtype})")
    return ", ".join(kept)


GRADER: Final = grader(Captions, write_captions)
