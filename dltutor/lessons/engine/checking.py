"""Define the functions that a learner calls: check(), hint(), and progress()."""

from __future__ import annotations

import gc
import os
import re
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from dltutor import DltutorError
from dltutor.lessons.engine import saved_outcomes
from dltutor.lessons.engine.exercise import Exercise, Grader, exercises_of
from dltutor.lessons.engine.outcomes import (
    Outcome,
    Rejected,
    Result,
    could_not_check,
    error_in_your_code,
    not_yet,
)
from dltutor.lessons.engine.running import failed_in_main, still_running, takes_other_arguments
from dltutor.observation import errors, sandbox
from dltutor.observation.texts import fate, shorten_paths
from dltutor.observation.time_limits import DeadlinePassed, check_main_thread
from dltutor.tables import Note, Table, size

_LESSONS: Final = Path(__file__).parents[1]
_SHOWN_LINES: Final = 20  # the most lines of an answer's output to show
_LINE_WIDTH: Final = 200  # the most characters of a line to show
# Hide two warnings that the check itself causes. The resource tracker reports locks and queues that
# were still alive when the check ended their process. And torch recommends another start method
# before it raises the error that the result shows anyway.
_OWN_WARNINGS: Final = re.compile(
    r".*: (?:There appear to be \d+ leaked|Got pickle error when) .*\n"
    r"(?:  (?:warnings\.warn|return _MultiProcessingDataLoaderIter)\(.*\n)?"
)

_hints_given: Counter[str] = Counter()


class CheckFailed(DltutorError, AssertionError):
    """Raised by check() if `DLTUTOR_STRICT` is 1 and the outcome isn't "Correct"."""


def exercises() -> dict[str, Exercise]:
    """Return all exercises by name, in lesson order."""
    lessons = sorted(path.parent.name[-2:] for path in _LESSONS.glob("lesson_*/exercises.toml"))
    return {name: each for lesson in lessons for name, each in exercises_in(lesson).items()}


@cache
def exercises_in(lesson: str) -> dict[str, Exercise]:
    """Return the exercises of a lesson, such as "10", by name.

    The first call imports the lesson's graders, which can take a second.
    """
    return {each.name: each for each in exercises_of(lesson)}


def check(exercise: str, answer: Any) -> Result:
    """Check an answer, and report what the check observed.

    The answer runs in its own process, so whatever it does, the notebook's process stays as it was.
    The check ends the answer's processes and removes its temporary files. It saves the outcome,
    unless an earlier outcome was "Correct".

    Args:
        exercise: The exercise's name, such as "01.fix".
        answer: The class, function, or value that the exercise asks for.

    Returns:
        The result, which a notebook shows. If there's no such exercise, the outcome is "Could not
        check here".

    Raises:
        CheckFailed: The outcome isn't "Correct", and `DLTUTOR_STRICT` is 1.
        KeyboardInterrupt: You pressed Stop.
        RuntimeError: You called check() outside the main thread.
    """
    check_main_thread("check()", "Stop end it")
    found = _find(exercise)
    if found is None:
        return _strict(Result(Outcome.COULD_NOT_CHECK, _unknown(exercise)))
    result = replace(_in_sandbox(found, answer), exercise=found.name)
    try:
        saved_outcomes.save(found.name, result.outcome)
    except OSError as error:
        print(f"Your progress could not be saved: {error}.")
    return _strict(result)


def hint(exercise: str) -> Note:
    """Return an exercise's next hint. After three, say that there are no more, then begin again.

    Args:
        exercise: The exercise's name, such as "01.fix". If no exercise has this name, the note
            lists the names.
    """
    found = _find(exercise)
    if found is None:
        return Note("No hint:", _unknown(exercise))
    number = _hints_given[exercise] % (len(found.hints) + 1)
    _hints_given[exercise] += 1
    if number == len(found.hints):
        return Note("No more hints:", "that was the third. Ask again to begin with the first.")
    return Note(f"Hint {number + 1} of {len(found.hints)}:", found.hints[number])


def hints_given(exercise: str) -> int:
    """Return how many times you've asked for an exercise's hints since the notebook started."""
    return _hints_given[exercise]


def progress(lesson: str = "") -> Table:
    """List the exercises and their outcomes.

    Args:
        lesson: The lesson's number, such as "01". If it's "", the table lists all lessons.

    Raises:
        ValueError: No lesson has this number.
    """
    known = exercises().values()
    listed = [each for each in known if lesson in ("", each.lesson)]
    if not listed:
        lessons = ", ".join(sorted({each.lesson for each in known}))
        raise ValueError(f"lesson must be one of {lessons}, got {lesson!r}")
    outcomes = saved_outcomes.load()
    rows = tuple(
        (each.name, each.title, outcomes.get(each.name, Outcome.NOT_ATTEMPTED).value)
        for each in listed
    )
    solved = sum(label == Outcome.CORRECT.value for *_, label in rows)
    return Table(f"{solved} of {len(rows)} exercises solved", rows, ("exercise", "", "outcome"))


