"""Grade "07.transfer": labels that are right in every worker, whenever the workers are forked.

Two epochs are run whose workers are forked while a thread of main is half-way through reading the
labels again. Then one more for each line that a refresh comes to: the workers are forked just
before it. What a worker delivers must belong together: all labels of before, or all of after.
"""

from __future__ import annotations

import linecache
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

from torch.utils.data import DataLoader

from dltutor.lessons.kit.endings import Ending, ended_well, run_loader
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class
from dltutor.lessons.kit.outcomes import Result, correct, not_yet
from dltutor.lessons.kit.running import made
from dltutor.lessons.lesson_07.material import CLIPS, Clips, Server

Place = tuple[CodeType, int]  # a method's code, and one of its lines

_LONG: Final = 4  # seconds for each thing that the answer does
_FORK: Final = 2.0  # seconds that two forks in main may take
_HALF_WAY: Final = (2, 4)  # workers of the epochs that begin half-way through the reading
_AT_A_LINE: Final = 2  # workers of each epoch after these


@dataclass(frozen=True)
class Epoch:
    """An epoch whose workers were forked at one moment of a refresh.

    Args:
        before: The line that the refresh had come to, "" for the middle of the reading.
        run: How it ended.
        wrong: What is wrong with the labels that came, or "".
    """

    before: str
    run: Ending
    wrong: str = ""


@dataclass(frozen=True)
class Evidence:
    """What is known of an answer.

    Args:
        epochs: Up to the first that is not right.
        main: How many of main's labels are wrong in the end.
        reads: How many times workers read the whole list in the half-way epochs.
    """

    epochs: tuple[Epoch, ...]
    main: int = 0
    reads: int = 0


def gather(answer: type) -> Evidence:
    """Run epochs whose workers are forked at one moment of a refresh after the other."""
    server = Server(shift=4)  # other labels than the lesson's
    dataset = made(answer, server.read, call=f"{answer.__name__}(read_labels)", within=_LONG)
    made(dataset.refresh, call="dataset.refresh()", within=_LONG)
    if (length := made(lambda: len(dataset), call="len(dataset)", within=_LONG)) != CLIPS:
        not_yet(f"the server has {CLIPS} clips, and `len(dataset)` is {length}.")
    _fork_twice()
    epochs: list[Epoch] = []
    for workers in _HALF_WAY:
        epochs.append(_epoch(dataset, server, workers))
        if epochs[-1].run.end != "finished":
            return Evidence(tuple(epochs))
    reads = server.read_by_workers.value
    labels = made(
        lambda: [dataset[index] for index in range(CLIPS)],
        call=f"[dataset[i] for i in range({CLIPS})]",
        within=_LONG,
        question="That was in main, after the workers had their labels. Who holds the lock there?",
    )
    wrong = sum(bool(server.label(i, server.version) != label) for i, label in labels)
    if not wrong and not any(epoch.wrong for epoch in epochs):
        places: dict[Place, None] = {}  # each once, in their order
        _refresh_traced(dataset, places.setdefault)
        for place in places:
            epochs.append(_epoch(dataset, server, _AT_A_LINE, place))
            if epochs[-1].wrong or epochs[-1].run.end != "finished":
                break
    return Evidence(tuple(epochs), wrong, reads)


def _fork_twice() -> None:
    # In a thread that may wait for ever: a function given to `os.register_at_fork` can hold it up.
    def fork() -> None:
        for _ in range(2):
            if not (pid := os.fork()):
                os._exit(0)
            os.waitpid(pid, 0)

    thread = threading.Thread(target=fork, daemon=True)
    thread.start()
    thread.join(_FORK)
    if thread.is_alive():
        not_yet(
            f"main forked twice, and did not come back within {_FORK:g} s: it waits in what "
            "`os.register_at_fork` was given. Is every lock free again in main too, after a fork?"
        )


def _epoch(dataset: Any, server: Server, workers: int, place: Place | None = None) -> Epoch:
    batches: list[Any] = []

    def refresh() -> None:
        _refresh_traced(dataset, lambda at: server.fork_now() if at == place else None)

    def loop(loader: DataLoader[Any]) -> None:
        batches.extend(server.epoch(loader, refresh if place else None))

    run = run_loader(dataset, loop, workers=workers, within=_LONG, batch_size=2)
    wrong = _wrong_labels(batches, server, workers) if run.end == "finished" else ""
    before = linecache.getline(place[0].co_filename, place[1]).strip() if place else ""
    return Epoch(before, run, wrong)


