"""Hold right and wrong answers to the exercises, in one module `lesson_NN` for each lesson.

For every exercise that isn't a question with options, a module has answers, each with a few words
that say what the learner did:

    RIGHT_ANSWERS: RightAnswers = {"01.fix": {"looked at once, in __init__": Verified}}
    WRONG_FIXES: WrongFixes = {
        "01.fix": {
            # The code that the answer must get, or a tuple of possible codes if timing decides
            # which one the answer gets.
            "classes of what is left": (ClassesOfWhatIsLeft, "class-numbers"),
        },
    }

If an answer has to be made when its test runs, because making it writes a file or takes a while,
the module has a `partial` that makes it. The outcome of a wrong fix is "Not yet" or "Error in your
code". The words for a code are in the lesson's `exercises.toml`, so you can change them without
changing a test.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

RightAnswers = dict[str, dict[str, Any]]
WrongFixes = dict[str, dict[str, tuple[Any, str | tuple[str, ...]]]]


def made(answer: Any) -> Any:
    """Return an answer as a learner hands it in, even if it has to be made first."""
    return answer() if isinstance(answer, partial) else answer


def like(base: type, **changes: Any) -> Any:
    """Make a subclass of a right or a broken answer, with these methods or attributes.

    A spawned worker can't import the new class, so don't use this function for an answer that such
    a worker has to receive.
    """
    return type(f"My{base.__name__}", (base,), changes)


def delivering(base: Any, change: Callable[[Any], Any]) -> Any:
    """Make a subclass that passes each sample through a function."""
    return like(base, __getitem__=lambda self, index: change(base.__getitem__(self, index)))


def after_init(base: Any, do: Callable[[Any], object]) -> Any:
    """Make a subclass whose `__init__` ends with `do(self)`."""

    def init(self: Any, *arguments: Any) -> None:
        base.__init__(self, *arguments)
        do(self)

    return like(base, __init__=init)


def setting(base: Any, **values: Callable[[Any], Any]) -> Any:
    """Make a subclass whose `__init__` ends by setting attributes to what these functions return.

    Args:
        base: The class to change.
        values: A function of the object for each attribute.
    """

    def set_all(self: Any) -> None:
        for name, value in values.items():
            setattr(self, name, value(self))

    return after_init(base, set_all)
