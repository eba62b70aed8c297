"""Does each sample repeat work that always has the same result?

Draw a few samples in main with a profiler. For each place where your code calls a function, note
how long the call takes and what it returns.
"""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from types import CodeType, FrameType
from typing import Any, Final

from dltutor import tables
from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.limits import in_time
from dltutor.diagnosis.objects.digests import digest, size
from dltutor.diagnosis.running.side_effects import profiled
from dltutor.diagnosis.running.subject import Subject
from dltutor.diagnosis.words import count_of
from dltutor.observation.errors import frame as shown
from dltutor.observation.errors import is_yours

_COSTLY: Final = 0.001  # seconds per sample; a cheaper sample isn't worth a change
_SAMPLES: Final = 12
_LARGER: Final = 4  # a result that not all samples share has to be this many times a sample's size
_LEAST: Final = 4  # the fewest samples to compare
_MOSTLY: Final = 0.5  # report only a call that takes more than this share of a sample's time
_LARGE: Final = 16 * 1024  # bytes; a smaller result may be the same by chance
_SECONDS: Final = 3.0  # the most seconds to draw the samples

#: The file, line, and function of the caller, and the code that it calls, because one line may have
#: several calls.
_Site = tuple[str, int, str, CodeType]


@dataclass(frozen=True)
class Recomputed:
    """A call that takes most of a sample's time and returns few different values.

    Args:
        samples: How many samples were compared.
        values: How many different values the call returned for them.
        line: The line of your code that makes the call, or "" if there's no such call.
        share: The share of the samples' time that the call takes.
        bytes: The size in bytes of what the call returned for the first sample.
    """

    samples: int = 0
    values: int = 0
    line: str = ""
    share: float = 0.0
    bytes: int = 0

    def __str__(self) -> str:
        if not self.line:
            return f"None was seen in {self.samples} samples."
        return (
            f"The call at {self.line} takes {100 * self.share:.0f} percent of a sample's time and "
            f"returned {count_of(self.values, 'different value')} of {tables.size(self.bytes)} for "
            f"{self.samples} samples."
        )


def needed(evidence: Evidence) -> bool:
    """Return whether samples can be drawn by index and take long enough to matter."""
    samples = evidence.samples
    if evidence.parts.stream or samples is None or samples.failed or samples.ended:
        return False
    return samples.looked >= _LEAST and samples.typical > _COSTLY


def ask(subject: Subject) -> Recomputed:
    """Draw samples with a profiler, and compare what the calls return."""
    # For each site and sample, keep the seconds in the calls, and the digest and the size of what
    # they returned.
    calls: dict[_Site, list[tuple[float, str, int]]] = defaultdict(list)
    contents, total = set(), 0.0
    drawn, keys = 0, subject.keys()[:_SAMPLES]
    with suppress(Exception):
        subject.dataset[keys[0]]  # an untimed draw, because the first may import modules
    for key in in_time(keys, _SECONDS):
        results: dict[_Site, list[tuple[float, Any]]] = defaultdict(list)
        began = time.perf_counter()
        with profiled(partial(_note, {}, results)), suppress(Exception):
            sample = subject.dataset[key]
        took_all = time.perf_counter() - began
        total += took_all
        drawn += 1
        contents.add(digest(sample))
        for site, found in results.items():
            took, returned = sum(each for each, _ in found), [each for _, each in found]
            if took > _MOSTLY / 2 * took_all and (large := size(returned)) > _LARGE:
                calls[site].append((took, digest(returned), large))
    if drawn < _LEAST or len(contents) < drawn:
        return Recomputed(drawn)  # for equal samples, every call may return an equal value
    repeated = []
    for site, noted in calls.items():
        values, large = len({content for _, content, _ in noted}), noted[0][2]
        share = sum(took for took, _, _ in noted) / total
        few = values == 1 or (2 * values <= drawn and large > _LARGER * size(sample))
        if len(noted) == drawn and few and share > _MOSTLY:
            repeated.append((share, site, values, large))
    if not repeated:
        return Recomputed(drawn)
    # Of nested calls, the innermost takes the smallest share of the time.
    share, (file, line, name, _), values, large = min(repeated, key=itemgetter(0))
    return Recomputed(drawn, values, str(shown(file, line, name, "")), share, large)


def _note(
    began: dict[FrameType, tuple[float, _Site]],
    results: dict[_Site, list[tuple[float, Any]]],
    frame: FrameType,
    event: str,
    result: Any,
) -> None:
    caller = frame.f_back
    if event == "call" and caller is not None and is_yours(caller.f_code.co_filename):
        code = caller.f_code
        site = (code.co_filename, caller.f_lineno, code.co_name, frame.f_code)
        began[frame] = (time.perf_counter(), site)
    elif event == "return" and frame in began:
        then, site = began.pop(frame)
        results[site].append((time.perf_counter() - then, result))


EXPERIMENT: Final = probe("recomputed", 7.0, needed, ask)
