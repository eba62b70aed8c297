"""An exercise: its texts, and how an answer is graded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, TypeVar

from dltutor.lessons.engine import words
from dltutor.lessons.engine.forms import a_whole_number, blank, letter, shown
from dltutor.lessons.engine.outcomes import Rejected, Result, correct, not_attempted, not_yet

E = TypeVar("E")


def unchanged(answer: Any) -> Any:
    """Return the answer as it is: the `look` of a grader that accepts any answer."""
    return answer


@dataclass(frozen=True)
class Grader(Generic[E]):
    """How an answer is graded, in three steps: look, gather, judge. All run in the sandbox.

    Each step may raise `Rejected`, which ends the grading with its result.

    Args:
        gather: Runs the answer and returns the evidence, a plain dataclass.
        judge: Takes the evidence and returns the result. It doesn't run the learner's code.
        look: Takes the answer and returns the argument for `gather`. It doesn't run the learner's
            code, and rejects what isn't worth running: the untouched starter, a wrong type.
        at_most: Time limit of the whole check in seconds. 0 if it runs nothing.
    """

    gather: Callable[[Any], E]
    judge: Callable[[E], Result]
    look: Callable[[Any], Any] = unchanged
    at_most: int = 0


@dataclass(frozen=True)
class Exercise:
    """One exercise of a lesson. Its texts are in the lesson's `exercises.toml`: see `words.py`.

    Args:
        name: The lesson's number, a dot, and a word, such as "01.fix".
        grader: How an answer is graded.
    """

    name: str
    grader: Grader[Any]

    @property
    def lesson(self) -> str:
        """The lesson's number."""
        return self.name.partition(".")[0]

    @property
    def title(self) -> str:
        """What the exercise asks, in a few words, for `progress()`."""
        return str(self._words["title"])

    @property
    def runs(self) -> str:
        """What the check runs, as the end of a sentence; "" if it runs nothing."""
        return str(self._words.get("runs", ""))

    @property
    def hints(self) -> tuple[str, ...]:
        """Three hints: where to look, which mechanism, nearly the line."""
        return tuple(self._words["hints"])

    @property
    def _words(self) -> dict[str, Any]:
        table: dict[str, Any] = words.lesson(self.lesson)[self.name.partition(".")[2]]
        return table


def by_runs(
    run: Callable[[Any], Iterator[E]],
    judge: Callable[[E], None],
    *,
    at_most: int,
    look: Callable[[Any], Any] = unchanged,
    result: Callable[[tuple[E, ...]], Result] = lambda runs: correct(),
) -> Grader[tuple[E, ...]]:
    """Grade an answer by several runs, up to the first one that `judge` rejects.

    Args:
        run: Runs the answer several times, and yields the evidence of each run.
        judge: Takes the evidence of one run, and rejects what's wrong.
        at_most: As for a Grader.
        look: As for a Grader.
        result: Takes the evidence of all runs, if none was rejected, and makes the result.
    """

    def judge_all(runs: tuple[E, ...]) -> Result:
        for each in runs:
            judge(each)
        return result(runs)

    def gather(answer: Any) -> tuple[E, ...]:
        runs: list[E] = []
        for each in run(answer):
            runs.append(each)
            try:
                judge(each)
            except Rejected:
                break
        return tuple(runs)

    return Grader(gather, judge_all, look, at_most)


def choice(right: str, options: Iterable[str]) -> Grader[str]:
    """Grade an answer that's one of a few letters. The result's code is the chosen letter."""
    letters = [*options]
    listed = ", ".join(map(repr, letters))

    def gather(answer: Any) -> str:
        if blank(answer):
            not_attempted("no-letter", options=listed)
        chosen = letter(answer) or ""
        if chosen not in letters:
            not_yet("no-option", answer=shown(answer), options=listed)
        return chosen

    def judge(chosen: str) -> Result:
        if chosen != right:
            not_yet(chosen)
        return correct(chosen)

    return Grader(gather, judge)


def number(right: int, options: Iterable[str]) -> Grader[int]:
    """Grade an answer that's a whole number. The result's code is the number, or "other-number".

    Args:
        right: The right number.
        options: The numbers that have their own text.
    """
    known = [*options]

    def gather(answer: Any) -> int:
        return a_whole_number(answer)

    def judge(found: int) -> Result:
        if found != right:
            not_yet(str(found) if str(found) in known else "other-number", number=found)
        return correct(str(found))

    return Grader(gather, judge)


def exercises_of(lesson: str) -> tuple[Exercise, ...]:
    """Return the exercises of a lesson, in the order of its `exercises.toml`.

    An exercise with `options` is graded by them. Any other is graded by the `GRADER` of the
    lesson's module that's named like the exercise.

    Args:
        lesson: The lesson's number, such as "10".

    Raises:
        ImportError: An exercise has no grader.
    """
    found = []
    for name, table in words.lesson(lesson).items():
        if name == "says":
            continue
        grader: Grader[Any]
        if "options" in table:
            question = number if isinstance(table["answer"], int) else choice
            grader = question(table["answer"], table["options"])
        else:
            grader = import_module(f"dltutor.lessons.lesson_{lesson}.{name}").GRADER
        found.append(Exercise(f"{lesson}.{name}", grader))
    return tuple(found)
