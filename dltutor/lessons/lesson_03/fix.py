"""Grade "03.fix": no worker meets a frame that ends its process, and each such frame is named."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import re
import signal
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath
from typing import Any, Final, NoReturn

import numpy as np
from torch.utils.data import DataLoader

from dltutor.failures.dead_worker import EXIT_CODE, Frames, How
from dltutor.lessons.kit.endings import Ending, ended_well, run_loader
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class
from dltutor.lessons.kit.outcomes import Outcome, Rejected, Result, correct, not_yet
from dltutor.lessons.kit.running import made, theirs
from dltutor.lessons.lesson_03.material import Film, fresh_film
from dltutor.observation.texts import fate

_FILMS: Final[tuple[tuple[How, int, tuple[int, ...], int], ...]] = (
    ("segfault", 4, (0, 3), 2),  # what its decoder does, frames, the deadly ones, workers
    ("exit", 3, (1, 2), 4),
    ("killed", 2, (0,), 2),
    ("abort", 2, (1,), 0),
)
_SIGNALS: Final = {"killed": signal.SIGKILL, "segfault": signal.SIGSEGV, "abort": signal.SIGABRT}
_IN_WORDS: Final = {"SEGMENTATION FAULT": "SIGSEGV", "ABORTED": "SIGABRT"}
_TRIAL: Final = 8  # seconds for one frame, while the dataset is made: enough for a new Python
_EPOCH: Final = 6  # seconds for reading a film


@dataclass(frozen=True)
class Epoch:
    """How an epoch with an answer went.

    Args:
        name: Of the class.
        how: What the decoder does.
        workers: How many.
        film: What it was made from.
        death: The exit code of a process that decodes a deadly frame.
        main: The exit code of the process that ran the answer; 0 if it came to the end.
        unmade: What to tell where the dataset could not be made or run.
        run: How the epoch ended.
        frames: What came: the name of each frame's file, "" if it is in none.
        nones: How many samples are None.
        quarantined: Its keys and values as texts; the name of its type if it is no dict.
        gone: How many files of the film are no longer there.
    """

    name: str
    how: How
    workers: int
    film: Film
    death: int
    main: int = 0
    unmade: Result | None = None
    run: Ending | None = None
    frames: tuple[str, ...] = ()
    nones: int = 0
    quarantined: dict[str, str] | str = ""
    gone: int = 0

    @property
    def call(self) -> str:
        """How the dataset is made."""
        return f"{self.name}(paths, how)"


def gather(answer: type) -> tuple[Epoch, ...]:
    """An epoch under each kind of decoder, up to the first that goes wrong.

    Each is run in a fork of its own, since an answer may end the process that runs it.
    """
    code = random.randint(40, 120)  # nobody knows it who has not tried a frame
    os.environ[EXIT_CODE] = str(code)
    epochs = []
    for how, frames, deadly, workers in _FILMS:
        death = -_SIGNALS[how] if how in _SIGNALS else code
        epoch = Epoch(answer.__name__, how, workers, fresh_film(frames, deadly), death)
        ended = _in_a_fork(partial(_run, answer, epoch))
        epoch = replace(epoch, main=ended) if isinstance(ended, int) else ended
        epochs.append(epoch)
        if epoch.run is None or epoch.run.end != "finished":
            break
    return tuple(epochs)


def _in_a_fork(work: Callable[[], Any]) -> Any:
    # What it returns, or the exit code of the process, if that died of it.
    with tempfile.TemporaryFile() as said:

        def say() -> None:
            try:
                found = work()
            except BaseException:  # what is not the answer's own has been told apart before
                found = traceback.format_exc()
            said.write(pickle.dumps(found))
            said.flush()
            os._exit(0)

        process = multiprocessing.get_context("fork").Process(target=say)
        process.start()
        process.join()
        said.seek(0)
        found = pickle.loads(said.read() or pickle.dumps(process.exitcode))
    if isinstance(found, str):
        raise RuntimeError(found)
    return found


def _run(answer: type, epoch: Epoch) -> Epoch:
    film = epoch.film
    came: list[bytes | None] = []

    def collect(loader: DataLoader[Any]) -> None:
        for batch in loader:
            came.extend(None if each is None else np.asarray(each).tobytes() for each in batch)

    try:
        within = _TRIAL * len(film.paths)
        dataset = made(answer, list(film.paths), epoch.how, call=epoch.call, within=within)
        run = run_loader(dataset, collect, workers=epoch.workers, within=_EPOCH, collate_fn=list)
        with theirs():
            kept: Any = getattr(dataset, "quarantined", None)
            if isinstance(kept, dict):
                kept = {str(name): str(reason) for name, reason in kept.items()}
            else:
                kept = type(kept).__name__
    except Rejected as rejected:
        return replace(epoch, unmade=rejected.result)
    name_of = {pixels: name for name, pixels in film.pixels.items()}
    return replace(
        epoch,
        run=run,
        frames=tuple(name_of.get(frame, "") for frame in came if frame is not None),
        nones=came.count(None),
        quarantined=kept,
        gone=sum(not path.exists() for path in film.paths),
    )


def judge(seen: tuple[Epoch, ...]) -> Result:
    """Correct if every healthy frame came, and every deadly one is named with what it did."""
    for epoch in seen:
        try:
            _judge(epoch)
        except Rejected as rejected:
            if rejected.result.outcome is not Outcome.NOT_YET:
                raise
            text = rejected.result.text
            begin = text[:1] if text[1:2].isdigit() else text[:1].lower()  # W0 stays W0
            not_yet(f'with `how="{epoch.how}"`: {begin}{text[1:]}')
    return correct(
        "Each frame that can be decoded arrives once, whatever the decoder does, with 0, 2 and 4 "
        "workers. Each deadly one is in `quarantined`, with what it did to its process, and no "
        "worker met it."
    )


def _judge(epoch: Epoch) -> None:
    film, kept, run = epoch.film, epoch.quarantined, epoch.run
    if epoch.unmade:
        raise Rejected(epoch.unmade)
    if run is None:
        _main_ended(epoch)
    if run.end == "worker died":
        found = len(film.deadly & set(kept)) if isinstance(kept, dict) else 0
        not_yet(
            f"{run.fates}. Of {len(film.deadly)} deadly frames, {found} were set aside. What is "
            "known of a frame before a worker decodes it?"
        )
    if "daemonic processes" in run.message:
        not_yet(
            f"`{run.message}`: a worker may not start processes of its own. When, and in "
            "which process, could each frame be tried before any worker meets it?"
        )
    ended_well(run)
    if isinstance(kept, dict) and (good := film.pixels.keys() & kept):
        not_yet(
            f"`quarantined` holds {len(good)} frames that can be decoded, and only "
            f"{len(film.deadly)} cannot. Did each have a process of its own?"
        )
    _frames_are_real(epoch)
    if not isinstance(kept, dict):
        what = "no `quarantined`" if kept == "NoneType" else f"a {kept} as `quarantined`"
        not_yet(f"The dataset has {what}: a dict, from the name of a file to the reason.")
    if long := [key for key in kept if PurePath(key).name in film.deadly and "/" in key]:
        not_yet(
            f"A key of `quarantined` is the path of `{PurePath(long[0]).name}`. It has to be the "
            "name alone, which stays the same when the film moves."
        )
    if lost := film.deadly - kept.keys():
        not_yet(f"{len(lost)} of {len(film.paths)} frames are missing, and no `quarantined` says.")
    if epoch.gone:
        not_yet(f"{epoch.gone} files of the film are gone. They are to stay as they are.")
    for reason in kept.values():
        _names_the_death(reason, epoch.death)


def _main_ended(epoch: Epoch) -> NoReturn:
    was = "was " if epoch.main < 0 else ""
    read = "" if epoch.workers else ", and read it with 0 workers,"
    ended = f"the process that made `{epoch.call}`{read} {was}{fate(epoch.main)}."
    if epoch.main != epoch.death:
        not_yet(f"{ended} No frame does that here. Which of your lines, or what they call, does?")
    not_yet(
        f"{ended} Here that was a process of the check; at work it is your training. A `try` "
        "around it runs in the same process, and ends with it. Where could a deadly frame do no "
        "harm?"
    )


def _frames_are_real(epoch: Epoch) -> None:
    film, frames = epoch.film, epoch.frames
    if epoch.nones:
        not_yet(f"{epoch.nones} samples are None. No batch can be made of those.")
    if strays := frames.count(""):
        not_yet(f"{strays} of {len(frames)} frames hold what is in no file of the film.")
    if len(film.pixels) > len(set(frames)):
        not_yet(f"{len(set(frames))} of {len(film.pixels)} frames that can be decoded arrive.")
    if (times := max(Counter(frames).values())) > 1:
        not_yet(f"one frame came {times} times. Whose place did it take?")


def _names_the_death(reason: str, death: int) -> None:
    lead = f"the right frames are set aside, and the reason is `{reason:.60}`."
    if not re.search(r"[A-Za-z]", reason):
        words = f"`signal.Signals({-death}).name`" if death < 0 else f'"exit code {death}"'
        not_yet(f"{lead} Whoever reads the log wants words, such as {words}.")
    text = reason.upper()
    signals = {each.name for each in signal.Signals if each.name in text}
    signals |= {name for word, name in _IN_WORDS.items() if word in text}
    numbers = set(map(int, re.findall(r"(?<![\w.-])-?\d+(?!\w|\.\w)", text)))
    claimed = set(map(int, re.findall(r"(?:SIGNAL|CODE|STATUS)[^\w-]*(-?\d+)", text)))
    if not signals | numbers and "KILLED" in text:  # also in "killed by SIGSEGV"
        signals = {"SIGKILL"}
    if not signals | numbers:
        not_yet(f"{lead} What did the process that tried the frame end with?")
    codes = {death, -death, 128 - death} if death < 0 else {death}
    name = {signal.Signals(-death).name} if death < 0 else set()
    if not (signals <= name and claimed <= codes and (signals or numbers & codes)):
        was = "is " if death < 0 else ""
        not_yet(
            f"{lead} A process that decodes such a frame {was}{fate(death)}. Was each frame tried, "
            "and its end read?"
        )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_class, starter=Frames),
    runs="makes your class on four films, each in a process that may die of it, and runs it with "
    "0, 2 and 4 workers",
    at_most=sum(frames * _TRIAL + _EPOCH for _, frames, _, _ in _FILMS) + 5,
)
