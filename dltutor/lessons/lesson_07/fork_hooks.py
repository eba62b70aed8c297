"""What an answer registers with `os.register_at_fork` ends with its check.

Python keeps such functions for as long as the process lives, and offers no way to take one back: a
wrong one would disturb every later fork of the kernel.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from dltutor.observation.time_limits import DeadlinePassed, deadline

PATIENCE: Final = 2.0  # seconds that a function may hold up a fork

Hook = Callable[[], object]


@dataclass
class Hooks:
    """The functions that were registered in a block.

    Attributes:
        on: Whether they run.
        held_up: Whether one of them held up a fork in main. From then on none is run.
    """

    on: bool = True
    held_up: bool = False


@contextmanager
def hooks_end_here() -> Iterator[Hooks]:
    """Run functions that are registered in the block at forks in the block only."""
    register: Callable[..., None] = os.register_at_fork
    hooks = Hooks()
    main = os.getpid()

    def while_on(hook: Hook) -> Hook:
        def run() -> None:
            if not hooks.on:
                return
            if os.getpid() != main:
                hook()
                return
            try:
                # A deadline of its own: the run's would ring in the middle of a fork.
                with deadline(PATIENCE):
                    hook()
            except DeadlinePassed:
                hooks.on, hooks.held_up = False, True

        return run

    def register_for_now(**given: Any) -> None:
        # What cannot be called is left as it is: Python's own message says so.
        register(
            **{name: while_on(each) if callable(each) else each for name, each in given.items()}
        )

    os.register_at_fork = register_for_now
    try:
        yield hooks
    finally:
        hooks.on = False
        os.register_at_fork = register
