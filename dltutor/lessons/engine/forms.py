"""The forms of an answer: a letter, a whole number, a class, a function.

What a person types is taken as it is meant: `b`, "B", "(b)" and np.str_("b ") are one letter, 9,
"9", np.int64(9) and torch.tensor(9) one number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import index
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.lessons.engine.outcomes import (
    error_in_your_code,
    not_attempted,
    not_yet,
)
from dltutor.lessons.engine.sources import same_class, same_function
from dltutor.observation.texts import tidy

_AROUND_A_LETTER = re.compile(r"[\s'\"`()\[\]{}.,:;]+")


def blank(answer: Any) -> bool:
    """Whether an answer is still the `...` or None of its starter."""
    return answer is None or answer is ...


def shown(answer: Any) -> str:
    """An answer as text, cut after 60 characters, without what differs from run to run."""
    try:
        text = tidy(repr(answer))
    except Exception:  # a class of the learner's own may do anything
        return f"an object of `{type(answer).__name__}`, whose `repr` raises"
    return text if len(text) <= 60 else f"{text[:60]}..."


def letter(answer: Any) -> str | None:
    """The letter that was typed, in lower case, or None where it is none."""
    if not isinstance(answer, str):
        return None
    bare = _AROUND_A_LETTER.sub("", answer).lower()
    return bare if len(bare) == 1 else None


def whole_number(answer: Any) -> int | None:
    """The whole number that was typed, or None where it is none."""
    if isinstance(answer, (bool, np.bool_)):
        return None
    if isinstance(answer, (np.ndarray, torch.Tensor)) and answer.ndim == 0:
        answer = answer.item()
    if isinstance(answer, (float, np.floating)) and float(answer).is_integer():
        return int(answer)
    if isinstance(answer, str) and answer.strip().lstrip("-").isdecimal():
        return int(answer)
    return as_int(answer)


def a_whole_number(answer: Any) -> int:
    """The whole number that was typed.

    Raises:
        Rejected: It is still the starter, or no whole number.
    """
    if blank(answer):
        not_attempted("no-number")
    number = whole_number(answer)
    if number is None:
        not_yet("not-a-number", answer=shown(answer))
    return number


def as_int(answer: Any) -> int | None:
    """What a function returned as an `int`, or None where it is none: False is 0, "0" is none."""
    try:
        return index(answer)
    except TypeError:
        return None


def a_class(answer: Any, *, methods: tuple[str, ...] = ("__len__", "__getitem__")) -> type:
    """The answer, if it is a class with these methods.

    Raises:
        Rejected: It is not.
    """
    if not isinstance(answer, type):
        if isinstance(answer, Dataset):
            error_in_your_code("an-object", kind=type(answer).__name__)
        error_in_your_code("not-a-class", answer=shown(answer))
    for method in methods:
        if not callable(getattr(answer, method, None)):
            error_in_your_code("no-method", kind=answer.__name__, method=method)
    return answer


def a_fixed_class(
    answer: Any,
    starter: type,
    *,
    methods: tuple[str, ...] = ("__len__", "__getitem__"),
) -> type:
    """The answer, if it is a dataset's class with these methods that is no longer the starter.

    Args:
        answer: What the learner handed in.
        starter: The broken class that they were given.
        methods: What the class has to have.

    Raises:
        Rejected: It is not.
    """
    if blank(answer):
        not_attempted("no-class")
    if is_a_loader(answer):
        not_yet("a-loader")
    fixed = a_class(answer, methods=methods)
    if same_class(fixed, starter):
        not_attempted("starter-class", name=fixed.__name__)
    return fixed


def is_a_loader(answer: Any) -> bool:
    """Whether an answer is a DataLoader, or a class of them."""
    kind = answer if isinstance(answer, type) else type(answer)
    return issubclass(kind, DataLoader)


def a_fixed_function(answer: Any, starter: Callable[..., object]) -> Callable[..., Any]:
    """The answer, if it is a function that is no longer the starter.

    Raises:
        Rejected: It is not.
    """
    if blank(answer):
        not_attempted("no-function")
    if isinstance(answer, type) or not callable(answer):
        error_in_your_code("not-a-function", answer=shown(answer))
    if same_function(answer, starter):
        not_attempted("starter-function", name=getattr(answer, "__name__", "your function"))
    function: Callable[..., Any] = answer
    return function
