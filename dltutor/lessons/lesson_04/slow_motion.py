"""Races made certain: workers that wait before each step, and locks that main holds meanwhile.

Two processes that run `count.value += 1` without a lock lose a count when both read before either
writes. That window lasts a microsecond, so a test hardly ever meets it. Here it is stretched. What
a tensor does in one step cannot be stretched; so main takes the dataset's locks, and looks who
writes all the same.
"""

from __future__ import annotations

import dis
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from multiprocessing.synchronize import SemLock
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader

from dltutor.observation.errors import is_yours

_WAIT: Final = 0.03  # seconds before a step
_STEPS: Final = 80  # that each process takes slowly, before it goes on at full speed
_TOGETHER: Final = 5.0  # seconds that one worker waits for the other to start
_SLOWED: Final = {"STORE_ATTR", "STORE_SUBSCR", "CALL", "CALL_KW", "CALL_FUNCTION_EX"}
_HELD: Final = 0.4  # seconds without a write; without a lock the first comes in milliseconds
_SMALL: Final = 4096  # numbers in an array that may be there to count
_LIBRARIES: Final = {*sys.stdlib_module_names, "torch", "numpy"} - {"__main__"}


class SlowMotion:
    """A `worker_init_fn`: the workers start together, and wait before each call and each write.

    Args:
        slowed: The class. What it calls of the learner's other code is slowed as well.
        barrier: Of as many parties as there are workers, and of the workers' context.
    """

    def __init__(self, slowed: type, barrier: Any) -> None:
        self._codes = dict.fromkeys(_codes_of(slowed), True)
        self._barrier = barrier
        self._left = _STEPS

    def __call__(self, worker_id: int) -> None:
        self._barrier.wait(_TOGETHER)
        sys.settrace(self._enter)

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if not self._left or not self._codes.setdefault(code, is_yours(code.co_filename)):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._step

    def _step(self, frame: FrameType, event: str, arg: Any) -> Any:
        slowed = event == "opcode" and dis.opname[frame.f_code.co_code[frame.f_lasti]] in _SLOWED
        if slowed and self._left:
            self._left -= 1
            time.sleep(_WAIT)
        return self._step


def _codes_of(cls: type) -> Iterator[CodeType]:
    for value in (value for base in cls.__mro__ for value in vars(base).values()):
        for each in (value, getattr(value, "fget", None), getattr(value, "__func__", None)):
            if isinstance(each, FunctionType):
                yield each.__code__


def written_by_several(dataset: Any, loader: DataLoader[Any], epochs: int) -> list[str]:
    """Run epochs, in each of which one worker counts, and name what several of them have written.

    Args:
        dataset: The dataset; main holds its locks while the first samples are made.
        loader: A loader of it whose workers live on.
        epochs: How many; as many as there are workers.

    Returns:
        Numbers in the dataset's tensors and arrays, such as "count" or "slots[0]".
    """
    written: Counter[str] = Counter()
    locks = _locks_of(dataset)
    for epoch in range(epochs):
        dataset.set_epoch(epoch)
        before = _numbers(dataset)
        with ExitStack() as held:
            for lock in locks:
                held.enter_context(lock)
            batches = iter(loader)
            until = time.monotonic() + _HELD
            while locks and _numbers(dataset) == before and time.monotonic() < until:
                time.sleep(0.01)
            if not locks:
                list(batches)
            now = _numbers(dataset)
        list(batches)
        written.update(name for name in now if now[name] != before.get(name))
    return sorted(name for name, times in written.items() if times > 1)


def _numbers(dataset: Any) -> dict[str, float]:
    numbers = {}
    for name, value in _parts(dataset):
        flat = np.asarray(value).ravel() if isinstance(value, (torch.Tensor, np.ndarray)) else None
        if flat is not None and flat.size <= _SMALL:
            alone = flat.size == 1
            numbers.update({name if alone else f"{name}[{n}]": v for n, v in enumerate(flat)})
    return {name: float(number) for name, number in numbers.items()}


def _locks_of(dataset: Any) -> list[Any]:
    values = [value for _, value in _parts(dataset)]
    of_values = [value.get_lock() for value in values if hasattr(value, "get_lock")]
    return [*of_values, *(value for value in values if isinstance(value, SemLock))]


def _parts(thing: Any, depth: int = 2) -> Iterator[tuple[str, Any]]:
    # The attributes of an object, and theirs where their class is the learner's own.
    for name, value in getattr(thing, "__dict__", {}).items():
        yield name, value
        if depth and type(value).__module__.partition(".")[0] not in _LIBRARIES:
            yield from ((f"{name}.{part}", each) for part, each in _parts(value, depth - 1))
