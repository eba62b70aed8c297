"""An exercise: what it asks, how an answer is graded, and three hints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dltutor.lessons.kit.outcome import Result, correct, not_attempted, not_yet

Grade = Callable[[Any], Result]


@dataclass(frozen=True)
class Exercise:
    """One exercise of a lesson.

    Args:
        name: The lesson's number, a dot and a word, such as "01.fix".
        title: What is asked, in a few words, for the list of progress.
        grade: Takes the answer and judges it. It may raise: that is the learner's error.
        hints: Three, from "where to look" over "which mechanism" to "nearly the line".
        runs: What the check runs, as the end of a sentence; empty if it runs nothing.
        at_most: Seconds that the check takes at most.
    """

    name: str
    title: str
    grade: Grade
    hints: tuple[str, str, str]
    runs: str = ""
    at_most: int = 0

    @property
    def lesson(self) -> str:
        """The number of its lesson."""
        return self.name.partition(".")[0]


def choice(right: str, feedback: Mapping[str, str]) -> Grade:
    """Grade an answer that is one of a few letters.

    Args:
        right: The right option.
        feedback: Option -> what to say to who chose it.
    """

    def grade(answer: Any) -> Result:
        options = ", ".join(repr(option) for option in feedback)
        if answer is None or answer is ...:
            return not_attempted(f"set the variable to one of {options}.")
        if not isinstance(answer, str) or answer not in feedback:
            return not_yet(f"{answer!r} is none of the options. Choose one of {options}.")
        say = correct if answer == right else not_yet
        return say(feedback[answer])

    return grade
