"""Find the line of your code where a thread is most often, by looking up to 250 times a second."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections import Counter
from typing import Any, Final

from dltutor.diagnosis.running.notes import Notes
from dltutor.observation.errors import frame, is_yours

_EVERY: Final = 0.004  # seconds between two looks at the thread
_LEAST: Final = 20  # the fewest looks for a result, and how many looks lie between two notes


class Busiest:
    """A watcher that finds the line of your code where a thread is most often.

    The thread is the one that makes the watcher, which looks until `stop` is called or the process
    ends.

    Args:
        notes: Where to write a list every 20 looks, in case the process is killed: the process's
            pid, and what `stop` would return. If None (the default), nothing is written.
    """

    def __init__(self, notes: Notes | None = None) -> None:
        self._notes = notes
        self._seen: Counter[tuple[str, int, str]] = Counter()
        self._looks = 0
        self._main = threading.get_ident()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="dltutor-busiest", daemon=True)
        self._thread.start()

    def stop(self) -> tuple[str, float, float]:
        """Stop looking, and return where in your code the watched thread was most often.

        Returns:
            The line, the share of looks that found the thread there or in something that the line
            calls, and the share of looks that found your code on the thread's stack. After fewer
            than 20 looks, or if none found your code: "", 0, and 0.
        """
        self._over.set()
        self._thread.join()  # otherwise, `things_left` in side_effects.py would count this thread
        return self._found()

    def _found(self) -> tuple[str, float, float]:
        if self._looks < _LEAST or not self._seen:
            return "", 0.0, 0.0
        (file, line, name), count = self._seen.most_common(1)[0]
        place = str(frame(file, line, name, "")).partition(", in ")[0]
        return place, count / self._looks, self._seen.total() / self._looks

    def _look(self) -> None:
        while not self._over.wait(_EVERY):
            self._looks += 1
            top: Any = sys._current_frames().get(self._main)
            for each, line in traceback.walk_stack(top):
                if is_yours(each.f_code.co_filename):
                    self._seen[each.f_code.co_filename, line, each.f_code.co_name] += 1
                    break
            if self._notes is not None and self._looks % _LEAST == 0:
                self._notes.write([os.getpid(), *self._found()])
