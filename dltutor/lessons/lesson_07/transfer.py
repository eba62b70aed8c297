"""Grade "07.transfer": labels that are right in every worker, whenever the workers are forked.

Two epochs are run whose workers are forked while a thread of main is half-way through reading the
labels again. Then one more for each line that a refresh comes to: the workers are forked just
before it. What a worker delivers must belong together: all labels of before, or all of after.
"""

from __future__ import annotations

import linecache
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.synchronize import SemLock
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from dltutor.lessons.kit.endings import Ending, ended_well, ending
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class
from dltutor.lessons.kit.outcomes import Rejected, Result, correct, not_yet
from dltutor.lessons.kit.running import failed_in_main, made, theirs
from dltutor.lessons.lesson_07.line_by_line import lines_run
from dltutor.lessons.lesson_07.material import CLIPS, Clips, Server
from dltutor.observation import observe
from dltutor.observation.time_limits import DeadlinePassed, deadline

Labels = list[tuple[int, int]]  # a clip's number and its label

_LONG: Final = 4  # seconds for each thing that the answer does
_HELD_UP: Final = 2.0  # seconds that a function may hold up a fork
_WORKERS: Final = 2
_HALF_WAY: Final = 2  # epochs whose workers are forked half-way through the reading


@dataclass(frozen=True)
class Epoch:
    """An epoch whose workers were forked at one moment of a refresh.

    Args:
        before: The line that the refresh had come to: "`refresh` had come to line 3, `...`"; "" for
            the middle of the reading.
        run: How it ended.
        wrong: What is wrong with the labels that came, or "".
    """

    before: str
    run: Ending
    wrong: str


@dataclass(frozen=True)
class Evidence:
    """What is known of an answer.

    Args:
        epochs: Up to the first that is not right.
        held_up: Whether a function given to `os.register_at_fork` held up main.
        reads: How many times workers read the whole list.
        main: How many of main's labels are wrong in the end; None if main waits for ever.
        reentrant: Whether it has a lock that one thread may take twice.
        across: The name of a lock that holds across processes, or "".
        pickling: The method that says how it is pickled, or "".
    """

    epochs: tuple[Epoch, ...]
    held_up: bool = False
    reads: int = 0
    main: int | None = 0
    reentrant: bool = False
    across: str = ""
    pickling: str = ""


def look(answer: Any) -> type:
    """The answer, if it is a dataset's class that is no longer the starter."""
    return a_fixed_class(
        answer,
        Clips,
        methods=("__len__", "__getitem__", "refresh"),
        without_workers="Who holds the lock when the workers are forked?",
    )


def gather(answer: type) -> Evidence:
    """Run epochs whose workers are forked at one moment of a refresh after the other."""
    hooks = _Hooks()
    server = Server(shift=4)  # other labels than the lesson's
    dataset = made(answer, server.read, call=f"{answer.__name__}(read_labels)", within=_LONG)
    with theirs():
        if len(dataset) != CLIPS:
            not_yet(f"the server has {CLIPS} clips, and `len(dataset)` is {len(dataset)}.")
        loader = DataLoader(
            dataset, batch_size=2, num_workers=_WORKERS, multiprocessing_context="fork"
        )
    epochs: list[Epoch] = []
    main: int | None = 0

    def run(place: Any) -> bool:
        epochs.append(_epoch(loader, server, place))
        return epochs[-1].run.end == "finished"

    if all(run(None) for _ in range(_HALF_WAY)):
        main = _wrong_in_main(dataset, server)
        if main == 0 and not any(epoch.wrong for epoch in epochs):
            places = lines_run(type(dataset), dataset.refresh)
            all(run(place) and not epochs[-1].wrong for place in places)
    kinds = {name: type(value) for name, value in vars(dataset).items()}
    return Evidence(
        epochs=tuple(epochs),
        held_up=hooks.held_up,
        reads=server.read_by_workers.total,
        main=main,
        reentrant=type(threading.RLock()) in kinds.values(),
        across=next((name for name, kind in kinds.items() if issubclass(kind, SemLock)), ""),
        pickling=next((n for n in ("__getstate__", "__reduce__") if n in vars(answer)), ""),
    )


def _epoch(loader: DataLoader[Any], server: Server, place: Any) -> Epoch:
    seen = observe(loader, deadline=_LONG, consume=partial(server.epoch, before=place))
    if server.failed is not None:
        raise Rejected(failed_in_main(server.failed))
    batches: Any = seen.result if seen.end == "finished" else []
    wrong = _wrong_labels(batches, server) if seen.end == "finished" else ""
    before = ""
    if place is not None:
        code, line = place
        text = linecache.getline(code.co_filename, line).strip()
        before = f"`{code.co_name}` had come to line {line}, `{text}`"
    return Epoch(before, ending(seen), wrong)


