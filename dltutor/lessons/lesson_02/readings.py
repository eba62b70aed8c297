"""The dataset that "02.fix" wraps: healthy samples, and every way to raise."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from torch.utils.data import Dataset

Sample = tuple[list[int], int]


class TornReading(Exception):
    """Takes two arguments."""

    def __init__(self, part: str, reason: str) -> None:
        super().__init__(f"{part}: {reason}")


class WrongUnit(Exception):
    """Takes keywords only."""

    def __init__(self, *, unit: str) -> None:
        super().__init__(f"no such unit: {unit}")


class Drifted(Exception):
    """Its class has a message for all."""

    message = "the sensor has drifted"


def _local(base: type[Exception]) -> type[Exception]:
    class Local(base):  # type: ignore[misc, valid-type]
        pass

    return Local


class Fault(NamedTuple):
    """What a sample raises: made of a word; what `except` is to catch; in words."""

    make: Callable[[str], Exception]
    kind: type[Exception]
    what: str


_JSON: Final = partial(json.JSONDecodeError, doc="{", pos=1)
_UTF8: Final = partial(UnicodeDecodeError, "utf-8", b"\xff", 0, 1)
_INSIDE: Final = "a class made inside a function, of the base"
LENGTH: Final = 5200
#: By the index of the sample. The last sample is among them, the first is not.
FAULTS: Final = {
    4217: Fault(ValueError, ValueError, "a ValueError"),
    1931: Fault(KeyError, KeyError, "a KeyError"),
    2617: Fault(partial(FileNotFoundError, 2), FileNotFoundError, "a FileNotFoundError"),
    2203: Fault(partial(TornReading, "its header"), TornReading, "a type of two arguments"),
    3019: Fault(lambda word: WrongUnit(unit=word), WrongUnit, "a type of keywords only"),
    4129: Fault(_UTF8, UnicodeDecodeError, "a UnicodeDecodeError"),
    3307: Fault(_JSON, json.JSONDecodeError, "a json.JSONDecodeError"),
    3541: Fault(Drifted, Drifted, "a type with a class attribute `message`"),
    3803: Fault(StopIteration, RuntimeError, "a StopIteration"),
    1507: Fault(lambda word: _local(ValueError)(word), ValueError, f"{_INSIDE} ValueError"),
    4801: Fault(lambda w: _local(TornReading)("", w), TornReading, f"{_INSIDE} TornReading"),
    LENGTH - 1: Fault(KeyError, KeyError, "a KeyError"),
}
INTERRUPTED: Final = 2900


class Readings(Dataset[Sample]):
    """Samples that are made on the spot, and that fail as FAULTS says."""

    def __init__(self, shift: int = 0) -> None:
        self.shift = shift
        self.paths = [Path(f"readings/{_letters(n + shift)}.json") for n in range(LENGTH)]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Sample:
        if index == INTERRUPTED:
            raise KeyboardInterrupt
        if index in FAULTS:
            raise FAULTS[index].make(word_of(index))
        return sample_of(index, self.shift)


def sample_of(index: int, shift: int = 0) -> Sample:
    """A healthy sample."""
    return [index, shift, 3 * index], index % 7


def word_of(index: int) -> str:
    """A word in the text of what the sample raises, and nowhere else."""
    return f"w-{_letters(index)}-w"


def _letters(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in f"{number * 7:08}")
