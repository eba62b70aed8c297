"""Grade "04.transfer": each word has one number, in every process, and main can read it back."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import torch

from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_class, whole_number
from dltutor.lessons.engine.outcomes import Result, correct, not_yet
from dltutor.lessons.lesson_04.material import Headlines, make_headlines
from dltutor.lessons.lesson_04.runs import Plan, Run, run_plans, samples

# Most words stand in one headline only, and most of those beyond the first hundred.
_RARE: Final = [f"train-{number} waits for bridge-{number}" for number in range(128)]
_HEADLINES: Final = make_headlines(seed=61) + _RARE
# In slow motion four workers meet new words at the same moment: each word two of them, or all.
_NEW: Final = 4 * ["Bridge bridge bridge. bridges", "bridge. bridges Bridge bridge"]
# Words that no later run has: a global variable of main would know them there.
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
_IN_MAIN: Final = (
    "Main alone gives the numbers here. When are two words the same to it, and do the headlines, "
    "and the numbers in each, stand in the order that came in?"
)
_WITH_WORKERS: Final = (
    "With 0 workers it was right. Who gives a word its number, and what does another process "
    "know of it at that moment?"
)


def _ask(dataset: Any, headlines: list[str]) -> tuple[dict[str, int | None] | str, list[str]]:
    found: Any = getattr(dataset, "vocabulary", None)
    if not hasattr(found, "items"):  # a Manager's dict has them
        missing = not hasattr(dataset, "vocabulary")
        return "missing" if missing else f"a {type(found).__name__}", [*headlines]
    return {str(word): whole_number(number) for word, number in found.items()}, [*headlines]


def judge(runs: tuple[Run, ...]) -> Result:
    """Correct if in every run each word has one number of its own, and main knows it."""
    for run in runs:
        _judge(run)
    return correct(
        "Each word has one number, with 0, 2 and 4 workers and in every epoch; no two have the "
        "same, and main reads all of them back with `vocabulary`. (Does it have the same one in "
        "your next run? From a sorted list, yes; a bare `set` has another order in each run.)"
    )


def _judge(run: Run) -> None:
    plan, why = run.plan, _WITH_WORKERS if run.plan.workers else _IN_MAIN
    rows = torch.cat(samples(run, 4)).tolist()
    if any(given != plan.given for _, (_, given) in run.epochs):
        not_yet("the list of headlines that your class was given has changed.")
    drawn = [plan.given[index].split() for _, draw in plan.epochs for index in draw]
    numbers: dict[str, int] = {}
    words: dict[int, str] = {}
    for headline, row in zip(drawn, rows, strict=True):
        for word, number in zip(headline, row, strict=True):
            if (other := numbers.setdefault(word, number)) != number:
                not_yet(f"{plan.where}, in the places of `{word}` came {other} and {number}. {why}")
            if (same := words.setdefault(number, word)) != word:
                places = f"in the places of `{same}` and of `{word}`"
                not_yet(f"{plan.where}, {places} came the number {number}. {why}")
    for _, (vocabulary, _) in run.epochs:
        if isinstance(vocabulary, str):
            not_yet(f"main's `vocabulary` is {vocabulary}, and has to be a dict.")
        if odd := [word for word, number in vocabulary.items() if number is None]:
            not_yet(f"main's `vocabulary` has no number for `{odd[0]}`. It maps word to number.")
        for word, number in numbers.items():
            if (known := vocabulary.get(word, "nothing")) != number:
                text = f"`{word}` came as {number}, and main's `vocabulary` has {known} for it."
                not_yet(f"{plan.where}, {text} Who has to fill it, and when?")
        if {*vocabulary.values()} != {*range(len(vocabulary))}:
            last = len(vocabulary) - 1
            not_yet(f"the numbers in `vocabulary` are not 0 to {last} without gaps.")


GRADER: Final = Grader(
    gather=partial(run_plans, plans=PLANS, ask=_ask, judge=_judge),
    judge=judge,
    look=partial(a_fixed_class, starter=Headlines),
    runs="two epochs with 4, 2 and 0 workers",
    at_most=sum(plan.within + 2 for plan in PLANS) + 2,
)
