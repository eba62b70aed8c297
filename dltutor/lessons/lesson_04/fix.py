"""Grade "04.fix": the epoch has to reach the workers, and the count of silence has to come back.

The answer is run on recordings that the lesson does not show, with 0, 2 and 4 workers under fork
and one under spawn, and in slow motion. Epochs come in no order, and draw some recordings twice and
others not at all. What is found first is told, and nothing is run after it.
"""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import torch

from dltutor.lessons.kit.endings import ended_well
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class
from dltutor.lessons.kit.outcomes import Result, correct, not_yet
from dltutor.lessons.kit.running import send_cells
from dltutor.lessons.lesson_04.copies import refuse_a_loader
from dltutor.lessons.lesson_04.hearing import MAKING, Heard, Plan, Run, drive, run
from dltutor.lessons.lesson_04.material import CROP, CountedClips, make_clips, silence
from dltutor.lessons.lesson_04.slow_motion import SlowMotion, written_by_several

#: The epochs that main sets, as a resumed run does: nobody can count them for themselves.
EPOCHS: Final = (0, 3, 1)

_SEED: Final = 45
_ALL: Final = list(range(16))
_HALF_TWICE: Final = 2 * _ALL[:8]
_MANY: Final = 100  # times the same: more silence than a byte can count
_SPAWNED: Final = 40  # seconds for the run under spawn, where the worker imports torch


@dataclass(frozen=True)
class Evidence:
    """What was seen of an answer.

    Args:
        runs: The runs at full speed, up to the first that was not as it has to be.
        slow: The run in slow motion, in which every stretch is silent; None if it was not run.
        unguarded: A number that several workers write to without a lock, or "".
    """

    runs: tuple[Run, ...]
    slow: Run | None = None
    unguarded: str = ""


def look(answer: Any) -> type:
    """The answer, if it is a class with the methods of the starter, and not the starter."""
    refuse_a_loader(answer)
    methods = ("__len__", "__getitem__", "set_epoch", "silent")
    return a_fixed_class(answer, CountedClips, methods=methods)


def gather(answer: type) -> Evidence:
    """Run it: once, then with races made certain, then under all other circumstances."""
    first, *others = _plans()
    runs = [run(answer, first)]
    if not runs[0].all_heard or not any(heard.said for heard in runs[0].heard):
        return Evidence(tuple(runs))
    slow = run(answer, _slow_motion(answer))
    unguarded = _unguarded(answer) if slow.all_heard and slow.all_counted else ""
    if not unguarded and slow.all_counted:
        send_cells()
        for plan in others:
            if runs[-1].all_heard and runs[-1].all_counted:
                runs.append(run(answer, plan))
    return Evidence(tuple(runs), slow, unguarded)


def _plans() -> tuple[Plan, ...]:
    clips = make_clips(EPOCHS, seed=_SEED)
    draws = tuple(zip(EPOCHS, (_ALL, _HALF_TWICE, _ALL), strict=True))
    many = (*draws[:-1], (EPOCHS[-1], _MANY * _ALL))
    spawned = Plan("with a persistent worker under spawn", clips, draws, workers=1, method="spawn")
    return (
        Plan("with 2 persistent workers under fork", clips, draws),
        Plan("with 2 fresh workers under fork", clips, draws, persistent=False),
        Plan("with 4 persistent workers under fork", clips, draws, workers=4, batch_size=2),
        Plan("with 0 workers", clips, many, workers=0),
        replace(spawned, deadline=_SPAWNED),
    )


def _slow_motion(answer: type) -> Plan:
    start = SlowMotion(answer, multiprocessing.get_context("fork").Barrier(2))
    silent = torch.zeros_like(make_clips((), number=8))
    where = "with 2 persistent workers that take each step slowly"
    return Plan(where, silent, ((0, list(range(8))),), batch_size=1, init=start)


def _unguarded(answer: type) -> str:
    # In epoch k only recording k is silent, and only Wk draws it.
    clips = make_clips((), number=4)
    for index in range(4):
        silence(clips, index, index)
    plan = Plan("with 4 workers that count in turn", clips, (), workers=4, batch_size=1)
    _, end, written = drive(answer, plan, partial(written_by_several, epochs=4))
    ended_well(end, plan.where)
    return next(iter(written), "")


