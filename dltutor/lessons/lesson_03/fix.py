"""Grade "03.fix": no worker meets a frame that ends its process, and each such frame is named."""

from __future__ import annotations

import os
import pickle
import random
import re
import signal
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from torch.utils.data import DataLoader

from dltutor.failures.dead_worker import EXIT_CODE, Frames, How, exit_code_alone
from dltutor.lessons.kit.endings import Ending, ended_well, run_loader
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class
from dltutor.lessons.kit.outcomes import Outcome, Rejected, Result, correct, not_yet
from dltutor.lessons.kit.running import changed, contents, made, theirs
from dltutor.lessons.lesson_03.material import Film, form_and_pixels, fresh_film
from dltutor.observation.texts import fate

_FILMS: Final[tuple[tuple[How, int, tuple[int, ...], int], ...]] = (
    ("segfault", 4, (0, 3), 2),  # what its decoder does, frames, the deadly ones, workers
    ("exit", 5, (1,), 4),  # a frame for each worker
    ("killed", 2, (0,), 2),
    ("abort", 3, (1,), 0),
)
_SIGNALS: Final = {"killed": signal.SIGKILL, "segfault": signal.SIGSEGV, "abort": signal.SIGABRT}
_IN_WORDS: Final = {"SEGMENTATION FAULT": "SIGSEGV", "ABORTED": "SIGABRT"}
_FORM: Final = "uint8 (64,)"  # of a frame
_TRIAL: Final = 8  # seconds for one frame, while the dataset is made: enough for a new Python
_EPOCHS: Final = 6  # seconds for reading a film twice


@dataclass(frozen=True)
class Reading:
    """How a film was read twice with an answer.

    Args:
        call: How the dataset is made: "MyFrames(paths, how)".
        how: What the decoder does.
        workers: How many.
        film: What it was made from.
        death: The exit code of a process that decodes a deadly frame.
        main: The exit code of the process that ran the answer; 0 if it came to the end.
        unmade: What to tell where the dataset could not be made or run.
        run: How the two epochs ended.
        came: Of each epoch the samples: the name of a frame's file, or the form of anything else.
        quarantined: Its keys and values as texts.
        kind: The name of its type, if that is no dict.
        changed: How many files of the film's folder are not as they were.
    """

    call: str
    how: How
    workers: int
    film: Film
    death: int
    main: int = 0
    unmade: Result | None = None
    run: Ending | None = None
    came: Sequence[Sequence[str]] = ()
    quarantined: dict[str, str] = field(default_factory=dict)
    kind: str = ""
    changed: int = 0


def gather(answer: type) -> tuple[Reading, ...]:
    """A film under each kind of decoder, up to the first that goes wrong.

    Each is read in a fork of its own, since an answer may end the process that runs it.
    """
    code = random.randint(40, 120)  # nobody knows it who has not tried a frame
    os.environ[EXIT_CODE] = str(code)
    readings = []
    for how, frames, deadly, workers in _FILMS:
        death = -_SIGNALS[how] if how in _SIGNALS else code
        call = f"{answer.__name__}(paths, how)"
        reading = Reading(call, how, workers, fresh_film(frames, deadly), death)
        found = _in_a_fork(partial(_read, answer, reading))
        readings.append(replace(reading, main=found) if isinstance(found, int) else found)
        if readings[-1].run is None or readings[-1].run.end != "finished":
            break
    return tuple(readings)


def _in_a_fork(work: Callable[[], Any]) -> Any:
    # What it returns, or the exit code of the process, if that died of it.
    file = Path(tempfile.mkdtemp(), "found")

    def say() -> None:
        try:
            found = work()
        except BaseException:  # what is not the answer's own has been told apart before
            found = traceback.format_exc()
        file.write_bytes(pickle.dumps(found))

    code = exit_code_alone(say)
    found = pickle.loads(file.read_bytes()) if file.exists() else code
    if isinstance(found, str):
        raise RuntimeError(found)
    return found


def _read(answer: type, reading: Reading) -> Reading:
    film, workers = reading.film, reading.workers
    folder = film.paths[0].parent
    before = contents(folder)
    name_of = {(_FORM, pixels): name for name, pixels in film.pixels.items()}
    came: list[list[str]] = []

    def collect(loader: DataLoader[Any]) -> None:
        came.append([])
        for batch in loader:
            forms = map(form_and_pixels, batch)
            came[-1].extend(name_of.get(form, form[0]) for form in forms)

    try:
        within = _TRIAL * len(film.paths)
        dataset = made(answer, list(film.paths), reading.how, call=reading.call, within=within)
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
            kept: Any = getattr(dataset, "quarantined", None)
            kind = "" if isinstance(kept, dict) else type(kept).__name__
            reasons = {} if kind else {str(name): str(why) for name, why in kept.items()}
    except Rejected as rejected:
        return replace(reading, unmade=rejected.result)
    gone = len(changed(before, folder))
    return replace(reading, run=run, came=came, quarantined=reasons, kind=kind, changed=gone)


