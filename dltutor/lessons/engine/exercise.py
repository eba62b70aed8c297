"""An exercise: what it asks, how an answer is graded, and three hints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from dltutor.lessons.engine.outcomes import Result

E = TypeVar("E")


def unchanged(answer: Any) -> Any:
    """The `look` of a grader that takes whatever it is given."""
    return answer


@dataclass(frozen=True)
class Grader(Generic[E]):
    """How an answer is graded: looked at, run, judged. All three run in the sandbox.

    Each step may raise `Rejected`, which ends the grading with its result.

    Args:
        gather: Runs the answer and returns the evidence: a plain dataclass.
        judge: Takes the evidence and says what to tell. It runs nothing of the learner's.
        look: Takes the answer and returns what `gather` is given. It runs nothing of the
            learner's, and rejects what is not worth running: the untouched starter, a wrong type.
        runs: What `gather` runs, as the end of a sentence; empty if it runs nothing.
        at_most: Seconds that the whole check takes at most, if it runs anything.
        died: What to ask where the process that ran the answer ended.
    """

    gather: Callable[[Any], E]
    judge: Callable[[E], Result]
    look: Callable[[Any], Any] = unchanged
    runs: str = ""
    at_most: int = 0
    died: str = "Which of your lines, or what they call, ends a process?"


@dataclass(frozen=True)
class Exercise:
    """One exercise of a lesson.

    Args:
        name: The lesson's number, a dot and a word, such as "01.fix".
        title: What is asked, in a few words, for the list of progress.
        grader: How an answer is graded.
        hints: Three, from "where to look" over "which mechanism" to "nearly the line".
    """

    name: str
    title: str
    grader: Grader[Any]
    hints: tuple[str, str, str]

    @property
    def lesson(self) -> str:
        """The number of its lesson."""
        return self.name.partition(".")[0]