def verdict(grade: Callable[[], Result]) -> Result:
    """Return a grader's result, even if the grader raises `Rejected` or any other exception.

    Args:
        grade: A function that runs the grader, or only judges what's known already, as in a test.
    """
    try:
        return grade()
    except Rejected as rejected:
        return rejected.result
    except DeadlinePassed as late:
        at = errors.read(late).traceback
        return Result(Outcome.NOT_YET, "late", {"stood": f"It was at {at[-1]}." if at else ""})
    except BaseException as error:  # even SystemExit, because a check always has a result
        # The learner's code raised the error if one of its lines is in the traceback. And only the
        # learner's code can raise the two types below, because the notebook's Stop button doesn't
        # reach this process, and no grader uses a `weakref.proxy`.
        only_by_learners = (KeyboardInterrupt, ReferenceError)
        by_learner = errors.read(error).traceback or isinstance(error, only_by_learners)
        if by_learner or takes_other_arguments(error):
            return failed_in_main(error)
        lines = shorten_paths(traceback.format_exc())
        return Result(Outcome.COULD_NOT_CHECK, "our-mistake", {"lines": f"\n{lines}"})


def _in_sandbox(exercise: Exercise, answer: Any) -> Result:
    grader = exercise.grader
    if not hasattr(os, "fork"):
        return Result(Outcome.COULD_NOT_CHECK, "no-fork")

    def grade(begin: Callable[[], None]) -> dict[str, Any]:
        return verdict(lambda: _grade(grader, answer, begin)).to_dict()

    def announce() -> None:
        times = f"usually {exercise.usually} s, at most {grader.at_most} s"
        print(f"Checking {exercise.name}: {exercise.runs}, {times}.", flush=True)

    ended = sandbox.run(grade, at_most=grader.at_most, announce=announce)
    received = Result.from_dict(ended.result)
    result = received or verdict(lambda: _without_result(ended, grader.at_most))
    if result.outcome is not Outcome.CORRECT:
        _show(ended.printed)
    return result


def _grade(grader: Grader[Any], answer: Any, begin: Callable[[], None]) -> Result:
    looked = grader.look(answer)
    if grader.at_most:
        begin()
    result = grader.judge(grader.gather(looked))
    _reject_if_still_running()
    return result


def _reject_if_still_running() -> None:
    gc.collect()  # a pool or manager ends when Python frees the object that holds it
    if left := still_running():
        not_yet("still-running", left=left)


def _without_result(ended: sandbox.Ended, at_most: float) -> Result:
    match ended.stopped:
        case "limit":
            seconds = f"{at_most or sandbox.LOOKING:g}"
            not_yet("over-the-limit", seconds=seconds, stood=ended.stood)
        case "memory":
            not_yet("too-much-memory", memory=size(sandbox.MEMORY))
        case "processes":
            not_yet("too-many-processes", processes=sandbox.PROCESSES)
        case "handlers":
            could_not_check("fork-hooks-hang")
    if ended.guard is not None:
        error_in_your_code("parent-ended", how=_how_it_ended(ended.guard))
    if ended.status is None:
        could_not_check("nobody-saw")
    error_in_your_code("process-ended", how=_how_it_ended(ended.status))


def _how_it_ended(status: int) -> str:
    return fate(status) if status >= 0 else f"was {fate(status)}"


def _show(printed: str) -> None:
    lines = _OWN_WARNINGS.sub("", printed).rstrip().splitlines()
    if lines:
        left_out = f", the last {_SHOWN_LINES} lines" if len(lines) > _SHOWN_LINES else ""
        lines = [line[:_LINE_WIDTH] for line in lines[-_SHOWN_LINES:]]
        print(f"Your code printed{left_out}:", *lines, sep="\n  ")


def _find(exercise: object) -> Exercise | None:
    if not isinstance(exercise, str):
        return None
    lesson = exercise.partition(".")[0]
    there = (_LESSONS / f"lesson_{lesson}" / "exercises.toml").is_file()
    return exercises_in(lesson).get(exercise) if there else None


def _unknown(exercise: object) -> str:
    return f"there's no exercise {exercise!r}. The exercises are {', '.join(exercises())}."


def _strict(result: Result) -> Result:
    if os.environ.get("DLTUTOR_STRICT") == "1" and result.outcome is not Outcome.CORRECT:
        raise CheckFailed(str(result))
    return result
