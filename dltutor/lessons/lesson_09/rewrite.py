"""What "09.fix" and "09.transfer" share: a dataset that was rewritten so that no worker grows.

It is run on a fresh file, without workers, with 2 and with 4, beside the broken one and beside one
that keeps bytes only: these two say how much growth there is to be saved, here and now.
"""

from __future__ import annotations

import gc
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class
from dltutor.lessons.kit.running import made, theirs
from dltutor.lessons.lesson_09.growth import (
    WITHIN,
    Run,
    Task,
    measure,
    private_memory_is_known,
)
from dltutor.lessons.lesson_09.judging import WORKERS, Memory, Rewritten, judge
from dltutor.lessons.lesson_09.keeping import (
    array_bytes,
    cached_method,
    emptied,
    python_objects_in,
)
from dltutor.observation.time_limits import DeadlinePassed, deadline

_MAKING: Final = 3  # seconds for making the dataset
_READING: Final = 2  # seconds to find out what the samples are made from


def grader(task: Task) -> Grader[Rewritten]:
    """The grader of such an exercise."""
    return Grader(
        gather=partial(gather, task),
        judge=partial(judge, task),
        look=partial(look, task),
        runs="all samples with 0, 2 and 4 workers, and the broken class beside yours",
        at_most=2 * _MAKING + (len(WORKERS) + 3) * WITHIN + _READING + 4,
    )


def look(task: Task, answer: Any) -> type:
    """The answer, if it is a dataset's class that is no longer the starter."""
    fixed = a_fixed_class(
        answer,
        task.broken,
        without_workers="Without workers nothing is copied, and nothing is loaded in parallel.",
    )
    private_memory_is_known()
    return fixed


def gather(task: Task, answer: type) -> Rewritten:
    """Make and run an answer, up to the first thing that is wrong."""
    path, ours = _file(task), _file(task)  # nobody knows what an answer does to its file
    content = path.read_bytes()
    truth = task.packed(ours)
    frozen, enabled = gc.get_freeze_count(), gc.isenabled()
    dataset = _make(answer, path)
    with theirs():
        promised = len(dataset)
    runs: list[Run] = []
    if promised == len(truth):
        for workers in WORKERS:
            if workers == 2:  # untouched: what it makes on first use is made in the workers
                dataset = _make(answer, path)
            within = WITHIN if workers else 2 * WITHIN  # one process has all the work
            runs.append(measure(dataset, workers=workers, within=within, task=task, truth=truth))
            if not runs[-1].is_right:
                break
    if len(runs) < len(WORKERS) or not runs[-1].is_right:
        return Rewritten(promised, len(truth), tuple(runs))
    kept = python_objects_in(dataset)
    read = next((each for each in kept if _reads(task, dataset, truth, each.name)), None)
    waste = array_bytes(dataset) / max(1, array_bytes(truth))
    del dataset
    memory = Memory(
        kept=kept,
        read=read,
        cached=cached_method(answer),
        frozen=gc.get_freeze_count() > frozen,
        stopped=enabled and not gc.isenabled(),
        waste=waste,
        ideal=measure(truth),
        broken=measure(task.broken(ours)),
    )
    as_before = path.exists() and path.read_bytes() == content
    return Rewritten(promised, len(truth), tuple(runs), memory, as_before)


def _file(task: Task) -> Path:
    path = Path(tempfile.mkdtemp(), "data")  # goes with the process of the check
    task.write(path)
    return path


def _make(answer: type, path: Path) -> Any:
    question = "Does it copy all of an array for each line?"
    call = f"{answer.__name__}(path)"
    return made(answer, path, call=call, within=_MAKING, question=question)


def _reads(task: Task, dataset: Any, truth: Any, name: str) -> bool:
    # Whether samples are not what they were once an attribute's objects are taken out.
    chosen = torch.randperm(len(truth), generator=torch.Generator().manual_seed(3))[:500].tolist()
    try:
        with deadline(_READING), emptied(dataset, name):
            return not all(task.same(dataset[index], truth[index]) for index in chosen)
    except (Exception, DeadlinePassed):
        return True
