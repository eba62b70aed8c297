"""Grade "04.fix": the epoch has to reach the workers, and the count of silence has to come back."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import torch

from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_class, whole_number
from dltutor.lessons.engine.outcomes import Result, correct, error_in_your_code, not_yet
from dltutor.lessons.lesson_04.material import CountedClips, make_clips, stretches
from dltutor.lessons.lesson_04.runs import Plan, Run, run_plans, samples

_CLIPS: Final = make_clips((0, 301, 1), seed=45)
# Four are nearly silent: one never moves, one ends with a sound, and of two the sum or the maximum
# is 0.
_CLIPS[8, :32], _CLIPS[9, :31] = 7, 0
_CLIPS[13:15, :32], _CLIPS[13, 7], _CLIPS[13:15, 9] = 0, 5, -5
_MORE: Final = torch.cat((_CLIPS, _CLIPS[4:12]))
_ALL: Final = list(range(16))
_MOST: Final = [*range(24), *(40 * [2])]  # more silent ones than a byte can count
# As a resumed run does, with a sampler that draws some recordings twice and others not at all.
_EPOCHS: Final = ((0, _ALL), (301, 2 * _ALL[:8]), (1, _ALL))
# In slow motion, all workers draw one recording at the same moment, and then the next one.
_AT_ONCE: Final = tuple((epoch, sorted(4 * _ALL[:8])) for epoch in (0, 301, 1))
PLANS: Final = (
    Plan("with 2 persistent workers under fork", _CLIPS, _EPOCHS),
    Plan("with 4 workers in slow motion", _CLIPS, _AT_ONCE, 4, within=20, slow=True),
    Plan("with 2 fresh workers under fork", _CLIPS, _EPOCHS, persistent=False),
    Plan("with 0 workers", _MORE, (*_EPOCHS, (1, 8 * _MOST)), 0, persistent=False, within=12),
    Plan("with 2 spawned workers", _CLIPS, _AT_ONCE, method="spawn", within=60, slow=True),
)
_SPAWN: Final = (
    " Under fork it is right. A spawned worker gets your dataset by pickle, with its attributes, "
    "and imports every module anew, with its globals and class attributes, locks too. What of "
    "yours does not travel?"
)


def _ask(dataset: Any, given: Any) -> int | str:
    said = dataset.silent()
    number = None if isinstance(said, str) else whole_number(said)
    if isinstance(said, torch.Tensor) and said.is_shared():  # what was noted would change
        return "Tensor that later counts change"
    return type(said).__name__ if number is None else number


def judge(runs: tuple[Run, ...]) -> Result:
    """Correct if every stretch was heard in its epoch and every silent one counted, in all runs."""
    for run in runs:
        _judge(run)
    return correct(
        "Each epoch has its own stretches, and every silent one that was drawn is counted: with 0, "
        "2 and 4 workers, persistent and fresh ones, under fork and spawn, in slow motion too."
    )


def _judge(run: Run) -> None:
    plan, spawn = run.plan, _SPAWN if run.plan.method == "spawn" else ""
    if spawn and run.end.end == "raised":
        error_in_your_code(f"{plan.where}, `{run.end.message}`.{spawn}")
    drawn = 0
    for (epoch, draw), got in zip(plan.epochs, samples(run, 32, spawn.strip()), strict=True):
        wanted = stretches(plan.given, epoch)[draw]
        if wrong := int((got != wanted).any(dim=1).sum()):
            text = f"{wrong} of {len(wanted)} stretches of epoch {epoch} are wrong"
            not_yet(f"{plan.where}, {text}{_instead(plan, got, draw, epoch)}{spawn}")
    for (epoch, draw), (_, said) in zip(plan.epochs, run.epochs, strict=True):
        drawn += int((~stretches(plan.given, epoch)[draw].any(dim=1)).sum())
        if isinstance(said, str):
            not_yet(f"`silent()` returned a {said}, and has to return a whole number.")
        if said != drawn:
            text = f"{drawn} silent stretches were drawn, and `silent()` says {said}."
            not_yet(f"{plan.where}, {text}{_why(plan, said, drawn)}{spawn}")


def _instead(plan: Plan, got: torch.Tensor, draw: list[int], epoch: int) -> str:
    others = [each for each in range(302) if torch.equal(got, stretches(plan.given, each)[draw])]
    if not others:
        return f". Which numbers of a recording belong to epoch {epoch}, and who changes them?"
    return (
        f": they are those of epoch {others[0]}. Main had called `set_epoch({epoch})`. What did "
        "it write, and which copy of the number did `__getitem__` read? Epochs may be left out."
    )


def _why(plan: Plan, said: int, silent: int) -> str:
    if said == 0 and not plan.workers:
        return " Who counts, and when?"
    if said == 0 and plan.persistent:  # no second dataset was made
        return " Who counted, and in which copy?"
    drawn = (
        " It counts all that were drawn since this dataset was made, each as often as it was, as "
        "soon as the epoch is over. A second one, made in between, counts its own. Silent is a "
        "stretch of 32 zeros."
    )
    if said > silent or not plan.workers:
        return drawn
    if not plan.slow:
        return f" Is a count lost, or does something set it back?{drawn}"
    return (
        " Counts get lost when workers count at the same moment. What may nobody else do between "
        "reading a number and writing it back?"
    )


GRADER: Final = Grader(
    gather=partial(run_plans, plans=PLANS, ask=_ask, judge=_judge),
    judge=judge,
    look=partial(
        a_fixed_class,
        starter=CountedClips,
        methods=("__len__", "__getitem__", "set_epoch", "silent"),
    ),
    runs="your class with 2, 4 and 0 workers, in slow motion, and under spawn",
    at_most=sum(plan.within + 2 for plan in PLANS) + 5,
)
