"""Define right and wrong answers to the exercises, in one module `lesson_NN` for each lesson.

For every exercise that isn't a question with options, a module lists answers, each under a few
words that say what the learner did:

    RIGHT_ANSWERS: RightAnswers = {"01.fix": {"looked at once, in __init__": Verified}}
    WRONG_FIXES: WrongFixes = {
        "01.fix": {
            # The code of the result that `check` must return. If the result's message quotes the
            # message of another code, give both codes, such as "fixed: other-cause". If timing
            # decides which code it is, give a tuple of codes.
            "classes of what is left": (ClassesOfWhatIsLeft, "class-numbers"),
        },
    }

If making an answer writes files, the module lists a `partial` instead, which makes the answer when
its test runs. The outcome of a wrong fix is "Not yet" or "Error in your code". A code's message is
in TOML files of `dltutor.lessons`, so you can change the message without changing a test.
"""

import os
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from typing import Any

RightAnswers = dict[str, dict[str, Any]]
WrongFixes = dict[str, dict[str, tuple[Any, str | tuple[str, ...]]]]


def made(answer: Any) -> Any:
    """Return what a learner would hand in: the answer itself, or what a `partial` makes."""
    return answer() if isinstance(answer, partial) else answer


def like(base: type, **changes: Any) -> Any:
    """Make a subclass of `base` with these methods or attributes.

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


def locked(base: Any) -> Any:
    """Make a subclass whose `__getitem__` holds a lock that all forked processes share."""

    def get(self: Any, index: int) -> Any:
        with self.lock:
            return base.__getitem__(self, index)

    return like(setting(base, lock=lambda _: get_context("fork").Lock()), __getitem__=get)


def at_fork(base: Any, do: Callable[[Any], object]) -> Any:
    """Make a subclass whose objects run `do(self)` in each process that's forked later."""
    return after_init(base, lambda self: os.register_at_fork(after_in_child=partial(do, self)))


def setting(base: Any, **values: Callable[[Any], Any]) -> Any:
    """Make a subclass whose `__init__` ends by setting attributes to what these functions return.

    Args:
        base: The class to change.
        values: For each attribute, a function that takes the object and returns the value.
    """

    def set_all(self: Any) -> None:
        for name, value in values.items():
            setattr(self, name, value(self))

    return after_init(base, set_all)
