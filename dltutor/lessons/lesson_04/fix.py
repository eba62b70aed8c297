"""Grade "04.fix", where the epoch must reach the workers, and their counts must reach main."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import torch

from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.forms import a_fixed_class, whole_number
from dltutor.lessons.engine.outcomes import (
    Fault,
    Rejected,
    fault,
    not_yet,
    reject,
)
from dltutor.lessons.lesson_04.helpers import CountedClips, make_clips, stretches
from dltutor.lessons.lesson_04.runs import Plan, Run, run_plans, samples

_CLIPS: Final = make_clips((0, 301, 1), seed=45)
# Four stretches aren't silent, though a careless test calls them silent. One stays at 7, one ends
# with a sound, one has a sum of 0, and one has a maximum of 0.
_CLIPS[8, :32], _CLIPS[9, :31] = 7, 0
_CLIPS[13:15, :32], _CLIPS[13, 7], _CLIPS[13:15, 9] = 0, 5, -5
_MORE: Final = torch.cat((_CLIPS, _CLIPS[4:12]))
_ALL: Final = list(range(16))
# The epoch numbers jump, as in a resumed run. In epoch 301, the sampler draws some recordings twice
# and leaves out others.
_EPOCHS: Final = ((0, _ALL), (301, 2 * _ALL[:8]), (1, _ALL))
# In slow motion, all workers read the same recording at the same moment, then the next recording.
_AT_ONCE: Final = tuple((epoch, sorted(4 * _ALL[:8])) for epoch in (0, 301, 1))
PLANS: Final = (
    Plan("with 2 persistent workers under fork", _CLIPS, _EPOCHS),
    Plan("with 4 workers in slow motion", _CLIPS, _AT_ONCE, 4, within=20, slow=True),
    Plan("with 2 fresh workers under fork", _CLIPS, _EPOCHS, persistent=False),
    Plan("with 0 workers", _MORE, (*_EPOCHS, (1, [*range(24)])), 0, persistent=False),
    Plan("with 2 spawned workers", _CLIPS, _AT_ONCE, method="spawn", within=60, slow=True),
)


def _ask(dataset: Any, given: Any) -> int | Fault:
    said = dataset.silent()
    if isinstance(said, torch.Tensor) and said.is_shared():
        return fault("shared-tensor")
    number = None if isinstance(said, str) else whole_number(said)
    return fault("not-a-number", kind=type(said).__name__) if number is None else number


def judge(run: Run) -> None:
    """Raise `Rejected` unless the run read the right stretches and `silent()` was always right."""
    try:
        _judge(run)
    except Rejected as rejected:
        if run.plan.method != "spawn":
            raise
        raise Rejected(rejected.result.under("spawned")) from None


def _judge(run: Run) -> None:
    plan, drawn = run.plan, 0
    for (epoch, draw), got in zip(plan.epochs, samples(run, 32), strict=True):
        wanted = stretches(plan.given, epoch)[draw]
        if wrong := int((got != wanted).any(dim=1).sum()):
            fields = {"where": plan.where, "wrong": wrong, "drawn": len(wanted), "epoch": epoch}
            for other in range(302):
                if torch.equal(got, stretches(plan.given, other)[draw]):
                    not_yet("other-epoch", other=other, **fields)
            not_yet("wrong-stretches", **fields)
    for (epoch, draw), (_, said) in zip(plan.epochs, run.epochs, strict=True):
        drawn += int((~stretches(plan.given, epoch)[draw].any(dim=1)).sum())
        if isinstance(said, Fault):
            reject(said)
        if said != drawn:
            code = _miscounted(plan, said, drawn)
            not_yet(code, where=plan.where, drawn=drawn, said=said)


def _miscounted(plan: Plan, said: int, drawn: int) -> str:
    # With persistent workers, the check makes no second dataset that could reset the count. So if
    # the count is 0, no worker's count has reached main.
    if said == 0 and plan.workers and plan.persistent:
        return "none-counted"
    if said > drawn or not plan.workers:
        return "other-count"
    return "lost-counts" if plan.slow else "lost-or-set-back"


GRADER: Final = by_runs(
    partial(run_plans, plans=PLANS, ask=_ask),
    judge,
    look=partial(
        a_fixed_class,
        starter=CountedClips,
        methods=("__len__", "__getitem__", "set_epoch", "silent"),
    ),
    at_most=sum(plan.within + 2 for plan in PLANS) + 5,
)
