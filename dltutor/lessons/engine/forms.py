"""Read an answer as a letter, a whole number, a class, or a function.

A check accepts what the learner means. "b", "B", "(b)", and np.str_("b ") are the same letter, and
9, "9", np.int64(9), and torch.tensor(9) are the same number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import index
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.lessons.engine.outcomes import error_in_your_code, not_attempted, not_yet
from dltutor.lessons.engine.sources import same_class, same_function
from dltutor.observation.texts import tidy

_AROUND_A_LETTER = re.compile(r"[\s'\"`()\[\]{}.,:;]+")


def blank(answer: Any) -> bool:
    """Return whether an answer is still the starter's `...` or None."""
    return answer is None or answer is ...


def shown(answer: Any) -> str:
    """Return an answer's repr, cut after 60 characters, or a note that the repr raises.

    `tidy` removes pids and addresses from the repr, and shortens paths, because these differ from
    run to run.
    """
    try:
        text = tidy(repr(answer))
    except Exception:  # a learner's `__repr__` may raise anything
        return f"an object of `{type(answer).__name__}`, whose `repr` raises"
    return text if len(text) <= 60 else f"{text[:60]}..."


def form(thing: Any) -> str:
    """Return a tensor's dtype and shape, such as "torch.int64, (8,)", or another object's type."""
    if isinstance(thing, torch.Tensor):
        return f"{thing.dtype}, {tuple(thing.shape)}"
    return type(thing).__name__


def same_tensor(one: Any, right: torch.Tensor) -> bool:
    """Return whether an object is a tensor with the same dtype, shape, and numbers as `right`."""
    return isinstance(one, torch.Tensor) and one.dtype == right.dtype and torch.equal(one, right)


def letter(answer: Any) -> str | None:
    """Return the answer in lowercase, or None if it isn't a string of one character.

    Spaces, quotes, brackets, and `.,:;` don't count as characters, so "(B)" becomes "b".
    """
    if not isinstance(answer, str):
        return None
    bare = _AROUND_A_LETTER.sub("", answer).lower()
    return bare if len(bare) == 1 else None


def letters(answer: Any, known: str) -> frozenset[str]:
    """Return the letters in an answer such as "aceg", "A, C and E", ["a", "c"], or {"a"}.

    Args:
        answer: The learner's answer, which can be any object.
        known: All letters to choose from, as the result should have them, such as "ABCDE".

    Raises:
        Rejected: The answer is still the starter ("no-letters"), isn't a string or several strings
            ("not-letters"), or has a letter or digit that isn't in `known` ("unknown-letter").
    """
    if blank(answer):
        not_attempted("no-letters")
    parts = [answer] if isinstance(answer, str) else answer
    several = isinstance(parts, (list, tuple, set, frozenset))
    if not several or not all(isinstance(each, str) for each in parts):
        not_yet("not-letters", answer=shown(answer))
    text = re.sub(r"\band\b|[\W_]", "", " ".join(parts).lower())
    if unknown := sorted(set(text) - set(known.lower())):
        not_yet("unknown-letter", answer=shown(answer), letter=repr(unknown[0]))
    return frozenset(each for each in known if each.lower() in text)


def whole_number(answer: Any) -> int | None:
    """Return the answer as an `int`, or None if it isn't a whole number.

    A float such as 3.0, a string such as "3", and a 0-d array or tensor count. A bool doesn't.
    """
    if isinstance(answer, (np.ndarray, torch.Tensor)) and answer.ndim == 0:
        answer = answer.item()
    if isinstance(answer, (bool, np.bool_)):
        return None
    if isinstance(answer, (float, np.floating)) and float(answer).is_integer():
        return int(answer)
    if isinstance(answer, str) and re.fullmatch(r"\s*-?\d+\s*", answer):
        return int(answer)
    return as_int(answer)


def a_whole_number(answer: Any) -> int:
    """Return the answer as an `int`.

    Raises:
        Rejected: The answer is still the starter, or it isn't a whole number.
    """
    if blank(answer):
        not_attempted("no-number")
    number = whole_number(answer)
    if number is None:
        not_yet("not-a-number", answer=shown(answer))
    return number


def as_int(answer: Any) -> int | None:
    """Return the answer as an `int`, or None if it can't be an index in Python, such as "3"."""
    try:
        return index(answer)
    except TypeError:
        return None


def a_fixed_class(
    answer: Any,
    starter: type,
    *,
    methods: tuple[str, ...] = ("__len__", "__getitem__"),
) -> type:
    """Return the answer, if it's a class with these methods and no longer the starter.

    Args:
        answer: The learner's answer, which can be any object.
        starter: The broken class from the notebook.
        methods: The methods that the class needs.

    Raises:
        Rejected: The answer is a loader, isn't a class, lacks a method, or is still the starter.
    """
    if blank(answer):
        not_attempted("no-class")
    if is_a_loader(answer):
        not_yet("a-loader")
    if isinstance(answer, Dataset):
        error_in_your_code("an-object", kind=type(answer).__name__)
    if not isinstance(answer, type):
        error_in_your_code("not-a-class", answer=shown(answer))
    for method in methods:
        if not callable(getattr(answer, method, None)):
            error_in_your_code("no-method", kind=answer.__name__, method=method)
    if same_class(answer, starter):
        not_attempted("starter-class", name=answer.__name__)
    return answer


def is_a_loader(answer: Any) -> bool:
    """Return whether an answer is a DataLoader object or a DataLoader class."""
    kind = answer if isinstance(answer, type) else type(answer)
    return issubclass(kind, DataLoader)


def a_fixed_function(answer: Any, starter: Callable[..., object]) -> Callable[..., Any]:
    """Return the answer, if it's a function or another callable, and no longer the starter.

    Args:
        answer: The learner's answer, which can be any object.
        starter: The function from the notebook that the learner should change.

    Raises:
        Rejected: The answer is a class, isn't callable, or is still the starter.
    """
    if blank(answer):
        not_attempted("no-function")
    if isinstance(answer, type) or not callable(answer):
        error_in_your_code("not-a-function", answer=shown(answer))
    if same_function(answer, starter):
        not_attempted("starter-function", name=getattr(answer, "__name__", "your function"))
    function: Callable[..., Any] = answer
    return function
