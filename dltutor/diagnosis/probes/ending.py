"""Where does the dataset end?

`__len__` claims one end, but `__getitem__` may have another, so find the index where `__getitem__`
runs out of samples. Also look for a number in the dataset that shows that the length is intended.
"""

from __future__ import annotations

import inspect
import re
from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.objects.digests import shape
from dltutor.diagnosis.objects.walking import walk
from dltutor.diagnosis.running.subject import Subject, described
from dltutor.observation.foreign import attribute, attributes_of, is_a, number

_ENDS: Final = ("IndexError", "KeyError")
_FEW: Final = 2  # up to this many samples, or one in 50 if that's more, may be left out by mistake


@dataclass(frozen=True)
class Ending:
    """Where a map-style dataset ends, according to its `__len__` and its `__getitem__`.

    Args:
        length: What `__len__` returns.
        end: The index where the samples run out, or -1 if it wasn't found.
        limits: The paths of up to three numbers in the dataset, or of its `__len__`, which show
            that the length is intended.
        said: The exception that `dataset[length - 1]` raises, or "" if no end before `length` was
            found.
        line: Your innermost line in this exception's traceback, or "".
    """

    length: int
    end: int = -1
    limits: tuple[str, ...] = ()
    said: str = ""
    line: str = ""

    def __str__(self) -> str:
        end = (
            "no other end was found"
            if self.end < 0
            else f"no samples exist from index {self.end} on"
        )
        return f"`len()` says {self.length}, and {end}."


def needed(evidence: Evidence) -> bool:
    """Return whether samples may exist past `len(dataset)`, or may be missing before it."""
    if evidence.samples is None or evidence.parts.stream:
        return False
    if not evidence.parts.length or (evidence.handles and evidence.handles.disturbed):
        return False
    samples, run = evidence.samples, evidence.run
    missing = any(kind in _ENDS for _, kind, _, _ in samples.failed)
    ends = run.raised in _ENDS or run.kind in _ENDS
    return samples.beyond >= 0 or missing or ends


def ask(subject: Subject) -> Ending:
    """Find the end by bisection and, if the last sample exists, what explains the length."""
    dataset = subject.dataset
    length = len(dataset)
    kind, said, line = _missing(dataset, length - 1)
    if kind in _ENDS:
        end = bisect_left(
            range(length - 1), True, key=lambda index: _missing(dataset, index)[0] in _ENDS
        )
        step = max((length - end) // 12, 1)
        whole = all(_missing(dataset, index)[0] in _ENDS for index in range(end, length, step))
        before = range(max(end - 12, 0), end)
        clean = all(not _missing(dataset, index)[0] for index in before)
        if whole and clean and end > 0:
            return Ending(length, end, said=f"{kind}: {said}", line=line)
        return Ending(length)
    end = _beyond(dataset, length)
    return Ending(length, end, _limits(dataset, length, end))


def _missing(dataset: Any, index: int) -> tuple[str, str, str]:
    try:
        dataset[index]
    except Exception as error:
        return described(error)
    return "", "", ""


def _beyond(dataset: Any, length: int) -> int:
    # Return the first index past `length` without a sample, or -1 if it wasn't found. At such an
    # index, the dataset raises or, close to `length`, returns a sample with another shape.
    try:
        usual = {shape(dataset[index]) for index in range(max(length - 8, 0), length)}
        if shape(dataset[length]) not in usual:
            return -1
    except Exception:
        return -1  # the error wasn't about the dataset's end
    step, last = 1, length
    while step < 1 << 40:
        kind = _missing(dataset, length + step)[0]
        if kind:
            later = range(last, length + step)
            end = last + bisect_left(
                later, True, key=lambda index: bool(_missing(dataset, index)[0])
            )
            like = all(shape(dataset[index]) in usual for index in range(max(end - 3, length), end))
            return end if like else -1
        if len(usual) == 1 and step <= 2 and shape(dataset[length + step]) not in usual:
            return length + step
        last = length + step
        step *= 2
    return -1


def _limits(dataset: Any, length: int, end: int) -> tuple[str, ...]:
    found = []
    parameters: set[str] = set()
    with suppress(Exception):
        parameters = set(inspect.signature(type(dataset).__init__).parameters)
    class_level = {
        f"{type(dataset).__name__}.{n}": v for n, v in attributes_of(type(dataset)).items()
    }
    numbers = {each.path: each.thing for each in walk(dataset, with_globals=False)}
    few = end - length <= max(_FEW, length // 50)
    if length in _written(dataset):
        found.append(f"{type(dataset).__name__}.__len__")
    for path, thing in (numbers | class_level).items():
        value = number(thing)
        if value is None or type(thing) is bool:
            continue
        # A number that you passed to `__init__` or wrote into the class says more than a
        # computed number. If only a few samples are left out, a computed number may be the bug
        # itself, so it doesn't count.
        name = re.split(r"[.\[]", path)[-1].strip("_]'\"")
        said = name in parameters or path in class_level
        wanted = value == length
        if type(value) is float:
            wanted = min(abs(part * end - length) for part in (value, 1 - value)) <= 1
        elif said and value > 1:
            wanted |= length in (end // value, -(-end // value))  # `length` is 1/`value` of `end`
        if wanted and (said or not few):
            found.append(path)
    return tuple(found[:3])


def _written(dataset: Any) -> set[Any]:
    # Return the integers that `__len__` may return, if it only uses constants or one global.
    function = type(dataset).__len__
    code, names = attribute(function, "__code__"), attribute(function, "__globals__", {})
    if code is None or len(code.co_names) > 1:
        return set()
    written = [names.get(*code.co_names)] if code.co_names else code.co_consts
    return {number(each) for each in written if is_a(each, int)}


EXPERIMENT: Final = probe("ending", 8.0, needed, ask)
