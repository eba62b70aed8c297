"""An epoch of an answer to "03.fix", under each kind of decoder.

An answer may end the process that runs it, under each decoder anew. So each film is shown in a fork
of its own, which may die of it.
"""

from __future__ import annotations

import os
import pickle
import random
import signal
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from torch.utils.data import DataLoader

from dltutor.failures.dead_worker import EXIT_CODE, How
from dltutor.lessons.kit.endings import Ending, ending
from dltutor.lessons.kit.outcomes import Rejected, Result
from dltutor.lessons.kit.running import made, theirs
from dltutor.lessons.lesson_03.material import Film, fresh_film
from dltutor.observation import observe


class Show(NamedTuple):
    """A film that an answer is run on: what its decoder does, how many frames, which are deadly."""

    how: How
    frames: int
    deadly: tuple[int, ...]
    workers: int


_SHOWS: Final = (
    Show("segfault", 4, (0, 3), workers=2),
    Show("exit", 4, (1, 3), workers=4),
    Show("killed", 2, (0,), workers=2),
    Show("abort", 2, (1,), workers=0),
)
_SIGNALS: Final = {"killed": signal.SIGKILL, "segfault": signal.SIGSEGV, "abort": signal.SIGABRT}
_TRIAL: Final = 6  # seconds for one frame, while the dataset is made: enough for a new Python
_EPOCH: Final = 6  # seconds for reading it
AT_MOST: Final = sum(show.frames * _TRIAL + _EPOCH for show in _SHOWS) + 2 * _TRIAL + 5

_SLOW: Final = (
    "What does it wait for, and how long does one frame take? A `multiprocessing.Pool` waits for "
    "ever for a process that died. Which way of starting one lets you ask for its exit code?"
)


@dataclass(frozen=True)
class Epoch:
    """How an epoch with an answer went.

    Args:
        show: The film and its decoder.
        call: How the dataset is made.
        film: What it was made from.
        death: The exit code of a process that decodes a deadly frame.
        main: The exit code of the process that ran the answer; 0 if it came to the end.
        unmade: What to tell where the dataset could not be made.
        run: How the epoch ended.
        frames: What came: the name of each frame's file, "" if it is in none.
        blank: How many frames are zero all through.
        nones: How many samples are None.
        quarantined: Its keys and values as texts; the name of its type if it is no dict.
        swallows: Whether it makes a sample of an empty file; tried where a worker died.
    """

    show: Show
    call: str
    film: Film
    death: int
    main: int = 0
    unmade: Result | None = None
    run: Ending | None = None
    frames: tuple[str, ...] = ()
    blank: int = 0
    nones: int = 0
    quarantined: dict[str, str] | str = ""
    swallows: bool = False


def gather(answer: type) -> tuple[Epoch, ...]:
    """An epoch under each kind of decoder, up to the first that goes wrong."""
    code = random.randint(40, 120)  # nobody knows it who has not tried a frame
    os.environ[EXIT_CODE] = str(code)
    epochs = []
    for show in _SHOWS:
        film = fresh_film(show.frames, show.deadly)
        death = -_SIGNALS[show.how] if show.how in _SIGNALS else code
        epoch = Epoch(show, f"{answer.__name__}(paths, how)", film, death)
        ended = _in_a_fork(partial(_run, answer, epoch))
        epoch = replace(epoch, main=ended) if isinstance(ended, int) else ended
        if epoch.run and epoch.run.end == "worker died":
            swallows = _in_a_fork(partial(_swallows, answer, epoch)) is True
            epoch = replace(epoch, swallows=swallows)
        epochs.append(epoch)
        if epoch.run is None or epoch.run.end != "finished":
            break
    return tuple(epochs)


def _in_a_fork(work: Callable[[], Any]) -> Any:
    # What it returns, or the exit code of the process, if that died of it.
    with tempfile.TemporaryFile() as said:
        pid = os.fork()
        if pid == 0:
            try:
                answer = work()
            except BaseException:  # what is not the answer's own has been told apart before
                answer = traceback.format_exc()
            try:
                said.write(pickle.dumps(answer))
                said.flush()
            finally:
                os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        said.seek(0)
        answer = pickle.loads(said.read() or pickle.dumps(code))
    if isinstance(answer, str):
        raise RuntimeError(answer)
    return answer


def _run(answer: type, epoch: Epoch) -> Epoch:
    show, paths = epoch.show, epoch.film.paths
    came: list[bytes | None] = []

    def collect(loader: DataLoader[Any]) -> None:
        for batch in loader:
            came.extend(None if each is None else np.asarray(each).tobytes() for each in batch)

    try:
        dataset = made(
            answer, paths, show.how, call=epoch.call, within=_TRIAL * len(paths), question=_SLOW
        )
        with theirs():
            loader: DataLoader[Any] = DataLoader(
                dataset,
                batch_size=2,
                num_workers=show.workers,
                collate_fn=list,
                multiprocessing_context="fork" if show.workers else None,
            )
        run = ending(observe(loader, consume=collect, deadline=_EPOCH))
        quarantined = _quarantined(dataset)
    except Rejected as rejected:
        return replace(epoch, unmade=rejected.result)
    name_of = {pixels: name for name, pixels in epoch.film.pixels.items()}
    frames = [frame for frame in came if frame is not None]
    return replace(
        epoch,
        run=run,
        frames=tuple(name_of.get(frame, "") for frame in frames),
        blank=sum(not any(frame) for frame in frames),
        nones=came.count(None),
        quarantined=quarantined,
    )


def _quarantined(dataset: Any) -> dict[str, str] | str:
    with theirs():
        kept = getattr(dataset, "quarantined", None)
        if not isinstance(kept, dict):
            return type(kept).__name__
        return {str(name): str(reason) for name, reason in kept.items()}


def _swallows(answer: type, epoch: Epoch) -> bool:
    empty = Path(epoch.film.folder, "empty.frame")
    empty.touch()
    try:
        made(answer, [empty], epoch.show.how, call=epoch.call, within=_TRIAL)[0]
    except Exception:
        return False
    return True
