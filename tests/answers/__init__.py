"""The usual wrong fixes of each lesson's exercises: one module `lesson_NN` for each lesson.

Each module holds `WRONG_FIXES`: for every exercise of that lesson, under a few words for the fix, a
callable that makes the wrong answer, and a fragment of the message that this answer must get:

    WRONG_FIXES: WrongFixes = {
        "01.fix": {
            "zero workers": (lambda: ..., "keeps its workers"),
        },
    }
"""

from collections.abc import Callable

WrongFixes = dict[str, dict[str, tuple[Callable[[], object], str]]]
