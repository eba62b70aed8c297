"""Grade "07.transfer": labels that are right in every worker, whenever the workers are forked.

Two epochs are run. In each, the workers are forked while a thread of main is half-way through
reading the labels again. Then one epoch more for each line that a refresh comes to: the workers are
forked just before it. What a worker delivers must belong together: all labels of before, or all of
after.
"""

from __future__ import annotations

import linecache
import threading
from functools import partial
from multiprocessing.synchronize import SemLock
from typing import Any, Final

from torch.utils.data import DataLoader

from dltutor.lessons.kit.answers import (
    a_mended_class,
    failed_in_loader,
    failed_in_main,
    made,
)
from dltutor.lessons.kit.outcome import Result, correct, not_yet
from dltutor.lessons.lesson_07.fork_hooks import Hooks, hooks_end_here
from dltutor.lessons.lesson_07.label_server import CLIPS, Clips, Server
from dltutor.lessons.lesson_07.label_versions import problem_of_the_labels
from dltutor.lessons.lesson_07.line_by_line import lines_run
from dltutor.lessons.lesson_07.standstill import (
    not_called_under_fork,
    of_lost_workers,
    where_they_stood,
)
from dltutor.observation import Observation, observe
from dltutor.observation.texts import said, tidy
from dltutor.observation.time_limits import DeadlinePassed, deadline

PATIENCE: Final = 4  # seconds for each thing that the answer does
AT_MOST: Final = 5 * PATIENCE

_EPOCHS: Final = 2


def grade(answer: Any) -> Result:
    """Grade a dataset class, made as `answer(read_labels)`."""
    answer = a_mended_class(
        answer,
        Clips,
        methods=("__len__", "__getitem__", "refresh"),
        without_workers="Who holds the lock when the workers are forked?",
    )
    server = Server(shift=4)  # other labels than the lesson's
    with hooks_end_here() as hooks:
        dataset = made(answer, server.read, "read_labels", within=PATIENCE)
        if len(dataset) != CLIPS:
            return not_yet(f"The server has {CLIPS} clips, and `len(dataset)` is {len(dataset)}.")
        epochs: list[Any] = []
        loader = DataLoader(dataset, batch_size=2, num_workers=2, multiprocessing_context="fork")
        seen = observe(
            loader,
            deadline=PATIENCE,
            consume=lambda loader: epochs.append(server.epoch(loader)),
            epochs=_EPOCHS,
        )
        return (
            _problem_of_the_run(dataset, seen, server, hooks)
            or _problem_in_main(dataset, server)
            or problem_of_the_labels(epochs, server)
            or _problem_at_a_line(loader, epochs, server)
            or correct(
                f"{CLIPS} of {CLIPS} clips arrive in {len(epochs)} epochs, each worker's labels "
                "belong together, and main has the corrected ones; though the workers were forked "
                f"while a refresh was half done, {_EPOCHS} times in the middle of the reading and "
                "once before each of its lines."
            )
        )


def _problem_of_the_run(
    dataset: Any, seen: Observation, server: Server, hooks: Hooks
) -> Result | None:
    if hooks.held_up:
        return not_yet(
            "Main stood still at a fork, in a function of yours that `os.register_at_fork` was "
            "given. Is every lock free again in main too, once a worker is forked?"
        )
    if seen.end == "hung":
        return not_yet(
            f"The run was stopped after {PATIENCE} s. {where_they_stood(seen)}"
            f"{not_called_under_fork(type(dataset))}{_reentrant(dataset)} Which thread would let "
            "them go on, and in which process does it live?"
        )
    if server.failed is not None:
        return failed_in_main(server.failed)
    if seen.end == "worker died":
        return of_lost_workers(seen)
    if seen.end != "finished":
        kind, message = seen.chain[0]
        if seen.raised_in_worker == "KeyError":
            line = f" in line {seen.traceback[-1].line}" if seen.traceback else ""
            return not_yet(
                f"W{seen.failed_worker} goes on, and finds a label missing: "
                f"`{tidy(said(kind, message))}`{line}. It looked while the labels were half read."
                f"{_between_processes(dataset)} What was it that the lock guarded, and in what "
                "state was that copied?"
            )
        return failed_in_loader(seen)
    return None


def _problem_at_a_line(loader: DataLoader[Any], epochs: list[Any], server: Server) -> Result | None:
    cls = type(loader.dataset)
    for place in lines_run(cls, loader.dataset.refresh):  # type: ignore[attr-defined]  # theirs
        seen = observe(loader, deadline=PATIENCE, consume=partial(server.epoch, before=place))
        epochs += [seen.result] if seen.end == "finished" else []
        code, line = place
        forked = (
            f"One thing more. The workers were forked when `{code.co_name}` had come to line "
            f"{line}, `{linecache.getline(code.co_filename, line).strip()}`."
        )
        if seen.end == "hung":
            return not_yet(
                f"{forked} {where_they_stood(seen)} Main's thread holds the lock there, for a "
                "moment: rare enough for a test to miss it, and some morning it is there. Who "
                "reads one complete dict needs no lock."
            )
        if seen.end != "finished" or problem_of_the_labels(epochs, server):
            return not_yet(
                f"{forked} In that moment main's labels are not whole: one part is missing, or of "
                "before. What could be done beforehand, so that one assignment is enough?"
            )
    return None


def _reentrant(dataset: Any) -> str:
    if any(isinstance(each, type(threading.RLock())) for each in vars(dataset).values()):
        return (
            " An RLock lets a thread in that holds it already. It is another that holds this one."
        )
    return ""


def _between_processes(dataset: Any) -> str:
    for name, value in vars(dataset).items():
        if isinstance(value, SemLock):
            return (
                f" The lock `{name}` holds across processes: the worker waits until main's refresh "
                "is done. The labels that it reads then are its own copy, made before."
            )
    return ""


def _problem_in_main(dataset: Any, server: Server) -> Result | None:
    wrong = 0
    try:
        with deadline(PATIENCE):
            for index in range(CLIPS):
                number, label = dataset[index]
                wrong += server.label(number, server.version) != label
    except DeadlinePassed:
        return not_yet(
            "The workers had their labels. Then main asked for `dataset[0]`, and waits: in main "
            "the lock is still held. Who lets it go there, after the fork?"
        )
    if wrong:
        return not_yet(
            f"After the last refresh main still has {wrong} of {CLIPS} labels of before it. What "
            "does `refresh` leave behind?"
        )
    return None
