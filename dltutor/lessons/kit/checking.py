"""check(), hint(), progress(): what a learner calls."""

from __future__ import annotations

import os
import threading
from collections import Counter
from importlib import import_module
from typing import Any, Final

from dltutor.lessons.kit import store
from dltutor.lessons.kit.answers import Unfit, failed_in_main
from dltutor.lessons.kit.exercise import Exercise
from dltutor.lessons.kit.outcome import Outcome, Result, could_not_check
from dltutor.tables import Note, Table

#: The lessons that there are: each has its exercises in a module `lesson_NN`.
LESSONS: Final = ("00", "01", "03", "04", "06", "07", "09", "10")

#: Every exercise by its name, in lesson order.
EXERCISES: Final[dict[str, Exercise]] = {
    each.name: each
    for lesson in LESSONS
    for each in import_module(f"dltutor.lessons.lesson_{lesson}").EXERCISES
}

_hints_given: Counter[str] = Counter()


class CheckFailed(AssertionError):
    """Raised instead of a quiet answer under `DLTUTOR_STRICT=1`, for the course's own tests."""


def check(exercise: str, answer: Any) -> Result:
    """Check an answer, and say what was observed.

    Nothing that the answer does ends the kernel: it runs under a deadline, and its errors are
    told, not raised.

    Args:
        exercise: The name, such as "01.fix".
        answer: Your answer: a class, a function or a value, as the exercise says.

    Returns:
        The result, which a notebook shows.

    Raises:
        CheckFailed: The answer is not correct and `DLTUTOR_STRICT` is 1.
    """
    found = _find(exercise)
    if found is None:
        return _strict(could_not_check(_unknown(exercise)))
    if threading.current_thread() is not threading.main_thread():
        return _strict(could_not_check("call check() in the main thread, from a cell."))
    if found.runs:
        print(f"Checking {found.name}: {found.runs}, at most {found.at_most} s.", flush=True)
    result = _grade(found, answer)
    try:
        store.save(found.name, result.outcome)
    except OSError as error:
        print(f"Your progress could not be saved: {error}.")
    return _strict(result)


def hint(exercise: str) -> Note:
    """The next hint for an exercise. There are three; after the last, they start again.

    Args:
        exercise: The name, such as "01.fix".
    """
    found = _find(exercise)
    if found is None:
        return Note("No hint:", _unknown(exercise))
    number = _hints_given[exercise] % len(found.hints)
    _hints_given[exercise] += 1
    return Note(f"Hint {number + 1} of {len(found.hints)}:", found.hints[number])


def progress() -> Table:
    """Which exercises are solved, across lessons."""
    outcomes = store.load()
    rows = tuple(
        (each.name, each.title, outcomes.get(each.name, Outcome.NOT_ATTEMPTED).value)
        for each in EXERCISES.values()
    )
    solved = sum(label == Outcome.CORRECT.value for *_, label in rows)
    return Table(f"{solved} of {len(rows)} exercises solved", rows, ("exercise", "", "outcome"))


def _grade(exercise: Exercise, answer: Any) -> Result:
    try:
        return exercise.grade(answer)
    except Unfit as unfit:
        return unfit.result
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit: an answer may not end the kernel
        return failed_in_main(error)


def _find(exercise: object) -> Exercise | None:
    return EXERCISES.get(exercise) if isinstance(exercise, str) else None


def _unknown(exercise: object) -> str:
    return f"there is no exercise {exercise!r}. There are {', '.join(EXERCISES)}."


def _strict(result: Result) -> Result:
    if os.environ.get("DLTUTOR_STRICT") == "1" and result.outcome is not Outcome.CORRECT:
        raise CheckFailed(str(result))
    return result
