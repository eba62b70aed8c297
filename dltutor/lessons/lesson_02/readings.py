"""Make the dataset that "02.fix" wraps, with healthy samples and many kinds of exceptions."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from torch.utils.data import Dataset

Sample = tuple[list[int], int] | None


class Blank(Exception):
    """An exception that takes one string, as most do."""


class TornReading(Exception):
    """An exception that takes two arguments."""

    def __init__(self, part: str, reason: str) -> None:
        super().__init__(f"{part}: {reason}")


class WrongUnit(Exception):
    """An exception that only takes keywords."""

    def __init__(self, *, unit: str) -> None:
        super().__init__(f"no such unit: {unit}")


class Drifted(Exception):
    """An exception with a class attribute `message`."""

    message = "the sensor has drifted"


class Stuck(Drifted):
    """An exception that inherits a class attribute `message`."""


class Unnamed(Exception):
    """An exception whose `message` is empty, so torch ignores that attribute."""

    message = ""


class Failed(Exception):
    """An exception whose instances have a `message`, although its class doesn't."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Told(Exception):
    """An exception with a property `message`, which torch mistakes for a class attribute."""

    @property
    def message(self) -> str:
        return str(self)


Ended: Final = type("Ended", (StopIteration,), {})
#: An older class, as if a cell had run twice and the name `Drifted` now meant a newer class.
_BEFORE: Final = type("Drifted", (OSError,), {})


def _local(base: type[Exception]) -> type[Exception]:
    class Local(base):  # type: ignore[misc, valid-type]
        pass

    return Local


class Fault(NamedTuple):
    """A sample's error: how to make it from a word, the type due in main, and a description."""

    make: Callable[[str], Exception]
    kind: type[Exception]
    what: str


_JSON: Final = partial(json.JSONDecodeError, doc="{", pos=1)
_UTF8: Final = partial(UnicodeDecodeError, "utf-8", b"\xff", 0, 1)
_TORN: Final = partial(_local(TornReading), "its header")
LENGTH: Final = 5200
#: Index -> the sample's error. The last sample raises an error, and the first doesn't.
FAULTS: Final = {
    4217: Fault(ValueError, ValueError, "a ValueError"),
    1931: Fault(KeyError, KeyError, "a KeyError"),
    2617: Fault(partial(FileNotFoundError, 2), FileNotFoundError, "a FileNotFoundError"),
    2711: Fault(Blank, Blank, "an exception that takes one string"),
    2203: Fault(
        partial(TornReading, "its header"), RuntimeError, "an exception that takes two arguments"
    ),
    3019: Fault(
        lambda word: WrongUnit(unit=word), RuntimeError, "an exception that only takes keywords"
    ),
    4129: Fault(_UTF8, RuntimeError, "a UnicodeDecodeError"),
    3307: Fault(_JSON, RuntimeError, "a json.JSONDecodeError"),
    3541: Fault(Drifted, RuntimeError, "an exception with a class attribute `message`"),
    2837: Fault(Stuck, RuntimeError, "an exception that inherits a class attribute `message`"),
    4409: Fault(Told, RuntimeError, "an exception with a property `message`"),
    4007: Fault(Unnamed, Unnamed, "an exception whose class attribute `message` is empty"),
    2309: Fault(Failed, Failed, "an exception with a `message` that its class lacks"),
    3803: Fault(StopIteration, RuntimeError, "a StopIteration"),
    1507: Fault(
        _local(ValueError), RuntimeError, "a subclass of ValueError, made inside a function"
    ),
    4801: Fault(_TORN, RuntimeError, "a subclass of TornReading, made inside a function"),
    2417: Fault(IndexError, IndexError, "an IndexError"),
    4603: Fault(_BEFORE, RuntimeError, "an OSError whose class name now means another class"),
    LENGTH - 1: Fault(Ended, RuntimeError, "a subclass of StopIteration"),
}
INTERRUPTED: Final = 2900


class Readings(Dataset[Sample]):
    """A dataset that makes its samples, and raises the errors in FAULTS and a KeyboardInterrupt."""

    def __init__(self) -> None:
        self.paths = [Path(f"readings/{_letters(n)}.json") for n in range(LENGTH)]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Sample:
        if index == INTERRUPTED:
            raise KeyboardInterrupt("from the check, as Ctrl-C would be")
        if index in FAULTS:
            raise FAULTS[index].make(word_of(index))
        return sample_of(index)


def sample_of(index: int) -> Sample:
    """Return the healthy sample at an index, which is None at index 4000."""
    return None if index == 4000 else ([index, 3 * index], index % 7)


def word_of(index: int) -> str:
    """Return a word that only appears in this sample's error message."""
    return f"w-{_letters(index)}-w"


def _letters(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in f"{number * 7:08}")