class _Hooks:
    # Notes when a function that an answer gives to `os.register_at_fork` holds up a fork in main.
    # Python keeps such functions for as long as the process lives: this one ends with its check.

    def __init__(self) -> None:
        self.held_up = False
        self._main = os.getpid()
        register: Any = os.register_at_fork

        def register_watched(**given: Any) -> None:
            # What cannot be called is left as it is: Python's own message says so.
            register(**{k: self._watched(v) if callable(v) else v for k, v in given.items()})

        os.register_at_fork = register_watched

    def _watched(self, hook: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            if os.getpid() != self._main:
                hook()
                return
            if self.held_up:
                return
            try:
                # A deadline of its own: the run's would ring in the middle of a fork.
                with deadline(_HELD_UP):
                    hook()
            except DeadlinePassed:
                self.held_up = True

        return run


def _wrong_in_main(dataset: Any, server: Server) -> int | None:
    try:
        with theirs(), deadline(_LONG):
            samples = [dataset[index] for index in range(CLIPS)]
            return sum(bool(server.label(i, server.version) != label) for i, label in samples)
    except DeadlinePassed:
        return None


def _wrong_labels(batches: list[Any], server: Server) -> str:
    # Batches are dealt out to the workers in turn.
    for worker in range(_WORKERS):
        labels = [pair for batch in batches[worker::_WORKERS] for pair in _pairs(batch)]
        if text := _wrong_of_worker(labels, server):
            return f"W{worker}: {text}"
    numbers = [number for batch in batches for number, _ in _pairs(batch)]
    if numbers != list(range(CLIPS)):
        return f"it brings the clips {numbers} instead of 0 to {CLIPS - 1}."
    return ""


def _pairs(batch: Any) -> Labels:
    tensors = isinstance(batch, (list, tuple)) and len(batch) == 2
    if not tensors or not all(isinstance(each, torch.Tensor) and each.dim() == 1 for each in batch):
        not_yet("a sample must stay what it was: the clip's index and its label.")
    numbers, labels = (each.tolist() for each in batch)
    return list(zip(numbers, labels, strict=True))


def _wrong_of_worker(labels: Labels, server: Server) -> str:
    new = server.version
    right = {
        version: sum(server.label(number, version) == label for number, label in labels)
        for version in range(new + 1)
    }
    if len(labels) in (right[new - 1], right[new]):
        return ""
    if right[0] == len(labels):
        return (
            "the labels are those of the start, and the refresh of the epoch before has been "
            "finished. Whose copy does the worker read?"
        )
    if right[new - 1] + right[new] == len(labels):
        return (
            f"{right[new - 1]} labels of before the refresh and {right[new]} of after it, in one "
            "worker. It looked while the labels were half read. What was it that the lock guarded?"
        )
    strange = len(labels) - right[new - 1] - right[new]
    return f"{strange} of {len(labels)} labels were never on the server. Who made them up?"


def judge(evidence: Evidence) -> Result:
    """Correct if the labels of each worker belonged together, at whatever moment it was forked."""
    if evidence.held_up:
        not_yet(
            "main hung at a fork, in a function of yours that `os.register_at_fork` was given. Is "
            "every lock free again in main too, once a worker is forked?"
        )
    half_way = [epoch for epoch in evidence.epochs if not epoch.before]
    for epoch in half_way:
        _ended_half_way(evidence, epoch.run)
    if evidence.main is None:
        not_yet(
            "the workers had their labels. Then main asked for `dataset[0]`, and waits: in main "
            "the lock is still held. Who releases it there, after the fork?"
        )
    if evidence.main:
        not_yet(
            f"after the last refresh main still has {evidence.main} of {CLIPS} labels of before "
            "it. What does `refresh` leave behind?"
        )
    for number, epoch in enumerate(half_way):
        if epoch.wrong:
            not_yet(f"in epoch {number}, {epoch.wrong}")
    for epoch in evidence.epochs[len(half_way) :]:
        _judge_at_a_line(epoch)
    if evidence.reads > _WORKERS * len(evidence.epochs):
        not_yet(
            f"the labels are right. For {CLIPS * len(evidence.epochs)} samples the workers read "
            f"the whole list {evidence.reads} times. What does a worker find in its copy of main, "
            "if main leaves it whole?"
        )
    lines = len(evidence.epochs) - _HALF_WAY
    return correct(
        f"{CLIPS} of {CLIPS} clips arrive in {len(evidence.epochs)} epochs, each worker's labels "
        "belong together, and main has the corrected ones, though the workers were forked while a "
        f"refresh was half done: {_HALF_WAY} times in the middle of the reading and {lines} times "
        "before one of its lines."
    )


def _ended_half_way(evidence: Evidence, run: Ending) -> None:
    if run.end == "hung":
        why = " An RLock lets a thread in that holds it already. It is another that holds this one."
        pickled = f" `{evidence.pickling}` was not called: fork pickles nothing."
        not_yet(
            f"the run was stopped after {run.deadline:g} s. {run.stood}"
            f"{pickled if evidence.pickling else ''}{why if evidence.reentrant else ''} Which "
            "thread would let them go on, and in which process does it live?"
        )
    if run.raised_in_worker == "KeyError":
        across = (
            f" The lock `{evidence.across}` holds across processes: the worker waits until main's "
            "refresh is done. The labels that it reads then are its own copy, made before."
        )
        not_yet(
            f"W{run.failed_worker} goes on, and finds a label missing: {run.error} It looked while "
            f"the labels were half read.{across if evidence.across else ''} What was it that the "
            "lock guarded, and in what state was that copied?"
        )
    ended_well(run)


def _judge_at_a_line(epoch: Epoch) -> None:
    forked = f"one thing more. The workers were forked when {epoch.before}."
    if epoch.run.end == "hung":
        not_yet(
            f"{forked} {epoch.run.stood} Main's thread holds the lock there, for a moment: rare "
            "enough for a test to miss it, and some morning it is there. Who reads one complete "
            "dict needs no lock."
        )
    if epoch.run.end != "finished" or epoch.wrong:
        not_yet(
            f"{forked} In that moment main's labels are not whole: one part is missing, or of "
            "before. What could be done beforehand, so that one assignment is enough?"
        )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=look,
    runs="runs epochs with 2 workers, forked at one moment of a refresh after the other",
    at_most=60,
)