def judge(evidence: Evidence) -> Result:
    """Correct if every stretch was heard in its epoch and every silent one counted, in all runs."""
    first, slow = evidence.runs[0], evidence.slow
    _heard(first)
    _said(first)
    if slow is not None:
        _heard(slow)
        _said(slow)
        _lost(slow.heard[0], evidence.unguarded)
        _counted(slow)
    for each in evidence.runs:
        _heard(each)
        _said(each)
        _counted(each)
    return correct(
        f"In the epochs {', '.join(map(str, EPOCHS))} all stretches are the epoch's own, and every "
        "silent one that was drawn is counted: with 0, 2 and 4 workers, persistent and fresh ones, "
        "under fork and spawn, and when the workers write slowly."
    )


def _heard(each: Run) -> None:
    if not each.all_heard and each.left_behind:
        not_yet(
            "under fork all is well. Under spawn a worker gets the dataset, with its attributes, "
            "and makes every global of the module anew. Your class reads the global "
            f"`{each.left_behind}`. How could that travel with the dataset?"
        )
    _ended(each)
    for heard in each.heard:
        if heard.form:
            not_yet(
                f"a sample is no longer a stretch of {CROP} numbers: a batch is {heard.form}. The "
                "exercise leaves the samples as they are."
            )
        if heard.came != heard.drawn:
            not_yet(f"{heard.came} of {heard.drawn} stretches came. What does `__len__` say?")
        if heard.right < heard.drawn:
            _wrong_stretches(each, heard)


def _ended(each: Run) -> None:
    under_spawn = f"under fork all is well. {each.where[0].upper()}{each.where[1:]}"
    if "is being shared with a process in a" in each.end.message:
        not_yet(
            f"{under_spawn}: `{each.end.kind}`, as the lock in your class belongs to fork. Whose "
            "`Value` or `Lock` can be handed to any worker?"
        )
    if "pickle" in each.end.message:
        not_yet(
            f"{under_spawn}: `{each.end.message}`. The dataset is sent to a spawned worker, with "
            "all its attributes. Which of them cannot travel?"
        )
    ended_well(each.end, each.where)


def _wrong_stretches(each: Run, heard: Heard) -> None:
    epoch, other = heard.epoch, heard.of_epoch
    wrong = heard.drawn - heard.right
    text = f"{each.where}, {wrong} of {heard.drawn} stretches of epoch {epoch} are wrong"
    if other is None:
        not_yet(f"{text}. Which stretch does `start` have to be in epoch {epoch}?")
    if other == EPOCHS[0]:
        not_yet(
            f"{text}: they are those of epoch {other}. `set_epoch({epoch})` was called in main, "
            f"after the workers had started.{each.kept or ' Which memory do both sides see?'}"
        )
    not_yet(
        f"{text}: they are those of epoch {other}. Who counts the epochs in your class? Main says "
        f"`set_epoch({epoch})` and means it, and a resumed run begins with another epoch than 0."
    )


def _said(each: Run) -> None:
    last = each.heard[-1]
    if isinstance(last.said, str):
        not_yet(
            f"`silent()` returned a {last.said}, and has to return a whole number. A `Value` holds "
            "its number in `.value`."
        )
    if last.silent and not any(heard.said for heard in each.heard):
        not_yet(
            f"each epoch hears its own stretches. But {each.where}, {last.silent} stretches were "
            f"silent up to the end of epoch {last.epoch}, and `silent()` says 0 in main. Who "
            f"changed which copy?{each.kept}"
        )


def _lost(slow: Heard, unguarded: str) -> None:
    if int(slow.said) < slow.silent:
        not_yet(
            "counts get lost where two workers count at the same time. Each waited a moment "
            f"between reading the number and writing it back: of {slow.silent} silent stretches "
            f"`silent()` says {slow.said}. What may nobody else do between those two?"
        )
    if unguarded:
        not_yet(
            f"`{unguarded}` is one number in a shared tensor, and several workers add to it. "
            "Reading it and writing it back are two steps, also in a tensor: now and then a count "
            "gets lost. What does a `Value` have that a tensor has not? Or who could write where?"
        )


def _counted(each: Run) -> None:
    for heard in each.heard:
        if heard.said != heard.silent:
            not_yet(
                f"{each.where}, {heard.silent} silent stretches were drawn up to the end of epoch "
                f"{heard.epoch}, and `silent()` says {heard.said}. It counts all that were drawn "
                "since the dataset was made, each as often as it was."
            )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=look,
    runs="your class with 2, 4 and 0 workers, in slow motion, and under spawn",
    at_most=6 * (Plan.deadline + MAKING) + _SPAWNED + MAKING + 3,
)
