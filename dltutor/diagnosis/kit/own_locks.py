"""Locks between processes, made anew for an experiment.

Such a lock is one and the same in main, in a fork of it, and in its workers. A worker that is ended
while it holds the lock takes it along: the next run would wait for it without end, and so would the
user's own training afterwards. Python 3.11 to 3.14, multiprocessing/synchronize.py: what a process
has of a lock is a `SemLock`, and whoever replaces what is in it has another lock. One that was made
for spawned workers has a name in the system, which would be left; it stays as it is.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable
from multiprocessing.synchronize import SemLock
from typing import Any

from dltutor.diagnosis.kit.walking import Found, walk
from dltutor.observation.foreign import is_a


class OwnLocks:
    """The locks of a dataset, in a process where they may be replaced.

    Args:
        things: The dataset, and what else its workers have.
    """

    def __init__(self, things: Iterable[Any]) -> None:
        found: dict[int, Found] = {}
        for thing in things:
            found |= {id(each.thing): each for each in walk(thing) if is_a(each.thing, SemLock)}
        self._locks = [
            (each.thing, own.kind, own._get_value(), own.maxvalue)
            for each in found.values()
            if (own := each.thing._semlock).name is None
        ]

    def renew(self) -> None:
        """Make each of them anew, as it was at first."""
        for lock, kind, value, most in self._locks:
            SemLock.__init__(lock, kind, value, most, ctx=multiprocessing.get_context("fork"))
