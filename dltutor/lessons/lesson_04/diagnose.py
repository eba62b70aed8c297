"""Grade "04.diagnose": what three processes hold, compared with what they are measured to hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from torch.utils.data import DataLoader

from dltutor.failures import global_state
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import blank, shown, whole_number
from dltutor.lessons.kit.outcomes import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_04.material import Witness, counters
from dltutor.observation import observe

_SET_BY_MAIN: Final = 100
_PROCESSES: Final = ("main", "W0", "W1")
_RUN: Final = 10  # seconds for two epochs

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Held:
    """What main, W0 and W1 hold after epoch 1, with one kind of workers.

    Args:
        kind: "fresh" or "persistent".
        given: What the learner expects.
        measured: What they hold.
    """

    kind: str
    given: Numbers
    measured: Numbers


def look(answer: Any) -> dict[str, Numbers]:
    """The six numbers, if the answer has them."""
    if blank(answer):
        not_attempted("set `held` to the numbers that you expect.")
    if not isinstance(answer, Mapping):
        not_yet(f"`held` has to stay a dict of two entries, got {shown(answer)}.")
    return {kind: _three(kind, answer.get(kind)) for kind in ("fresh", "persistent")}


def _three(kind: str, value: Any) -> Numbers:
    several = isinstance(value, (tuple, list))
    if blank(value) or (several and any(map(blank, value))):
        not_attempted(
            "each entry of `held` gets three numbers: what main, W0 and W1 hold after epoch 1."
        )
    numbers = [whole_number(each) for each in value] if several else []
    if len(numbers) != len(_PROCESSES) or None in numbers:
        not_yet(f"`{kind}` has to be three whole numbers, got {shown(value)}.")
    return tuple(number for number in numbers if number is not None)


def gather(given: dict[str, Numbers]) -> tuple[Held, ...]:
    """The experiment of the question, with either kind of workers."""
    return tuple(
        Held(kind, numbers, _measure(persistent=kind == "persistent"))
        for kind, numbers in given.items()
    )


def _measure(*, persistent: bool) -> Numbers:
    def train(loader: DataLoader[Any]) -> dict[str, int]:
        counters(loader)
        global_state.replaced = _SET_BY_MAIN
        return counters(loader)

    global_state.replaced = 0
    loader = DataLoader(
        Witness(),
        batch_size=8,
        num_workers=2,
        persistent_workers=persistent,
        multiprocessing_context="fork",
    )
    held: Any = observe(loader, consume=train, deadline=_RUN).result
    return tuple(held[process] for process in _PROCESSES)


def judge(evidence: tuple[Held, ...]) -> Result:
    """Correct if all six numbers are those that were measured."""
    for held in evidence:
        if held.given != held.measured:
            not_yet(f"`{held.kind}`: {held.given} is not what the three hold. {_question(held)}")
    fresh, persistent = (held.measured for held in evidence)
    return correct(
        f"Measured: main, W0 and W1 hold {fresh} with fresh workers and {persistent} with "
        "persistent ones. A worker has what main had when it started, and what it did itself "
        "since. Nothing else goes either way."
    )


def _question(held: Held) -> str:
    main, first, second = held.given
    persistent = held.kind == "persistent"
    if main != held.measured[0]:
        return (
            f"Begin with main. It set its variable to {_SET_BY_MAIN} and drew no reading since. "
            "Did any worker ever change main's number?"
        )
    if first != second:
        return "Both workers started at the same moment and meet as many missing readings."
    if not persistent and first < _SET_BY_MAIN:
        return (
            "Fresh workers of epoch 1 are forked when epoch 1 begins, after main had set its "
            "variable. What do they find?"
        )
    if persistent and first >= _SET_BY_MAIN:
        return (
            "Persistent workers had started before main set its variable. Who would have told them?"
        )
    if persistent and first == held.measured[1] // 2:
        return "These workers live on: what they counted in epoch 0 is still there."
    return "How many readings does each worker replace in an epoch? The table has it."


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=look,
    runs="two epochs with fresh and two with persistent workers",
    at_most=2 * _RUN + 2,
)
