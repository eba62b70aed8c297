"""Grade "04.transfer", where each word must have the same number in every process."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import torch

from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.forms import a_fixed_class, whole_number
from dltutor.lessons.engine.outcomes import Fault, fault, not_yet, reject
from dltutor.lessons.lesson_04.helpers import Headlines, make_headlines
from dltutor.lessons.lesson_04.runs import Plan, Run, run_plans, samples

# Most words are in only one headline, so a vocabulary from some of the headlines isn't enough.
_RARE: Final = [f"train-{number} waits for bridge-{number}" for number in range(128)]
_HEADLINES: Final = make_headlines(seed=61) + _RARE
# In slow motion, two of the four workers meet each new word at the same moment.
_NEW: Final = 4 * ["Bridge bridge bridge. bridges", "bridge. bridges Bridge bridge"]
# The run in main has other words than the later runs. With the same words, this run would fill an
# answer's global vocabulary, forked workers would inherit it, and the wrong answer would pass.
_OTHERS: Final = [headline.swapcase() for headline in _HEADLINES + _NEW]


def _plan(where: str, headlines: list[str], workers: int, **how: Any) -> Plan:
    backwards = list(range(len(headlines)))[::-1]
    return Plan(where, headlines, ((0, backwards), (1, backwards)), workers, within=12, **how)


PLANS: Final = (
    _plan("with 0 workers", _OTHERS, 0, persistent=False),
    _plan("with 2 fresh workers", _HEADLINES, 2, persistent=False),
    _plan("with 4 workers in slow motion", _NEW, 4, slow=True),
    _plan("with 2 persistent workers", _HEADLINES, 2),
)


def _ask(dataset: Any, headlines: list[str]) -> tuple[dict[str, int | None] | Fault, list[str]]:
    found: Any = getattr(dataset, "vocabulary", None)
    if not hasattr(found, "items"):  # a dict from a Manager isn't a `dict`, but it has items()
        return fault("not-a-dict", kind=type(found).__name__), [*headlines]
    return {str(word): whole_number(number) for word, number in found.items()}, [*headlines]


def judge(run: Run) -> None:
    """Raise `Rejected` unless each word has one number of its own, in all processes.

    The numbers in main's `vocabulary` must not have gaps, and the headlines must be unchanged.
    """
    plan, where = run.plan, run.plan.where
    rows = torch.cat(samples(run, 4)).tolist()
    if any(given != plan.given for _, (_, given) in run.epochs):
        not_yet("headlines-changed")
    drawn = [plan.given[index].split() for _, draw in plan.epochs for index in draw]
    numbers: dict[str, int] = {}
    words: dict[int, str] = {}
    for headline, row in zip(drawn, rows, strict=True):
        for word, number in zip(headline, row, strict=True):
            if (before := numbers.setdefault(word, number)) != number:
                code = "two-numbers" if plan.workers else "two-numbers-in-main"
                not_yet(code, where=where, word=word, number=before, other=number)
            if (same := words.setdefault(number, word)) != word:
                code = "same-number" if plan.workers else "same-number-in-main"
                not_yet(code, where=where, word=same, other=word, number=number)
    for _, (vocabulary, _) in run.epochs:
        if isinstance(vocabulary, Fault):
            reject(vocabulary)
        for word, number in numbers.items():
            if word not in vocabulary:
                not_yet("unknown-word", where=where, word=word, number=number)
            if (known := vocabulary[word]) != number:
                not_yet("other-number", where=where, word=word, number=number, known=known)
        if {*vocabulary.values()} != {*range(len(vocabulary))}:
            not_yet("gaps", last=len(vocabulary) - 1)


GRADER: Final = by_runs(
    partial(run_plans, plans=PLANS, ask=_ask),
    judge,
    look=partial(a_fixed_class, starter=Headlines),
    at_most=sum(plan.within + 2 for plan in PLANS) + 2,
)
