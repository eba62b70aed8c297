"""Grade "03.fix": no worker meets a frame that ends its process, and each such frame is named."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from mmap import mmap
from pathlib import Path
from typing import Any, Final

from torch.utils.data import DataLoader

from dltutor.failures.dead_worker import Frames, How
from dltutor.lessons.engine.endings import Ending, ended_well, run_loader
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_class, shown
from dltutor.lessons.engine.outcomes import Rejected, Result, correct, not_yet
from dltutor.lessons.engine.running import changed, contents, made, theirs
from dltutor.lessons.lesson_03.material import Film, form_and_pixels, fresh_film
from dltutor.observation.texts import fate

_FILMS: Final[tuple[tuple[How, int, tuple[int, ...], int], ...]] = (
    # What its decoder does, frames, the deadly ones, workers. First what no program can catch, and
    # few frames: an answer that dies or hangs of it is told so soon.
    ("killed", 2, (0,), 2),
    ("segfault", 4, (0, 1), 2),
    ("exit", 6, (1, 5), 4),  # four can be decoded: one for each worker
    ("abort", 4, (0, 1), 0),  # the second one's files: what was found then is not true now
)
_SIGNALS: Final = {"killed": signal.SIGKILL, "segfault": signal.SIGSEGV, "abort": signal.SIGABRT}
_FORM: Final = "uint8 (64,)"  # of a frame
_TRIAL: Final = 15  # seconds for a frame in the making: a new Python with torch, under load
_EPOCHS: Final = 6  # seconds for reading a film twice


@dataclass(frozen=True)
class Reading:
    """How a film was read twice with an answer.

    Args:
        how: What the decoder does.
        film: What it was made from.
        run: How the two epochs ended.
        came: Of each epoch the samples: the name of a frame's file, or the form of anything else.
        quarantined: What the answer has under this name, None if nothing.
        changed: The files of the film's folder that are not as they were.
    """

    how: How
    film: Film
    run: Ending
    came: Sequence[Sequence[str]]
    quarantined: Any
    changed: Sequence[str] = ()


def gather(answer: type) -> tuple[Reading, ...]:
    """A film under each kind of decoder, up to the first that goes wrong."""
    readings: list[Reading] = []
    for how, frames, deadly, workers in _FILMS:
        readings.append(_read(answer, how, fresh_film(frames, deadly), workers))
        if readings[-1].run.end != "finished" or readings[-1].changed:
            break
    return tuple(readings)


def _read(answer: type, how: How, film: Film, workers: int) -> Reading:
    folder = film.paths[0].parent
    before = contents(folder)
    name_of = {(_FORM, pixels): name for name, pixels in film.pixels.items()}
    came: list[list[str]] = []

    def collect(loader: DataLoader[Any]) -> None:
        came.append([])
        for (sample,) in loader:
            listed = type(sample).__name__, b""
            form = form_and_pixels(sample) if hasattr(sample, "dtype") else listed
            came[-1].append(name_of.get(form, form[0]))

    dataset = _made(answer, list(film.paths), how)
    run = run_loader(
        dataset,
        collect,
        workers=workers,
        within=_EPOCHS,
        epochs=2,
        persistent_workers=workers > 0,
        collate_fn=list,
    )
    with theirs():
        kept = getattr(dataset, "quarantined", None)
        if isinstance(kept, dict):
            kept = {str(name): reason for name, reason in kept.items()}
    return Reading(how, film, run, came, kept, changed(before, folder))


def _made(answer: type, paths: list[Path], how: How) -> Any:
    call = f'{answer.__name__}(paths, "{how}")'
    me, copied = os.getpid(), mmap(-1, 1)  # memory that this process shares with its forks
    try:
        dataset = made(
            answer,
            paths,
            how,
            call=call,
            within=_TRIAL * len(paths),
            question=f"That is {_TRIAL} s for each frame. Does it wait for something?",
        )
    finally:
        if os.getpid() != me:
            copied[0] = 1
            os._exit(0)
    if copied[0]:
        not_yet(
            f"a forked child came out of `{call}` too. It goes on with your program, as a second "
            "copy of it. What ends a child at once, when it has tried its frame?"
        )
    return dataset


def judge(seen: tuple[Reading, ...]) -> Result:
    """Correct if every healthy frame came, and every deadly one is named with what it did."""
    for reading in seen:
        try:
            _judge(reading)
        except Rejected as rejected:
            text = f'With `how="{reading.how}"`: {rejected.result.text}'
            raise Rejected(replace(rejected.result, text=text)) from rejected
    return correct(
        "Each frame that can be decoded arrives once in each of two epochs, whatever the decoder "
        "does, with 0, 2 and 4 workers. Each deadly one is in `quarantined`, with what it did to "
        "its process, and no loader over your dataset met it."
    )


def _judge(reading: Reading) -> None:
    film, run = reading.film, reading.run
    kept = reading.quarantined if isinstance(reading.quarantined, dict) else {}
    if "daemonic processes" in run.message:
        not_yet(
            f"`{run.message}`: a worker may not start processes of its own. When, and in "
            "which process, could each frame be tried before any worker meets it?"
        )
    ended_well(
        run,
        died=f"Deadly frames: {len(film.deadly)}; set aside: {len(film.deadly.keys() & kept)}. "
        "What is known of a frame before a worker decodes it?",
    )
    if good := sorted(film.pixels.keys() & kept.keys()):
        not_yet(
            f"`quarantined` has {len(good)} of the {len(film.pixels)} frames that can be decoded, "
            f"one with the reason {shown(kept[good[0]])}. Did each frame have a process of its "
            "own, and did that process print an error?"
        )
    for epoch, came in enumerate(reading.came):
        _frames_are_real(film, came, "in the second epoch, " if epoch else "")
    if kept is not reading.quarantined:
        none = reading.quarantined is None
        what = "no `quarantined`" if none else f"{shown(reading.quarantined)} as `quarantined`"
        not_yet(f"the dataset has {what}: a dict, from the name of a file to the reason.")
    for name in sorted(kept.keys() ^ film.deadly.keys()):
        what = "lacks" if name in film.deadly else "has a key that is no file's name in this film:"
        not_yet(
            f"`quarantined` {what} {shown(name)}. The deadly files here are "
            f"{shown(sorted(film.deadly))}. Where do the keys come from?"
        )
    if reading.changed:
        not_yet(f"the film's folder is not as it was: `{reading.changed[0]}` differs.")
    for name, code in film.deadly.items():
        number = _SIGNALS.get(reading.how, 0)
        _names_the_death(kept[name], -number or code, reading.how)


def _frames_are_real(film: Film, came: Sequence[str], place: str) -> None:
    if strays := [each for each in came if each not in film.pixels]:
        differs = "other pixels than any file has" if strays[0] == _FORM else f"not `{_FORM}`"
        not_yet(
            f"{place}{len(strays)} of {len(came)} samples are no frame of the film. The first is "
            f"`{strays[0]}`, {differs}."
        )
    if sorted(came) != sorted(film.pixels):
        not_yet(
            f"{place}{len(came)} samples come, and with them {len(set(came))} of the "
            f"{len(film.pixels)} frames that can be decoded. Each has to come once."
        )


def _names_the_death(reason: Any, death: int, how: How) -> None:
    lead = f"the right frames are set aside, and one reason is {shown(reason)}."
    name = signal.Signals(-death).name if death < 0 else ""
    if not (isinstance(reason, str) and re.search("[A-Za-z]", reason)):
        words = f"`signal.Signals({-death}).name`" if name else f'"exit code {death}"'
        not_yet(f"{lead} Whoever reads the log wants words, such as {words}.")
    text = reason.upper()
    codes, number, names = {death}, set(), []
    if name:  # or what the lesson, a shell's `kill -l` and the system call it
        codes, number = {death, 128 - death}, {death, -death}
        names = [how.upper(), name[3:], (signal.strsignal(-death) or name).upper()]
    signals = {each.name for each in signal.Signals if each.name in text}
    numbers = set(map(int, re.findall(r"(?<![\w.-])-?\d+(?!\w|\.\w)", text)))
    if not (
        (numbers & (codes | number) or any(each in text for each in names))
        and signals <= {name}
        and _after("SIGNAL", text) <= number
        and _after("(?:CODE|STATUS)", text) <= codes
    ):
        was = "is " if name else ""
        not_yet(
            f"{lead} A process that decodes this frame {was}{fate(death)}. Is that what ended the "
            "one that tried it?"
        )


def _after(word: str, text: str) -> set[int]:
    return set(map(int, re.findall(word + r"[^\w-]*(-?\d+)", text)))


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_class, starter=Frames),
    runs="makes your class on four films and reads each twice, with 0, 2 or 4 workers",
    at_most=sum(frames * _TRIAL + _EPOCHS for _, frames, _, _ in _FILMS) + 5,
    died="A `try` around a death ends with its process. Where could a deadly frame do no harm?",
)
