"""Stop a thread just before a line of a class, as a fork at that very moment would find it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any

Place = tuple[CodeType, int]  # a method's code, and one of its lines


def lines_run(cls: type, call: Callable[[], object]) -> list[Place]:
    """Run something in a thread and note the lines of a class's methods that it comes to.

    Returns:
        Each line once, in the order in which they were come to first.
    """
    places: dict[Place, None] = {}
    thread = threading.Thread(
        target=lambda: _traced(cls, lambda code, line: places.setdefault((code, line)), call),
        daemon=True,
    )
    thread.start()
    thread.join()
    return list(places)


def stopping_before(
    cls: type, place: Place, stop: Callable[[], object], call: Callable[[], object]
) -> None:
    """Run something in this thread, and call `stop` whenever it comes to a line."""
    _traced(cls, lambda code, line: stop() if (code, line) == place else None, call)


def _traced(
    cls: type, at_line: Callable[[CodeType, int], object], call: Callable[[], object]
) -> None:
    codes = {each.__code__ for each in vars(cls).values() if isinstance(each, FunctionType)}

    def enter(frame: FrameType, event: str, arg: Any) -> Any:
        return step if frame.f_code in codes else None

    def step(frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            at_line(frame.f_code, frame.f_lineno)
        return step

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(before)
