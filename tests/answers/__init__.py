"""What learners hand in, right and wrong: one module `lesson_NN` for each lesson.

Each module holds, for every exercise of its lesson, under a few words for what was done, a callable
that makes the answer:

    WRONG_FIXES: WrongFixes = {
        "01.fix": {
            "zero workers": (lambda: ..., "a-loader"),  # the code of what it's told; or several
            # codes, because which one it is may depend on how fast the machine is
        },
    }
    RIGHT_ANSWERS: RightAnswers = {"01.fix": {"looked at once, in __init__": lambda: ...}}
    OTHER_OUTCOMES: OtherOutcomes = {
        "01.fix": {"the starter": (lambda: ..., "Not attempted", "starter-class")},
    }

The outcome of a wrong fix is "Not yet" or "Error in your code". Its words stand in the lesson's
`exercises.toml`, so they can be changed without changing a test.
"""

from collections.abc import Callable

WrongFixes = dict[str, dict[str, tuple[Callable[[], object], str | tuple[str, ...]]]]
RightAnswers = dict[str, dict[str, Callable[[], object]]]
OtherOutcomes = dict[str, dict[str, tuple[Callable[[], object], str, str]]]