def judge(seen: tuple[Reading, ...]) -> Result:
    """Correct if every healthy frame came, and every deadly one is named with what it did."""
    for reading in seen:
        try:
            _judge(reading)
        except Rejected as rejected:
            if rejected.result.outcome is not Outcome.NOT_YET:
                raise
            not_yet(f'with `how="{reading.how}"`: {rejected.result.text}')
    return correct(
        "Each frame that can be decoded arrives once in each of two epochs, whatever the decoder "
        "does, with 0, 2 and 4 workers. Each deadly one is in `quarantined`, with what it did to "
        "its process, and no worker met it."
    )


def _judge(reading: Reading) -> None:
    film, kept, run = reading.film, reading.quarantined, reading.run
    if reading.unmade:
        raise Rejected(reading.unmade)
    if run is None:
        _main_ended(reading)
    if run.end == "worker died":
        not_yet(
            f"{run.fates}. Of {len(film.deadly)} deadly frames, {len(film.deadly & kept.keys())} "
            "were set aside. What is known of a frame before a worker decodes it?"
        )
    if "daemonic processes" in run.message:
        not_yet(
            f"`{run.message}`: a worker may not start processes of its own. When, and in "
            "which process, could each frame be tried before any worker meets it?"
        )
    ended_well(run)
    if good := film.pixels.keys() & kept.keys():
        not_yet(
            f"`quarantined` holds {len(good)} frames that can be decoded, and only "
            f"{len(film.deadly)} cannot. Did each have a process of its own?"
        )
    for epoch, came in enumerate(reading.came, 1):
        _frames_are_real(film, came, "" if epoch == 1 else "in the second epoch, ")
    if reading.kind:
        none = reading.kind == "NoneType"
        what = "no `quarantined`" if none else f"a {reading.kind} as `quarantined`"
        not_yet(f"the dataset has {what}: a dict, from the name of a file to the reason.")
    if kept.keys() != film.deadly:
        not_yet(
            f"{len(film.deadly)} of {len(film.paths)} frames are missing. `quarantined` has "
            f"{len(kept)} keys, and not the names of those files alone, such as "
            f"`{min(film.deadly)}`."
        )
    if reading.changed:
        not_yet(f"{reading.changed} files in the film's folder are not as they were.")
    for reason in kept.values():
        _names_the_death(reason, reading.death)


def _main_ended(reading: Reading) -> NoReturn:
    was = "was " if reading.main < 0 else ""
    read = "" if reading.workers else ", and read it with 0 workers,"
    ended = f"the process that made `{reading.call}`{read} {was}{fate(reading.main)}."
    if reading.main != reading.death:
        not_yet(f"{ended} No frame does that here. Which of your lines, or what they call, does?")
    not_yet(
        f"{ended} Here that was a process of the check; at work it is your training. A `try` "
        "around it runs in the same process, and ends with it. Where could a deadly frame do no "
        "harm?"
    )


def _frames_are_real(film: Film, came: Sequence[str], place: str) -> None:
    if strays := [each for each in came if each not in film.pixels]:
        not_yet(
            f"{place}{len(strays)} of {len(came)} samples are no frame of the film. The first is "
            f"`{strays[0]}`; a frame is `{_FORM}`, with the pixels of its file."
        )
    if sorted(came) != sorted(film.pixels):
        not_yet(
            f"{place}{len(came)} samples come, and with them {len(set(came))} of the "
            f"{len(film.pixels)} frames that can be decoded. Each has to come once."
        )


def _names_the_death(reason: str, death: int) -> None:
    lead = f"the right frames are set aside, and the reason is `{reason:.60}`."
    text = reason.upper()
    if not re.search(r"[A-Z]", text):
        words = f"`signal.Signals({-death}).name`" if death < 0 else f'"exit code {death}"'
        not_yet(f"{lead} Whoever reads the log wants words, such as {words}.")
    signals = {each.name for each in signal.Signals if each.name in text}
    signals |= {name for word, name in _IN_WORDS.items() if word in text}
    numbers = set(map(int, re.findall(r"(?<![\w.-])-?\d+(?!\w|\.\w)", text)))
    if not signals | numbers and "KILLED" in text:  # also in "killed by SIGSEGV"
        signals = {"SIGKILL"}
    codes = {death, 128 - death} if death < 0 else {death}
    number = {death, -death} if death < 0 else set()  # of the signal
    name = {signal.Signals(-death).name} if death < 0 else set()
    if not (
        (signals or numbers & (codes | number))
        and signals <= name
        and _after("SIGNAL", text) <= number
        and _after("(?:CODE|STATUS)", text) <= codes
    ):
        was = "is " if death < 0 else ""
        not_yet(
            f"{lead} A process that decodes such a frame {was}{fate(death)}. Was each frame tried, "
            "and its end read?"
        )


def _after(word: str, text: str) -> set[int]:
    return set(map(int, re.findall(word + r"[^\w-]*(-?\d+)", text)))


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_class, starter=Frames),
    runs="makes your class on four films, each in a process that may die of it, and reads each "
    "twice, with 0, 2 or 4 workers",
    at_most=sum(frames * _TRIAL + _EPOCHS for _, frames, _, _ in _FILMS) + 5,
)
