"""Lesson 07: the loop that never starts."""

from __future__ import annotations

import inspect
from typing import Any, Final

from dltutor.failures.lost_thread import Pairs
from dltutor.lessons.kit.exercise import Exercise, choice
from dltutor.lessons.kit.outcome import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_07 import corrected_labels, side_by_side


def _line_with(text: str) -> int:
    """The number, in its file, of the line of `Pairs` that holds a text."""
    lines, first = inspect.getsourcelines(Pairs)
    return next(number for number, line in enumerate(lines, first) if text in line)


def _diagnose(answer: Any) -> Result:
    if answer is None or answer is ...:
        return not_attempted("set `starts_the_thread` to the number of a line of `Pairs`.")
    if isinstance(answer, bool) or not isinstance(answer, int):
        return not_yet(f"A line has a whole number, such as 50, got {answer!r:.40}.")
    lines, first = inspect.getsourcelines(Pairs)
    if not first <= answer < first + len(lines):
        last = first + len(lines) - 1
        return not_yet(f"`Pairs` stands in the lines {first} to {last}, and not in line {answer}.")
    if answer == _line_with("self.thread.map"):
        return correct(
            f"Line {answer}: the executor's first task starts its thread, in main, before there is "
            f"any worker. Line {_line_with('mask.result()')}, where the workers stand, is only "
            "where it is missed."
        )
    if answer == _line_with("ThreadPoolExecutor("):
        return not_yet(
            f"Line {answer} makes the executor. Make one in a cell of your own and count "
            "`threading.enumerate()` before and after: an executor without a task has no thread."
        )
    if answer == _line_with("mask.result()"):
        return not_yet(
            f"Line {answer} is where the workers stand. It waits for a thread and starts none. "
            "Which line started the one it waits for?"
        )
    if answer == _line_with("self.thread.submit"):
        return not_yet(
            f"Line {answer} runs in the worker. It would start a thread if the executor had none; "
            "the executor counts one already. Who started that one?"
        )
    return not_yet(
        f"Line {answer} does not touch the executor. Three lines name `self.thread`; which of them "
        "gives it its first task?"
    )


EXERCISES: Final = (
    Exercise(
        name="07.predict",
        title="From how many workers on does it stand still?",
        grade=choice(
            "b",
            {
                "a": "`a`: look at the row of 0 workers: it finished, so two reads at a time do "
                "not wait for each other. It needs a worker to stand still.",
                "b": "`b`: one worker is enough. So it is not two workers in each other's way; "
                "it is something between main and any worker.",
                "c": "`c`: look at the row of 1 worker: it stands still alone. Nobody is there to "
                "compete with.",
            },
        ),
        hints=(
            "You need no certainty here: choose, run the next cells, and read what comes back.",
            "If two workers were in each other's way, one alone would get through.",
            "Look at the row of 1 worker in the table.",
        ),
    ),
    Exercise(
        name="07.diagnose",
        title="Which line started the thread that the workers wait for?",
        grade=_diagnose,
        hints=(
            "The workers stand in the last line. What they wait for was begun in another line, "
            "and by another process.",
            "An executor starts no thread when it is made. It starts one when it gets a task and "
            "has none that is idle.",
            "In which line of `__init__` does `self.thread` get its first task?",
        ),
    ),
    Exercise(
        name="07.fix",
        title="Read pairs side by side, in every worker",
        grade=side_by_side.grade,
        hints=(
            "`__init__` runs in main, before the fork. Where does code run that belongs to the "
            "worker?",
            "Make the executor when a process first needs it. And remember which process that "
            "was: the check lets main use the dataset before the workers are forked, and they "
            "copy what main has made.",
            "Keep `os.getpid()` beside the executor. In `__getitem__`: if there is no executor, or "
            "it was made under another pid, make one and keep both.",
        ),
        runs="uses your class in main, then runs two epochs with 2 workers on fresh files",
        at_most=side_by_side.AT_MOST,
    ),
    Exercise(
        name="07.transfer",
        title="Labels that are refreshed while the workers are forked",
        grade=corrected_labels.grade,
        hints=(
            "Look at the line where the workers stand, and at the thread that would let them go "
            "on. In which process is it?",
            "A lock of its own gets the worker further, and to half-read labels. What if main "
            "never held half-read labels at all, at no moment?",
            "In `refresh`, read into a new dict, and when it is complete put it in the place of "
            "the old one: one assignment. Who reads `self.labels` then needs no lock.",
        ),
        runs="runs epochs with 2 workers, forked at one moment of a refresh after the other",
        at_most=corrected_labels.AT_MOST,
    ),
)
