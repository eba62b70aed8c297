"""Find out whether a dataset reopens its file or connection if it's missing."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from dltutor.diagnosis.objects.digests import digest
from dltutor.diagnosis.objects.walking import Found, put, walk
from dltutor.diagnosis.running import forks
from dltutor.diagnosis.running.subject import Subject
from dltutor.observation.foreign import is_a


def lazily_opened(subject: Subject, held: list[Found]) -> str:
    """Return the path of a handle that the dataset reopens if it's missing, or "" if there's none.

    The path may also lead to an object that holds the handle. Each handle is removed in a fork of
    its own.

    Args:
        subject: The loader whose dataset to test.
        held: The files and connections in the dataset, with their paths.
    """
    for each in _holders_of(subject.dataset, held):
        if forks.attempt(partial(_opens_again, subject, each), 2.0):
            return each.path
    return ""


def _holders_of(dataset: Any, held: list[Found]) -> list[Found]:
    # Return the handles and every object on the path to a handle.
    known = {each.path: each for each in walk(dataset)}
    return [
        each
        for path, each in known.items()
        if each.holder is not None
        and any(own.path == path or own.path.startswith((f"{path}.", f"{path}[")) for own in held)
    ]


def _opens_again(subject: Subject, found: Found) -> bool:
    index = None if subject.stream else subject.indices()[0]

    def drawn() -> str:
        sample = next(iter(subject.dataset)) if subject.stream else subject.dataset[index]
        return digest(sample)

    wanted = drawn() if not subject.stream else ""
    for forget in (partial(put, found, None), partial(_delete, found)):
        with suppress(Exception):
            forget()
            try:
                if drawn() == wanted or subject.stream:
                    return True
            finally:
                put(found)
    return False


def _delete(found: Found) -> None:
    if is_a(found.holder, (dict, list)):
        del found.holder[found.key]
    else:
        delattr(found.holder, found.key)
