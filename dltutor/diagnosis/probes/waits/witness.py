"""Run a thread in each forked worker to find out what the worker waits for and try to free it.

The worker starts this thread, the witness, in its `worker_init_fn`. If the worker's main thread has
been at one place in your code for a while, the witness looks through the main thread's frames for a
lock that's held, an executor without its threads, or a thread that main has and the worker doesn't.
The witness releases the lock, starts the threads, or supplies an answer, and checks whether the
worker goes on. If the worker doesn't, or if it has waited a long time for its next task, the
witness ends the worker, and so the run.

The witness counts naps, not seconds, because on a busy machine both threads get little time.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

import torch

from dltutor.diagnosis.objects.walking import Found
from dltutor.diagnosis.probes.waits import causes
from dltutor.diagnosis.running.notes import Notes
from dltutor.observation import worker_init
from dltutor.observation.errors import frame as named_frame
from dltutor.observation.errors import is_yours

_NAP: Final = 0.1  # seconds
_STANDING: Final = 12  # naps at one place, after which a worker counts as stuck
_IDLE: Final = 30  # naps without a task, after which the witness expects no other task
_GOES_ON: Final = 10  # naps that the worker gets to go on, once the cause is gone
_OTHERS: Final = 1.0  # seconds that other witnesses get to finish before one ends the run
#: The files from which a worker calls your code.
_ENTRANCES: Final = (worker_init.__file__, "torch/utils/data/_utils/fetch.py")
_MOST: Final = 6  # the most times to free one worker


@dataclass(frozen=True)
class Witness:
    """A function that starts a witness in a worker, before the user's own `worker_init_fn` runs.

    Args:
        notes: Where each worker writes what it found. Each note is a dict with `worker` (the
            worker's number), and either `held` (names of locks) or `stuck` and `threads`, as in
            Waits.
        roots: The objects to search for the names of locks, threads, and executors.
        others: The parent process's threads at the time of the fork.
    """

    notes: Notes
    roots: Sequence[Found]
    others: Sequence[threading.Thread]

    def __call__(self, worker: int) -> None:
        main, held = threading.get_ident(), causes.held_in(self.roots)
        self.notes.write({"worker": worker, "held": held})
        # The thread isn't a daemon, so a worker that goes on to its end doesn't exit before its
        # witness has noted that.
        threading.Thread(target=self._watch, args=(worker, main)).start()

    def _watch(self, worker: int, main: int) -> None:
        for _ in range(_MOST):
            if not (frames := _stuck(main)):
                break
            line, threads = _line(frames), _threads()
            kind, path, by, freed = "", "", "", False
            with suppress(Exception):  # the frames may hold objects that raise when inspected
                kind, path, by, freed = self._free(main, frames)
            stuck = (worker, line, kind, path, by, freed)  # as in `Waits.stuck`
            self.notes.write({"worker": worker, "stuck": stuck, "threads": threads})
            if not freed:
                break
        if threading.main_thread().is_alive():
            time.sleep(_OTHERS)
            os._exit(1)

    def _free(self, main: int, frames: list[FrameType]) -> tuple[str, str, str, bool]:
        before = _place(main)
        for cause in causes.causes(frames, self.roots, self.others):
            with suppress(Exception):
                cause.remove()
            for _ in range(_GOES_ON):
                time.sleep(_NAP)
                if _place(main) != before:
                    return cause.kind, cause.path, cause.by, True
        return "", "", "", False


def _stuck(main: int) -> list[FrameType]:
    # Wait until the main thread, while it fetches a batch or runs the worker_init_fn, has been at
    # one place for a while. Return the thread's frames from there, the innermost first, or an empty
    # list if it has waited for its next task for a long time, or has ended.
    place, naps = _place(main), 0
    while naps < _IDLE and threading.main_thread().is_alive():
        time.sleep(_NAP)
        naps = naps + 1 if _place(main) == place else 0
        place = _place(main)
        if naps > _STANDING and (frames := _inside(main)):
            return frames
    return []


def _place(main: int) -> list[tuple[int, int]]:
    top = sys._current_frames().get(main)
    return [(id(frame), frame.f_lasti) for frame, _ in traceback.walk_stack(top)] if top else []


def _inside(main: int) -> list[FrameType]:
    found: list[FrameType] = []
    for frame, _ in traceback.walk_stack(sys._current_frames().get(main)):
        file = frame.f_code.co_filename
        if file.endswith(_ENTRANCES):
            return found
        if frame.f_code.co_name == "_worker_loop":
            return []  # the worker is waiting for its next task
        found.append(frame)
    return []


def _line(frames: list[FrameType]) -> str:
    yours = [each for each in frames if is_yours(each.f_code.co_filename)] or frames[-1:]
    if not yours:
        return ""
    entry = traceback.extract_stack(yours[0], limit=1)[0]
    return str(named_frame(entry.filename, entry.lineno or 0, entry.name, entry.line or ""))


def _threads() -> int:
    cv2: Any = sys.modules.get("cv2")
    return max(torch.get_num_threads(), cv2.getNumThreads() if cv2 else 1)