def _refresh_traced(dataset: Any, at: Callable[[Place], object]) -> None:
    # Refreshes in this thread, and calls `at` with each line of the class that this comes to.
    functions = (each for base in type(dataset).__mro__ for each in vars(base).values())
    codes = {each.__code__ for each in functions if isinstance(each, FunctionType)}

    def step(frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            at((frame.f_code, frame.f_lineno))
        return step

    sys.settrace(lambda frame, *_: step if frame.f_code in codes else None)
    try:
        dataset.refresh()
    finally:
        sys.settrace(None)


def _wrong_labels(batches: list[Any], server: Server, workers: int) -> str:
    pairs = [list(zip(*(each.tolist() for each in batch), strict=True)) for batch in batches]
    numbers = [number for batch in pairs for number, _ in batch]
    if numbers != list(range(CLIPS)):
        return f"the clips {numbers} come, instead of 0 to {CLIPS - 1}."
    for worker in range(workers):  # batches are dealt out to the workers in turn
        labels = [pair for batch in pairs[worker::workers] for pair in batch]
        right = [
            sum(server.label(number, version) == label for number, label in labels)
            for version in range(server.version + 1)
        ]
        if len(labels) in right[-2:]:
            continue
        if len(labels) == right[0]:
            return (
                f"W{worker} has the labels of the start, and the refresh of the epoch before had "
                "been finished. Whose copy does the worker read?"
            )
        return (
            f"of {len(labels)} labels in W{worker}, {right[-2]} are of before the refresh and "
            f"{right[-1]} of after it. What was it that the lock guarded?"
        )
    return ""


def judge(evidence: Evidence) -> Result:
    """Correct if the labels of each worker belonged together, at whatever moment it was forked."""
    half_way = evidence.epochs[: len(_HALF_WAY)]
    for epoch in half_way:
        if epoch.run.end == "hung":
            not_yet(
                f"the run was stopped after {epoch.run.deadline:g} s. {epoch.run.stood} Which "
                "thread would let them go on, and in which process does it live?"
            )
        if epoch.run.raised_in_worker:
            not_yet(
                f"W{epoch.run.failed_worker} was forked while main's labels were half read, and "
                f"raises: {epoch.run.error} In what state was it that the lock guarded?"
            )
        ended_well(epoch.run)
    if evidence.main:
        not_yet(
            f"after the last refresh main still has {evidence.main} of {CLIPS} labels of before "
            "it. What does `refresh` leave behind?"
        )
    for number, epoch in enumerate(half_way):
        if epoch.wrong:
            not_yet(f"in epoch {number}, {epoch.wrong}")
    for epoch in evidence.epochs[len(_HALF_WAY) :]:
        _at_a_line(epoch)
    if evidence.reads > sum(_HALF_WAY):
        not_yet(
            f"the labels are right. In {len(_HALF_WAY)} epochs, {sum(_HALF_WAY)} workers read the "
            f"whole list {evidence.reads} times. Once in each worker is the most."
        )
    return correct(
        f"{CLIPS} of {CLIPS} clips arrive in every epoch, each worker's labels belong together, "
        "and main has the corrected ones. The workers were forked in the middle of a reading, and "
        "before each line that a refresh comes to."
    )


def _at_a_line(epoch: Epoch) -> None:
    forked = f"one moment is left: workers forked when the refresh had come to `{epoch.before}`."
    if epoch.run.end == "hung":
        not_yet(
            f"{forked} {epoch.run.stood} Main's thread holds the lock there, if only for a moment. "
            "Does who reads one complete dict need a lock?"
        )
    if epoch.run.end != "finished" or epoch.wrong:
        not_yet(
            f"{forked} {epoch.run.error or epoch.wrong} In that moment main's labels are not "
            "whole. What could be done beforehand, so that one assignment is enough?"
        )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(
        a_fixed_class,
        starter=Clips,
        methods=("__len__", "__getitem__", "refresh"),
        without_workers="Who holds the lock when the workers are forked?",
    ),
    runs="runs epochs with 2 and 4 workers, forked at one moment of a refresh after the other",
    at_most=60,
)
