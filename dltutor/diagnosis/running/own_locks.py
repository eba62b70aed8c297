"""Give an experiment its own copies of the locks that processes share.

The main process, its forks, and their workers all use the same lock. A worker that's killed while
it holds the lock never releases it, so the next run would wait forever, and so would your own
training later. A process reaches such a lock through a `SemLock`, and initializing the `SemLock`
again turns it into another lock (multiprocessing/synchronize.py in Python 3.11 to 3.14). A lock for
spawned workers has a name in the operating system, which a copy would leave behind, so such a
lock isn't copied.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.synchronize import SemLock
from typing import Any

from dltutor.diagnosis.objects.walking import walk
from dltutor.observation.foreign import is_a


class OwnLocks:
    """The locks that a dataset and other objects hold, except named ones. `renew` replaces them.

    Args:
        things: The dataset, and the other objects to search for locks, such as the loop.
    """

    def __init__(self, *things: Any) -> None:
        found: list[Any] = [each.thing for each in walk(*things) if is_a(each.thing, SemLock)]
        self._locks = [
            (lock, own.kind, own._get_value(), own.maxvalue)
            for lock in found
            if (own := lock._semlock).name is None
        ]

    def renew(self) -> None:
        """Replace each lock with a new one, in the state that the lock was in when it was found."""
        for lock, kind, value, most in self._locks:
            SemLock.__init__(lock, kind, value, most, ctx=multiprocessing.get_context("fork"))
