"""What the graders of lesson 04 have in common: running an answer, and guessing where it keeps
what does not arrive.
"""

from __future__ import annotations

import dis
import multiprocessing
import threading
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from dltutor.lessons.kit.answers import Unfit, failed_in_loader, wrong
from dltutor.observation import observe
from dltutor.observation.texts import said, tidy

PATIENCE: Final = 7  # seconds for each run
BUILDING: Final = 2  # seconds for making the dataset
_LOCKS: Final = (
    type(multiprocessing.get_context("fork").Lock()),
    type(multiprocessing.get_context("fork").RLock()),
)
_THREAD_LOCKS: Final = (type(threading.Lock()), type(threading.RLock()))


def refuse_a_loader(answer: Any) -> None:
    """Say what a loader in the place of a class does.

    Raises:
        Unfit: The answer is a loader.
    """
    if isinstance(answer, DataLoader) and answer.num_workers == 0:
        wrong(
            "with `num_workers=0` there is one process and one copy, so all is well, and nothing "
            "is loaded ahead. The exercise keeps its workers: mend the dataset's class."
        )
    if isinstance(answer, DataLoader):
        wrong(
            "that is a loader. Fresh workers in each epoch would get a fresh copy; nothing they "
            "change comes back. The exercise keeps its persistent workers: mend the class."
        )


def run(
    loader: DataLoader[Any],
    train: Callable[[DataLoader[Any]], Any],
    where: str,
    *,
    patience: int = PATIENCE,
) -> Any:
    """Run a training loop, and say how it ended where it did not end well.

    Args:
        loader: The loader.
        train: The loop; what it returns is returned.
        where: Under which circumstances, such as "with 2 persistent workers under fork".
        patience: Seconds that it gets.

    Raises:
        Unfit: It did not end well.
    """
    with warnings.catch_warnings():
        # Torch's own words about it; ours follow.
        warnings.filterwarnings("ignore", "Got pickle error", UserWarning)
        seen = observe(loader, consume=train, deadline=patience)
    if seen.end == "finished":
        return seen.result
    if seen.end == "hung":
        wrong(f"{where}, it did not end within {patience} s. What does your class wait for?")
    if seen.end == "worker died":
        wrong(f"{where}: {', '.join(map(str, seen.workers))}. What in your class ends a process?")
    kind, message = seen.chain[0]
    if "is being shared with a process in a" in message:
        wrong(
            f"under fork all is well. {where[0].upper()}{where[1:]}: `{kind}`, as the lock in your "
            "class belongs to fork. Whose `Value` or `Lock` can be handed to any worker?"
        )
    if "pickle" in message:
        wrong(
            f"under fork all is well. {where[0].upper()}{where[1:]}: "
            f"`{tidy(said(kind, message))}`. The dataset is sent to a spawned worker, with all "
            "its attributes. Which of them cannot travel?"
        )
    raise Unfit(failed_in_loader(seen))


def where_it_is_kept(answer: type, dataset: Any) -> str:
    """A sentence about what the class uses to reach the other processes, and who has a copy of it.

    It reads the answer to say more, never to grade.
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
        if isinstance(value, torch.Tensor) and value.numel() == 1 and not shared(value):
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


def _set_by(function: Any) -> set[str]:
    # The attributes that a function gives another object.
    if not isinstance(function, FunctionType):
        return set()
    return {step.argval for step in dis.get_instructions(function) if step.opname == "STORE_ATTR"}


def shared(tensor: torch.Tensor) -> bool:
    """Whether a tensor lies in shared memory."""
    return bool(tensor.is_shared())  # type: ignore[no-untyped-call]  # as torch has it
