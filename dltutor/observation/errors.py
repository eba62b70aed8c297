"""Read an exception's chain, notes, and traceback, and find out which worker raised it."""

from __future__ import annotations

import pickle
import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from dltutor.observation.foreign import attribute, elements, is_a, message_of, said
from dltutor.observation.record import Frame
from dltutor.observation.texts import notes_in, shorten_paths, without_colors

# Code in dltutor/failures, such as a broken dataset, counts as the learner's. Code in libraries and
# in the rest of dltutor doesn't.
_PACKAGE: Final = f"{Path(__file__).parents[1]}/"
_NOT_YOURS: Final = re.compile(r"/(?:site|dist)-packages/|/lib/python3\.\d+/|^<")
# Match a frame of dltutor's own code, outside failures/ and lessons/lesson_*/, in a printed
# traceback. We remove such a frame, because a run without `observe` wouldn't have the frame. In an
# exception group, each line begins with bars.
_INSTRUMENT: Final = re.compile(
    rf'^(?P<bars>[ |]*)  File "{re.escape(_PACKAGE)}(?!failures/|lessons/lesson_)[^"]*", line .*\n'
    r"(?:(?P=bars)    .*\n)*",
    re.MULTILINE,
)
_WRAPPED: Final = re.compile(r"Caught (\w+) in DataLoader worker process (\d+)\.")
_OF_EXCEPTIONS: Final = vars(BaseException)
_FRAME: Final = re.compile(
    r'^  File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)\n'
    r"(?:    (?P<code>\S.*)\n)?",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Failed:
    """An exception in plain text, so that Python can free the exception itself.

    The fields have the same names and meanings as those of `Observation`.
    """

    chain: tuple[tuple[str, str], ...] = ()
    traceback: tuple[Frame, ...] = ()
    raised_in_worker: str | None = None
    failed_worker: int | None = None
    raw: str = ""
    notes: tuple[str, ...] = ()

    @property
    def by_torch(self) -> str:
        """The failure that torch itself reported: 'worker died', 'timed out', or ''."""
        texts = [message for kind, message in self.chain if kind == "RuntimeError"]
        if any(text.startswith("DataLoader worker (pid") for text in texts):
            return "worker died"
        if any(text.startswith("DataLoader timed out") for text in texts):
            return "timed out"
        return ""


def read(error: BaseException) -> Failed:
    """Return an exception's chain, traceback, worker, and notes as plain text."""
    args = _own(error, "args")
    text = args[0] if args and is_a(args[0], str) else ""
    wrapped = _WRAPPED.match(text)
    frames = _frames_in_text(text) if wrapped else _frames_of(error)
    return Failed(
        chain=tuple((type(e).__name__, message_of(e)) for e in chain(error)),
        traceback=tuple(frames),
        raised_in_worker=wrapped.group(1) if wrapped else None,
        failed_worker=int(wrapped.group(2)) if wrapped else None,
        raw=_as_in_a_terminal(error),
        notes=tuple(note for each in chain(error) for note in _notes_of(each)),
    )


def forget(error: BaseException) -> None:
    """Drop the tracebacks of an exception and its causes, and free what their frames hold.

    The frames hold the iterator and its workers, for example. torch re-raises a worker's exception
    from a frame that refers to the exception, so without this function, the exception and the frame
    would stay until the garbage collector runs (measured on torch 2.13).
    """
    for each in chain(error):
        traceback.clear_frames(traceback_of(each))
        _OF_EXCEPTIONS["__traceback__"].__set__(each, None)


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its causes (or contexts, as tracebacks show them), outermost first."""
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        yield following
        cause, context = _own(following, "__cause__"), _own(following, "__context__")
        hidden = cause is not None or _own(following, "__suppress_context__")
        following = cause if hidden else context


def traceback_of(error: BaseException) -> TracebackType | None:
    """Return an exception's traceback, even if the class overrides `__traceback__`."""
    found: TracebackType | None = _own(error, "__traceback__")
    return found


def lost_contact(error: BaseException) -> bool:
    """Return whether multiprocessing raised an error that can mean that a worker is gone."""
    # If a worker is gone, main gets a ConnectionResetError, a FileNotFoundError for a socket, or an
    # EOFError (pytorch#28950). With the file_system sharing strategy, main gets a RuntimeError for
    # a file in /dev/shm that is gone.
    kinds = (OSError, EOFError, pickle.UnpicklingError, RuntimeError)
    for each in chain(error):
        entries = traceback.extract_tb(traceback_of(each)) if is_a(each, kinds) else ()
        if entries and "/multiprocessing/" in entries[-1].filename:
            return True
    return False


def is_yours(file: str) -> bool:
    """Return whether a file counts as the learner's, as those in dltutor/failures do."""
    if file.startswith(_PACKAGE):
        return file.startswith(f"{_PACKAGE}failures/")
    return not _NOT_YOURS.search(file)


def frame(file: str, line: int, function: str, code: str = "") -> Frame:
    """Make a Frame from a line in a traceback or a stack, with the path shortened."""
    return Frame(shorten_paths(f'"{file}"').strip('"').removeprefix(".../"), line, function, code)


def _own(error: BaseException, name: str) -> Any:
    return _OF_EXCEPTIONS[name].__get__(error)


def _as_in_a_terminal(error: BaseException) -> str:
    try:
        lines = traceback.format_exception(error)
    except Exception:  # the error's own notes or truth value may raise an exception
        lines = [*traceback.format_tb(traceback_of(error)), said(error)]
    return shorten_paths(_INSTRUMENT.sub("", without_colors("".join(lines).rstrip())))


def _notes_of(error: BaseException) -> tuple[str, ...]:
    # A traceback shows notes below the error's message. From Python 3.14 on, pickle adds notes that
    # say which part of the object couldn't be pickled. `__notes__` may be any object.
    notes = elements(attribute(error, "__notes__"))
    own = [note for _, note in notes if is_a(note, str)]
    return (*notes_in(message_of(error)), *own)


def _frames_of(error: BaseException) -> list[Frame]:
    entries = traceback.extract_tb(traceback_of(error))
    return [
        frame(e.filename, e.lineno or 0, e.name, e.line or "")
        for e in entries
        if is_yours(e.filename)
    ]


def _frames_in_text(text: str) -> list[Frame]:
    # Python prints several tracebacks for a chained exception. The last one belongs to the
    # exception that arrived.
    last = text.rpartition("Traceback (most recent call last)")[2]
    return [
        frame(m["file"], int(m["line"]), m["function"], m["code"] or "")
        for m in _FRAME.finditer(last)
        if is_yours(m["file"])
    ]
