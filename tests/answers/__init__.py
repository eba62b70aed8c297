"""Hold right and wrong answers to the exercises, in one module `lesson_NN` for each lesson.

For every exercise of its lesson, a module has functions that make an answer, each with a few words
that say what the learner did:

    WRONG_FIXES: WrongFixes = {
        "01.fix": {
            # The code that the answer must get, or a tuple of codes if the code depends on how
            # fast the machine is.
            "zero workers": (lambda: ..., "a-loader"),
        },
    }
    RIGHT_ANSWERS: RightAnswers = {"01.fix": {"looked at once, in __init__": lambda: ...}}
    OTHER_OUTCOMES: OtherOutcomes = {
        "01.fix": {"the starter": (lambda: ..., "Not attempted", "starter-class")},
    }

The outcome of a wrong fix is "Not yet" or "Error in your code". The words for a code are in the
lesson's `exercises.toml`, so you can change them without changing a test.
"""

from collections.abc import Callable

WrongFixes = dict[str, dict[str, tuple[Callable[[], object], str | tuple[str, ...]]]]
RightAnswers = dict[str, dict[str, Callable[[], object]]]
OtherOutcomes = dict[str, dict[str, tuple[Callable[[], object], str, str]]]
