"""An epoch of an answer to "03.fix", in a process that may die of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from torch.utils.data import DataLoader

from dltutor.failures.dead_worker import How
from dltutor.lessons.kit.answers import failed_in_loader, failed_in_main
from dltutor.lessons.kit.outcome import Result
from dltutor.lessons.lesson_03.apart import Ended, Say, run_apart
from dltutor.lessons.lesson_03.film import Film
from dltutor.observation.observing import observe
from dltutor.observation.texts import said, tidy
from dltutor.observation.time_limits import DeadlinePassed, deadline

PATIENCE: Final = 6  # seconds to build the answer, and as many for its epoch


@dataclass(frozen=True)
class Epoch:
    """How an epoch with the answer went; all of it can be pickled.

    Args:
        end: As in an Observation.
        fates: Of the workers, in words.
        length: What `__len__` promised.
        kept: `quarantined`: name -> reason, or the name of its type where it is no dict. A reason
            that is a number stays one; everything else is text.
        frames: The frames that came; no bytes for a None.
        error: What to tell of an exception, or None.
        kind: Its type and text.
    """

    end: str
    fates: str
    length: int
    kept: dict[str, str | int] | str
    frames: tuple[bytes, ...]
    error: Result | None
    kind: str


def show(answer: type, film: Film, how: How) -> Ended:
    """Build the answer on a film and run an epoch, in a process of its own.

    It says "built", or a Result of what went wrong with building; then an Epoch.
    """
    return run_apart(partial(_show, answer, film.paths, how), seconds=2 * PATIENCE + 4)


def swallows(answer: type, film: Film, how: How) -> bool:
    """Whether the answer makes a sample of a file that holds nothing, in place of an exception."""
    empty = film.paths[0].with_name("empty.frame")
    empty.write_bytes(b"")
    ended = run_apart(partial(_take_one, answer, [empty], how), seconds=PATIENCE)
    return "a sample" in ended.said


def _take_one(answer: type, paths: Sequence[Path], how: How, say: Say) -> None:
    try:
        with deadline(PATIENCE / 2):
            answer(paths, how)[0]
            say("a sample")
    except (Exception, DeadlinePassed):
        say("an exception")


def _show(answer: type, paths: Sequence[Path], how: How, say: Say) -> None:
    try:
        with deadline(PATIENCE):
            dataset: Any = answer(list(paths), how)
            length = len(dataset)
    except DeadlinePassed as late:
        say(_where(late))
        return
    except BaseException as error:  # also SystemExit
        say(failed_in_main(error))
        return
    say("built")
    frames: list[bytes] = []

    def collect(loader: DataLoader[Any]) -> None:
        for batch in loader:
            frames.extend(b"" if each is None else np.asarray(each).tobytes() for each in batch)

    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_size=2,
        num_workers=2,
        collate_fn=_as_list,
        multiprocessing_context="fork",
    )
    seen = observe(loader, consume=collect, deadline=PATIENCE)
    say(
        Epoch(
            end=seen.end,
            fates=" and ".join(str(each) for each in seen.workers if each.exitcode is not None),
            length=length,
            kept=_kept(dataset),
            frames=tuple(frames),
            error=failed_in_loader(seen) if seen.end == "raised" else None,
            kind=tidy(said(*seen.chain[0])) if seen.chain else "",
        )
    )


def _as_list(samples: list[Any]) -> list[Any]:
    return samples


def _kept(dataset: Any) -> dict[str, str | int] | str:
    kept = getattr(dataset, "quarantined", None)
    if not isinstance(kept, dict):
        return type(kept).__name__
    return {
        Path(str(name)).name: reason if isinstance(reason, int) else str(reason or "")
        for name, reason in kept.items()
    }


def _where(late: BaseException) -> str:
    # The innermost line that says something: a pool's wait is in the standard library.
    files = []
    traceback = late.__traceback__
    while traceback is not None:
        files.append(traceback.tb_frame.f_code.co_filename)
        traceback = traceback.tb_next
    return "pool" if any(file.endswith("multiprocessing/pool.py") for file in files) else "late"
