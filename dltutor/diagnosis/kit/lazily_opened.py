"""Whether a dataset opens its file or connection again when it finds none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dltutor.diagnosis.kit import forks
from dltutor.diagnosis.kit.bench import Bench
from dltutor.diagnosis.kit.digests import digest
from dltutor.diagnosis.kit.walking import Found, put, walk
from dltutor.observation.foreign import is_a


def lazily_opened(bench: Bench, held: list[Found]) -> str:
    """The path whose handle the dataset opens again by itself where it finds none; or "".

    Args:
        bench: With the dataset.
        held: Where handles were found.
    """
    for path in _ways(bench.dataset, held):

        def forget(path: Found = path) -> bool:
            return _opens_again(bench, path)

        with suppress(forks.NoAnswer):
            if forks.in_fork(forget, 2.0):
                return path.path
    return ""


def _ways(dataset: Any, held: list[Found]) -> list[Found]:
    # The handle itself, and what it lies in on the way.
    known = {each.path: each for each in walk(dataset)}
    return [
        each
        for path, each in known.items()
        if each.holder is not None
        and any(own.path == path or own.path.startswith((f"{path}.", f"{path}[")) for own in held)
    ]


def _opens_again(bench: Bench, found: Found) -> bool:
    index = None if bench.stream else bench.indices()[0]

    def drawn() -> str:
        sample = next(iter(bench.dataset)) if bench.stream else bench.dataset[index]
        return digest(sample)

    wanted = drawn() if not bench.stream else ""
    for forget in (_set_none, _delete):
        with suppress(Exception):
            put_back_by = forget(found)
            try:
                if drawn() == wanted or bench.stream:
                    return True
            finally:
                put_back_by()
    return False


def _set_none(found: Found) -> Callable[[], None]:
    return _replace(found, lambda: put(found, None))


def _delete(found: Found) -> Callable[[], None]:
    def delete() -> None:
        if is_a(found.holder, (dict, list)):
            del found.holder[found.key]
        else:
            delattr(found.holder, found.key)

    return _replace(found, delete)


def _replace(found: Found, change: Callable[[], None]) -> Callable[[], None]:
    change()
    return lambda: put(found)
