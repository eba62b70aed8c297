"""Slow motion: a worker that waits between reading a number and writing it back.

Two processes that run `count.value += 1` without a lock lose a count when both read before either
writes. That window lasts a microsecond, so a test hardly ever meets it. Here it is stretched.
"""

from __future__ import annotations

import dis
import sys
import time
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

_WAIT: Final = 0.03  # seconds before a result is written back
_TOGETHER: Final = 6.0  # seconds that one worker waits for the other to start
_WRITES: Final = {"STORE_ATTR", "STORE_SUBSCR"}


class SlowMotion:
    """A `worker_init_fn`: the workers start together, and the class's methods write late.

    Args:
        slowed: The class.
        barrier: Of as many parties as there are workers, and of the workers' context.
    """

    def __init__(self, slowed: type, barrier: Any) -> None:
        self._codes = _codes_of(slowed)
        self._barrier = barrier

    def __call__(self, worker_id: int) -> None:
        self._barrier.wait(_TOGETHER)
        sys.settrace(self._enter)

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code not in self._codes:
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._step

    def _step(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode" and dis.opname[frame.f_code.co_code[frame.f_lasti]] in _WRITES:
            time.sleep(_WAIT)
        return self._step


def _codes_of(cls: type) -> set[CodeType]:
    functions = [value for base in cls.__mro__ for value in vars(base).values()]
    return {each.__code__ for each in functions if isinstance(each, FunctionType)}
