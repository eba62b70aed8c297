"""Find the line of your code where a thread is most often, by looking 250 times a second."""

from __future__ import annotations

import json
import sys
import threading
import traceback
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from dltutor.observation.errors import frame, is_yours

_EVERY: Final = 0.004  # seconds between two looks at the thread
_LEAST: Final = 20  # looks; with fewer, there's no result


class Busiest:
    """A watcher that counts how often the thread that made it is in each line of your code.

    Args:
        file: The file to which to write the result so far every 20 looks, in case the process is
            killed. If None (the default), the result isn't written.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._seen: Counter[tuple[str, int, str]] = Counter()
        self._looks = 0
        self._main = threading.get_ident()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="dltutor-busiest", daemon=True)

    def start(self) -> None:
        """Start looking, until `stop` is called or the process ends."""
        self._thread.start()

    def stop(self) -> tuple[str, float, float]:
        """Stop looking, and return what `found` returns."""
        self._over.set()
        self._thread.join()  # otherwise, `things_left` in side_effects.py would count it
        return self.found()

    def found(self) -> tuple[str, float, float]:
        """Return where in your code the watched thread was most often.

        Returns:
            The line, the share of looks that found the thread there, and the share of looks that
            found it in any line of your code, or "", 0, and 0 if that isn't known.
        """
        if self._looks < _LEAST or not self._seen:
            return "", 0.0, 0.0
        (file, line, name), count = self._seen.most_common(1)[0]
        place = str(frame(file, line, name, "")).partition(", in ")[0]
        return place, count / self._looks, self._seen.total() / self._looks

    @staticmethod
    def read(folder: str) -> tuple[str, float, float]:
        """Return what `found` returned in the worker whose busiest line has the largest share.

        If no file has a result, return "", 0, and 0.

        Args:
            folder: A folder with a file from the Busiest in each worker, and with no other files.
        """
        found: list[tuple[str, float, float]] = []
        for each in Path(folder).iterdir():
            with suppress(ValueError):  # a worker may be writing the file
                line, share, inside = json.loads(each.read_text())
                found.append((line, share, inside))
        return max(found, key=lambda each: each[1], default=("", 0.0, 0.0))

    def _look(self) -> None:
        while not self._over.wait(_EVERY):
            self._looks += 1
            top: Any = sys._current_frames().get(self._main)
            for each, line in traceback.walk_stack(top):
                if is_yours(each.f_code.co_filename):
                    self._seen[each.f_code.co_filename, line, each.f_code.co_name] += 1
                    break
            if self._file is not None and self._looks % _LEAST == 0:
                self._file.write_text(json.dumps(self.found()))
