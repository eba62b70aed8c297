"""Lesson 02, in words."""

from __future__ import annotations

from typing import Any, Final

from dltutor.lessons.engine.exercise import Exercise, Grader
from dltutor.lessons.engine.forms import blank, choice, shown, whole_number
from dltutor.lessons.engine.outcomes import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_02 import fix, transfer

_RAISES: Final = 4  # the number of the step in the notebook's `steps`
_STEPS: Final = {
    0: "step 0 needs 5 characters, and the caption has more.",
    1: "step 1 is `str.split`. The class that raises is in the last lines of the traceback.",
    2: "step 2 needs 3 words, and the caption has 4 when it gets there.",
    3: "step 3 is `without_articles`. It raises nothing; look at what it hands on.",
    5: "step 5 is `len`, and the traceback does not come to it.",
}


def _number(answer: Any) -> int:
    if blank(answer):
        not_attempted("set `raises` to the number of the step, counted from 0.")
    number = whole_number(answer)
    if number is None:
        not_yet(f"the number of a step is a whole number, got {shown(answer)}.")
    return number


def _step(number: int) -> Result:
    if number not in (*_STEPS, _RAISES):
        not_yet(f"there is no step {number}: `steps` are numbered from 0 to {max(_STEPS)}.")
    if number != _RAISES:
        not_yet(_STEPS[number])
    return correct(
        "Step 4: no word is left when the articles are gone. The traceback named the class, which "
        "three steps share."
    )


EXERCISES: Final = (
    Exercise(
        name="02.predict",
        title="What becomes of `except UnknownWord` with two workers?",
        grader=choice(
            "c",
            {
                "a": "It is caught with 0 workers. With 2, `train` did not return: look at the "
                "row `type`.",
                "b": "It did not wait: the run ended by itself, with an exception.",
                "c": "A `RuntimeError` arrives, with the worker's traceback in its text, and "
                "`except UnknownWord` does not match.",
            },
        ),
        hints=(
            "You need no certainty here: choose, run the next cell, and read what comes back.",
            "Lesson 01: main makes a new exception, of the type that was raised and the text. How "
            "many arguments does `UnknownWord` take?",
            "Compare the two lines that the cell prints.",
        ),
    ),
    Exercise(
        name="02.diagnose",
        title="Which step of `Compose` raised?",
        grader=Grader(_number, _step),
        hints=(
            "The traceback ends in `Require.__call__`. Which of the steps are a `Require`?",
            "Go through the steps in main, without a loader: `sample = step(sample)` for one after "
            "the other, and print the number before each.",
            "`for number, step in enumerate(steps): print(number, sample); sample = step(sample)`",
        ),
    ),
    Exercise(
        name="02.fix",
        title="Whatever is raised arrives, with index and path",
        grader=fix.GRADER,
        hints=(
            "`except Exception as error:`. Does `type(error)` pass the three gates? Then raise it "
            "again with a longer text, else raise a RuntimeError.",
            "`arrives` of section 4 asks gate A and half of gate B. The rest is a `message` of the "
            "class (not of the object) that is not empty, and for gate C a StopIteration.",
            "`arrives(kind) and not getattr(kind, 'message', None) and not issubclass(kind, "
            "StopIteration)`, where `kind = type(error)`. Then `raise kind(text) from error`, or "
            "`RuntimeError(text)`.",
        ),
    ),
    Exercise(
        name="02.transfer",
        title="Samples that can leave a worker",
        grader=transfer.GRADER,
        hints=(
            "The cell below the class names one thing that cannot be pickled. Fix that, and run "
            "both cells again: there are three.",
            "A generator and a view of a dict cannot be pickled, a list and a dict can. The third "
            "message says itself what to call on the tensor.",
            "`[...]` in place of `(...)`, `dict(Counter(...))` in place of `.items()`, and "
            "`.detach()` on the mean. The table stays as it is.",
        ),
    ),
)
