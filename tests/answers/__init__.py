"""What learners hand in, right and wrong: one module `lesson_NN` for each lesson.

Each module holds, for every exercise of its lesson, under a few words for what was done, a callable
that makes the answer:

    WRONG_FIXES: WrongFixes = {
        "01.fix": {
            "zero workers": (lambda: ..., "keeps its workers"),  # a fragment of what it is told;
            # or several, one of which it is told: which, may depend on how fast the machine is
        },
    }
    RIGHT_ANSWERS: RightAnswers = {"01.fix": {"looked at once, in __init__": lambda: ...}}
    OTHER_OUTCOMES: OtherOutcomes = {
        "01.fix": {"the starter": (lambda: ..., "Not attempted", "still the broken one")},
    }

A wrong fix is told "Not yet" or "Error in your code". Where the same is observed of two, they are
told the same.
"""

from collections.abc import Callable

WrongFixes = dict[str, dict[str, tuple[Callable[[], object], str | tuple[str, ...]]]]
RightAnswers = dict[str, dict[str, Callable[[], object]]]
OtherOutcomes = dict[str, dict[str, tuple[Callable[[], object], str, str]]]
