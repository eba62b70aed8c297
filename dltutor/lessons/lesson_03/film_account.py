"""What arrived of a film, and what was set aside, held against what its files hold."""

from __future__ import annotations

import re
import signal
from collections import Counter
from typing import Final

from dltutor.failures.dead_worker import How
from dltutor.lessons.kit.answers import wrong
from dltutor.lessons.lesson_03.film import Film
from dltutor.lessons.lesson_03.film_epoch import Epoch

_WAY: Final = {"segfault": "segfaults", "exit": "exits"}


def account(fresh: Film, how: How, epoch: Epoch) -> None:
    """Find the first thing that is wrong with an epoch that finished.

    Raises:
        Unfit: Something is; its result says what.
    """
    _frames_are_real(fresh, epoch)
    _rest_is_explained(fresh, how, epoch)


def _frames_are_real(fresh: Film, epoch: Epoch) -> None:
    if not epoch.frames:
        wrong(f"no frame arrives, and {len(fresh.pixels)} of {len(fresh.paths)} can be decoded.")
    if nones := epoch.frames.count(b""):
        wrong(
            f"{nones} samples are None, and a batch of this loader is an array: no such batch can "
            "be made. Who decides how many samples there are, and when?"
        )
    if strays := _invented(epoch, fresh):
        what = "blank, and" if not any(any(stray) for stray in strays) else "such that"
        wrong(
            f"{len(strays)} of {len(epoch.frames)} frames are {what} no file holds them. What "
            "will training learn from those?"
        )
    if (times := max(Counter(epoch.frames).values())) > 1:
        wrong(f"one frame came {times} times. Whose place did it take?")
    missing = fresh.pixels.keys() & epoch.kept if isinstance(epoch.kept, dict) else set()
    if missing:
        wrong(
            f"`quarantined` holds {len(missing)} frames that can be decoded, and only "
            f"{len(fresh.deadly)} cannot. Did each have a process of its own?"
        )


def _rest_is_explained(fresh: Film, how: How, epoch: Epoch) -> None:
    if not isinstance(epoch.kept, dict):
        what = "has no `quarantined`" if epoch.kept == "NoneType" else f"has a {epoch.kept} there"
        wrong(
            f"{len(epoch.frames)} of {len(fresh.paths)} frames arrive, and the dataset {what}. "
            "The rest has to be in a dict `quarantined`, from the name of each file to the reason."
        )
    came = set(epoch.frames)
    arrived = {name for name, pixels in fresh.pixels.items() if pixels in came}
    names = {path.name for path in fresh.paths}
    if lost := names - arrived - epoch.kept.keys():
        wrong(
            f"{len(names)} frames, {len(arrived)} arrive, and `quarantined` names "
            f"{len(names & epoch.kept.keys())}: {len(lost)} vanish without a word. In which "
            "process was `quarantined` filled?"
        )
    reasons = epoch.kept.values()
    under = f"under a decoder that {_WAY[how]}, the right frames are set aside, and the reason is"
    if vague := [str(reason) for reason in reasons if not _names_the_death(str(reason), how)]:
        wrong(
            f"{under} `{vague[0]:.40}`. What did the process that tried the frame end with? "
            "Whoever reads it will look that up."
        )
    if numbers := [reason for reason in reasons if isinstance(reason, int)]:
        wrong(
            f"{under} the number {int(numbers[0])}. Whoever reads the log wants "
            f"{_in_words(numbers[0])}."
        )


def _invented(epoch: Epoch, film: Film) -> list[bytes]:
    known = set(film.pixels.values())
    return [frame for frame in epoch.frames if frame not in known]


def _names_the_death(reason: str, how: How) -> bool:
    pattern = r"SEGV|segmentation|\b11\b|\b139\b" if how == "segfault" else r"\b3\b"
    return re.search(pattern, reason, re.IGNORECASE) is not None


def _in_words(number: int) -> str:
    if isinstance(number, signal.Signals):
        return f"its name, `.name`: {number.name}"
    if number < 0:
        return f"the name of the signal: `signal.Signals({-number}).name`"
    return f'words: "exit code {number}"'
