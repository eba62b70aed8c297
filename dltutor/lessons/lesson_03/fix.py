"""Grade "03.fix": no worker meets a frame that ends its process, and each such frame is named."""

from __future__ import annotations

import re
import signal
from collections import Counter
from pathlib import PurePath
from typing import Any, Final, NoReturn

from dltutor.failures.dead_worker import Frames
from dltutor.lessons.kit.endings import Ending, ended_well
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class
from dltutor.lessons.kit.outcomes import Outcome, Rejected, Result, correct, not_yet
from dltutor.lessons.lesson_03 import epochs
from dltutor.lessons.lesson_03.epochs import Epoch
from dltutor.observation.texts import fate

_IN_WORDS: Final = {"SEGMENTATION FAULT": signal.SIGSEGV, "ABORTED": signal.SIGABRT}


def look(answer: Any) -> type:
    """The answer, if it is a dataset's class that is no longer the starter."""
    return a_fixed_class(
        answer,
        Frames,
        without_workers="Without workers a deadly frame ends the training itself.",
    )


def judge(seen: tuple[Epoch, ...]) -> Result:
    """Correct if every healthy frame came, and every deadly one is named with what it did."""
    good: list[str] = []
    for epoch in seen:
        how = f'`how="{epoch.show.how}"`'
        try:
            _judge(epoch)
        except Rejected as rejected:
            text = rejected.result.text
            if rejected.result.outcome is not Outcome.NOT_YET:
                raise
            begin = text[:1] if text[1:2].isdigit() else text[:1].lower()  # W0 stays W0
            well = f"with {', '.join(good)} all is well. " if good else ""
            not_yet(f"{well}{'With' if good else 'with'} {how}: {begin}{text[1:]}")
        good.append(how)
    return correct(
        "Each frame that can be decoded arrives once, whatever the decoder does, with 0, 2 and 4 "
        "workers. Each deadly one is in `quarantined`, with what it did to its process, and no "
        "worker met it."
    )


def _judge(epoch: Epoch) -> None:
    if epoch.unmade:
        raise Rejected(epoch.unmade)
    if epoch.run is None:
        _say_how_main_ended(epoch)
    elif epoch.run.end == "worker died":
        _say_why_it_died(epoch, epoch.run)
    elif "daemonic processes" in epoch.run.message:
        not_yet(
            f"`{epoch.run.message}`: a worker may not start processes of its own. When, and in "
            "which process, could each frame be tried before any worker meets it?"
        )
    else:
        ended_well(epoch.run)
    _frames_are_real(epoch)
    _reasons_are_true(epoch, _the_rest_is_named(epoch))


def _say_how_main_ended(epoch: Epoch) -> NoReturn:
    was = "was " if epoch.main < 0 else ""
    read = "" if epoch.show.workers else ", and read it with 0 workers,"
    ended = f"the process that made `{epoch.call}`{read} {was}{fate(epoch.main)}."
    if epoch.main != epoch.death:
        not_yet(f"{ended} No frame does that here. Which of your lines, or what they call, does?")
    not_yet(
        f"{ended} Here that was a process of the check; at work it is your training. A `try` "
        "around it runs in the same process, and ends with it. Where could a deadly frame do no "
        "harm?"
    )


def _say_why_it_died(epoch: Epoch, run: Ending) -> NoReturn:
    deadly = epoch.film.deadly
    found = len(deadly & set(epoch.quarantined)) if isinstance(epoch.quarantined, dict) else 0
    aside = f"Of {len(deadly)} deadly frames your class set {found or 'none'} aside."
    if epoch.swallows:
        not_yet(
            f"{run.fates}. Your class does catch what a broken file raises, but nothing was raised "
            "here: the process that would have run the `except` was gone. Who is left to notice, "
            "and from where?"
        )
    if found:
        not_yet(f"{run.fates}. {aside} How does your trial go on after the first death?")
    if epoch.death > 0:
        not_yet(f"{run.fates}. {aside} Which exit codes mean that all went well?")
    not_yet(f"{run.fates}. {aside} What does it know of a frame before a worker decodes it?")


