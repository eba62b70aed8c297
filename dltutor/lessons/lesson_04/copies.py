"""Who has a copy of what: guesses about where an answer keeps what does not arrive.

They read the answer in order to say more, never to grade it.
"""

from __future__ import annotations

import dis
import multiprocessing
import threading
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from dltutor.lessons.kit.outcomes import not_yet

_LOCKS: Final = (
    type(multiprocessing.get_context("fork").Lock()),
    type(multiprocessing.get_context("fork").RLock()),
)
_THREAD_LOCKS: Final = (type(threading.Lock()), type(threading.RLock()))
_CONSTANTS: Final = (bool, int, float, str, bytes, tuple, ModuleType, type(None))


def refuse_a_loader(answer: Any) -> None:
    """Say what a loader in the place of a class does.

    Raises:
        Rejected: The answer is a loader.
    """
    if isinstance(answer, DataLoader) and answer.num_workers == 0:
        not_yet(
            "with `num_workers=0` there is one process and one copy, so all is well, and nothing "
            "is loaded ahead. The exercise keeps its workers: fix the dataset's class."
        )
    if isinstance(answer, DataLoader):
        not_yet(
            "that is a loader. Fresh workers in each epoch would get a fresh copy; nothing they "
            "change comes back. The exercise keeps its persistent workers: fix the class."
        )


def where_it_is_kept(answer: type, dataset: Any) -> str:
    """A sentence about what the class uses to reach the other processes, and who has a copy of it.

    Args:
        answer: The class.
        dataset: An object of it.
    """
    functions = [each for each in vars(answer).values() if isinstance(each, FunctionType)]
    steps = [step for function in functions for step in dis.get_instructions(function)]
    for step in steps:
        if step.opname == "STORE_GLOBAL":
            return (
                f" The global `{step.argval}` is one for each process: the one that a worker reads "
                "is its own."
            )
        if step.argval == "environ":
            return " A process gets its environment variables, like all else, when it starts."
    for name, value in vars(dataset).items():
        if isinstance(value, torch.Tensor) and value.numel() == 1 and not _shared(value):
            return f" `{name}.is_shared()` says False: each process has its own."
        if isinstance(value, torch.Tensor) and name in _set_by(getattr(answer, "set_epoch", None)):
            return (
                f" `{name}` is shared. But `set_epoch` puts another tensor in its place, and the "
                "workers look at the first one."
            )
        if isinstance(value, _THREAD_LOCKS):
            return f" `{name}` is a lock for threads, and each process has its own of it, too."
        if isinstance(value, _LOCKS):
            return f" The lock `{name}` holds across processes. What it guards is a copy."
    written = {name for function in functions for name in _set_by(function)}
    filled = {name for name, value in vars(answer).items() if isinstance(value, (dict, list, set))}
    of_class = (written | filled) & vars(answer).keys() - vars(dataset).keys() - {"__annotations__"}
    for name in sorted(of_class):
        return f" `{name}` belongs to the class, and each process has its own class."
    return ""


def global_it_reads(answer: type) -> str:
    """The name of a global that the class reads and that may change, or ""."""
    for function in vars(answer).values():
        if isinstance(function, FunctionType):
            for name in sorted({*_globals_of(function.__code__)} & function.__globals__.keys()):
                value = function.__globals__[name]
                if not (isinstance(value, _CONSTANTS) or callable(value)):
                    return name
    return ""


def _globals_of(code: CodeType) -> Iterator[str]:
    # Not `co_names`: it holds the names of attributes as well.
    for step in dis.get_instructions(code):
        if step.opname.endswith(("_GLOBAL", "_NAME")):
            yield step.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_of(constant)


def _set_by(function: Any) -> set[str]:
    # The attributes that a function gives another object.
    if not isinstance(function, FunctionType):
        return set()
    return {step.argval for step in dis.get_instructions(function) if step.opname == "STORE_ATTR"}


def _shared(tensor: torch.Tensor) -> bool:
    return bool(tensor.is_shared())  # type: ignore[no-untyped-call]  # as torch has it
