"""Grade "03.fix", which asks for a class that delivers good frames and names the deadly ones.

A deadly frame ends any process that decodes it.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from mmap import mmap
from pathlib import Path
from typing import Any, Final

from dltutor.failures.dead_worker import Frames, How
from dltutor.lessons.engine.endings import Ending, arrivals, check_ending
from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.forms import a_fixed_class, shown
from dltutor.lessons.engine.outcomes import not_yet
from dltutor.lessons.engine.running import changed, contents, made, theirs
from dltutor.lessons.lesson_03.helpers import Film, form_and_pixels, fresh_film

_FILMS: Final[tuple[tuple[How, int, tuple[int, ...], int], ...]] = (
    # For each film, how a deadly frame ends the process, the number of frames, the positions of the
    # deadly frames, and the number of workers. The first two films have few frames, so that a wrong
    # answer fails quickly.
    ("killed", 2, (0,), 2),
    ("segfault", 4, (0, 1), 2),
    ("exit", 6, (1, 5), 4),  # four frames can be decoded, one for each worker
    ("abort", 4, (0, 1), 0),  # same files as in "segfault", so reusing those reasons is wrong
)
_SIGNALS: Final = {"killed": signal.SIGKILL, "segfault": signal.SIGSEGV, "abort": signal.SIGABRT}
_FORM: Final = "uint8 (64,)"  # a frame's dtype and shape
_TRIAL: Final = 15  # time limit in seconds to try a frame in a process that imports torch
_EPOCHS: Final = 6  # time limit in seconds to read a film twice


@dataclass(frozen=True)
class Reading:
    """A record of how an answer read a film twice.

    Args:
        how: How a deadly frame ends the process, such as "segfault".
        film: The film, with the pixels that its good frames should have.
        run: How the two epochs ended.
        came: For each sample of each epoch, the name of the frame's file, or the sample's form (see
            `form_and_pixels`) if the sample isn't one of the frames.
        quarantined: The dataset's attribute `quarantined`, or None.
        changed: The files in the film's folder that changed, are new, or are gone.
    """

    how: How
    film: Film
    run: Ending
    came: Sequence[Sequence[str]]
    quarantined: Any
    changed: Sequence[str] = ()


def run(answer: type) -> Iterator[Reading]:
    """For each way in which a frame can end the process, read a film twice and yield a record."""
    for how, frames, deadly, workers in _FILMS:
        yield _read(answer, how, fresh_film(frames, deadly), workers)


def _read(answer: type, how: How, film: Film, workers: int) -> Reading:
    folder = film.paths[0].parent
    before = contents(folder)
    name_of = {(_FORM, pixels): name for name, pixels in film.pixels.items()}

    def name(sample: Any) -> str:
        listed = type(sample).__name__, b""
        form = form_and_pixels(sample) if hasattr(sample, "dtype") else listed
        return name_of.get(form, form[0])

    dataset = _made(answer, list(film.paths), how)
    ending, came = arrivals(
        dataset,
        name,
        workers=workers,
        within=_EPOCHS,
        epochs=2,
    )
    with theirs():
        kept = getattr(dataset, "quarantined", None)
        if isinstance(kept, dict):
            kept = {str(name): reason for name, reason in kept.items()}
    return Reading(how, film, ending, came, kept, changed(before, folder))


def _made(answer: type, paths: list[Path], how: How) -> Any:
    call = f'{answer.__name__}(paths, "{how}")'
    me, copied = os.getpid(), mmap(-1, 1)  # memory that this process shares with its children
    try:
        dataset = made(answer, paths, how, call=call, within=_TRIAL * len(paths))
    finally:
        if os.getpid() != me:
            copied[0] = 1
            os._exit(0)
    if copied[0]:
        not_yet("child-goes-on", call=call)
    return dataset


def judge(reading: Reading) -> None:
    """Raise `Rejected` unless all good frames arrived and each deadly frame has a right reason.

    The reasons are in `quarantined`, which must not have any other keys. The film's folder must be
    unchanged.
    """
    film, ending, where = reading.film, reading.run, f'with `how="{reading.how}"`'
    kept = reading.quarantined if isinstance(reading.quarantined, dict) else {}
    if "daemonic processes" in ending.message:
        not_yet("daemonic", where=where, message=ending.message)
    check_ending(ending, where, deadly=len(film.deadly), aside=len(film.deadly.keys() & kept))
    if good := sorted(film.pixels.keys() & kept.keys()):
        reason = shown(kept[good[0]])
        not_yet(
            "good-in-quarantine", where=where, aside=len(good), good=len(film.pixels), reason=reason
        )
    for epoch, came in zip(("first", "second"), reading.came, strict=False):
        seen = {"where": where, "epoch": epoch, "samples": len(came)}
        if strays := [each for each in came if each not in film.pixels]:
            code = "other-pixels" if strays[0] == _FORM else "other-form"
            not_yet(code, strays=len(strays), form=strays[0], **seen)
        if sorted(came) != sorted(film.pixels):
            not_yet("not-each-once", frames=len(set(came)), good=len(film.pixels), **seen)
    if kept is not reading.quarantined:
        not_yet("not-a-dict", where=where, quarantined=shown(reading.quarantined))
    for name in sorted(kept.keys() ^ film.deadly.keys()):
        code = "lacks" if name in film.deadly else "no-such-file"
        not_yet(code, where=where, name=shown(name), files=shown(sorted(film.deadly)))
    if reading.changed:
        not_yet("files-changed", where=where, file=reading.changed[0])
    for name, exit_code in film.deadly.items():
        number = _SIGNALS.get(reading.how, 0)
        _judge_reason(kept[name], -number or exit_code, reading.how, where)


def _judge_reason(reason: Any, death: int, how: How, where: str) -> None:
    if not (isinstance(reason, str) and re.search("[A-Za-z]", reason)):
        not_yet("reason-not-words", where=where, reason=shown(reason))
    text = reason.upper()
    numbers = set(map(int, re.findall(r"(?<![\w.-])-?\d+(?!\w|\.\w)", text)))
    signals = {each.name for each in signal.Signals if each.name in text}
    if death > 0:
        if death not in numbers or signals:
            not_yet("reason-not-the-exit", where=where, reason=shown(reason), exit_code=death)
        return
    name = signal.Signals(-death).name
    # A reason may use the lesson's word, the name in `kill -l`, or what `strsignal` returns.
    names = (how.upper(), name[3:], (signal.strsignal(-death) or name).upper())
    known = {death, 128 - death} | ({-death} if "SIGNAL" in text else set())
    if not (numbers & known or any(each in text for each in names)) or signals - {name}:
        killed_by = f"{name} (exit code {death})"
        not_yet("reason-not-the-signal", where=where, reason=shown(reason), signal=killed_by)


GRADER: Final = by_runs(
    run,
    judge,
    look=partial(a_fixed_class, starter=Frames),
    at_most=sum(frames * _TRIAL + _EPOCHS for _, frames, _, _ in _FILMS) + 5,
)