def _frames_are_real(epoch: Epoch) -> None:
    film, frames = epoch.film, epoch.frames
    if isinstance(epoch.quarantined, dict) and (good := film.pixels.keys() & epoch.quarantined):
        not_yet(
            f"`quarantined` holds {len(good)} frames that can be decoded, and only "
            f"{len(film.deadly)} cannot. Did each have a process of its own?"
        )
    if epoch.nones:
        not_yet(
            f"{epoch.nones} samples are None, and a batch of the lesson's loader is an array: no "
            "such batch can be made. Who decides how many samples there are, and when?"
        )
    if not frames:
        not_yet(f"no frame arrives, and {len(film.pixels)} of {len(film.names)} can be decoded.")
    if strays := frames.count(""):
        what = "blank, and" if epoch.blank == strays else "such that"
        not_yet(
            f"{strays} of {len(frames)} frames are {what} no file holds them. What will training "
            "learn from those?"
        )
    if (times := max(Counter(frames).values())) > 1:
        not_yet(f"one frame came {times} times. Whose place did it take?")


def _the_rest_is_named(epoch: Epoch) -> dict[str, str]:
    kept, names = epoch.quarantined, set(epoch.film.names)
    if not isinstance(kept, dict):
        what = "has no `quarantined`" if kept == "NoneType" else f"has a {kept} there"
        not_yet(
            f"{len(epoch.frames)} of {len(names)} frames arrive, and the dataset {what}. The rest "
            "has to be in a dict `quarantined`, from the name of each file to the reason."
        )
    if long := [key for key in kept if key not in names and PurePath(key).name in names]:
        not_yet(
            f"`quarantined` has the path of a file as a key, one that ends in "
            f"`{PurePath(long[0]).name}`. It has to be the name of the file alone, which is right "
            "wherever the film lies."
        )
    if lost := names - set(epoch.frames) - kept.keys():
        not_yet(
            f"{len(names)} frames, {len(epoch.frames)} arrive, and `quarantined` names "
            f"{len(names & kept.keys())}: {len(lost)} vanish without a word. In which process was "
            "`quarantined` filled?"
        )
    return kept


def _reasons_are_true(epoch: Epoch, kept: dict[str, str]) -> None:
    ends = f"A process that decodes such a frame {'is ' if epoch.death < 0 else ''}"
    for reason in kept.values():
        lead = f"the right frames are set aside, and the reason is `{reason:.60}`."
        if re.fullmatch(r"\W*\d*\W*", reason):
            words = f'words: "exit code {epoch.death}"'
            if epoch.death < 0:
                words = f"the name of the signal: `signal.Signals({-epoch.death}).name`"
            not_yet(f"{lead} Whoever reads the log wants {words}.")
        named = _deaths_named(reason)
        if not named:
            not_yet(
                f"{lead} What did the process that tried the frame end with? Whoever reads it will "
                "look that up."
            )
        if named != {epoch.death}:
            not_yet(f"{lead} {ends}{fate(epoch.death)}. Was each frame tried, and its end read?")


def _deaths_named(reason: str) -> set[int]:
    # As exit codes: "SIGSEGV", "Segmentation fault", "signal 11" and "exit code -11" are -11.
    text = reason.upper()
    names = {**{each.name: each for each in signal.Signals}, **_IN_WORDS}
    deaths = {-number for name, number in names.items() if re.search(rf"\b{name}\b", text)}
    for word, number in re.findall(r"\b(SIGNAL|CODE|STATUS|WITH)\b[^\w-]*(-?\d+)", text):
        code = int(number)
        deaths.add(-abs(code) if word == "SIGNAL" else 128 - code if code > 128 else code)
    if not deaths and "KILLED" in text:  # also in "killed by SIGSEGV"
        deaths.add(-signal.SIGKILL)
    return deaths


GRADER: Final = Grader(
    gather=epochs.gather,
    judge=judge,
    look=look,
    runs="makes your class on four films, each in a process that may die of it, and runs it with "
    "0, 2 and 4 workers",
    at_most=epochs.AT_MOST,
)
