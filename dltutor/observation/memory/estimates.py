"""Estimate memory between two readings of USS and PSS.

The live chart, the figures, and `Timeline.growth` all use this module, so that they show the same
numbers.
"""

from __future__ import annotations

import math
import mmap
from array import array
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_PAGE: Final = float(mmap.PAGESIZE)


class Known(NamedTuple):
    """One process's figures at one moment, for an Estimate. Sizes are in bytes. NaN means not read.

    `faults` is the number of minor page faults since the process started.
    """

    rss: float
    faults: float
    uss: float
    pss: float


class Estimate:
    """One process's private memory, and its share of shared memory, in each of its samples.

    In samples with USS or PSS, the estimate is the reading itself. After such a reading, each minor
    fault counts as a page, or a part of a page, that has become private, and the share stays as it
    was. While Linux copies copy-on-write pages, this estimate follows USS within 3 percent (see
    `benchmarks/agreement.py`).

    The next reading corrects the samples in between. Then private memory follows the faults from
    one reading to the other, because a process that frees memory and takes it again also has faults
    but doesn't grow. The share follows a straight line. When a process starts or ends, all other
    processes' shares jump, so no correction goes back beyond that moment.

    Attributes:
        private: Private memory in each sample, in bytes.
        shared: The share of shared memory in each sample, in bytes.
        was_read: Whether any sample so far has USS or PSS.
        share: The last value of `shared`, plus a part of the share of each process that has ended
            since.
    """

    def __init__(self) -> None:
        self.private = array("d")
        self.shared = array("d")
        self.was_read = False
        self._per_fault = _PAGE
        self._last = Known(math.nan, math.nan, math.nan, math.nan)  # the last reading
        self.share = 0.0
        self._open: list[tuple[float, Known]] = []  # samples that the next reading corrects
        self._begins_read = False  # whether the first sample in `_open` has USS or PSS

    def forget_open(self) -> None:
        """Leave earlier samples as they are from now on, because a process has started or ended."""
        self._open.clear()
        self._begins_read = False

    def add(self, seconds: float, known: Known) -> int:
        """Add a sample, and return how many earlier samples it corrected."""
        self._open.append((seconds, known))
        if math.isnan(known.uss) and math.isnan(known.pss):
            self.private.append(self._forward(known))
            self.shared.append(self.share)
            return 0
        before = self._last
        private = 0.0 if math.isnan(known.uss) else known.uss
        self.share = 0.0 if math.isnan(known.pss) else known.pss - private
        self._last = known._replace(uss=private)
        self.was_read = True
        self.private.append(private)
        self.shared.append(self.share)
        changed = len(self._open) - 1
        if self._begins_read:
            changed -= 1
            self._settle_between(before)
        else:
            self._settle_before()
        self._open = self._open[-1:]
        self._begins_read = True
        return max(changed, 0)

    def _forward(self, now: Known) -> float:
        rss = 0.0 if math.isnan(now.rss) else now.rss
        if not self.was_read:  # count what the process has faulted in since it was forked
            return rss if math.isnan(now.faults) else min(now.faults * _PAGE, rss)
        faults = now.faults - self._last.faults
        grown = 0.0 if math.isnan(faults) else self._per_fault * faults
        return min(self._last.uss + grown, max(rss, self._last.uss))

    def _settle_between(self, first: Known) -> None:
        last = self._last
        faults = last.faults - first.faults
        if faults > 0:
            self._per_fault = min(max((last.uss - first.uss) / faults, 0.0), _PAGE)
        began, ended = self._open[0][0], self._open[-1][0]
        start = len(self.private) - len(self._open)
        share = self.shared[start]
        for place, (seconds, known) in enumerate(self._open[1:-1], start + 1):
            in_time = (seconds - began) / (ended - began)
            part = (known.faults - first.faults) / faults if faults > 0 else math.nan
            part = in_time if math.isnan(part) else part
            private = first.uss + part * (last.uss - first.uss)
            self.private[place] = _within(private, known.rss)
            self.shared[place] = share + in_time * (self.share - share)

    def _settle_before(self) -> None:
        last = self._last
        start = len(self.private) - len(self._open)
        for place, (_, known) in enumerate(self._open[:-1], start):
            faults = last.faults - known.faults
            private = last.uss - (0.0 if math.isnan(faults) else self._per_fault * faults)
            self.private[place] = _within(private, known.rss)
            self.shared[place] = self.share


class Estimates:
    """The Estimates of all processes, kept together because each start or end affects the others.

    Attributes:
        of: Each process's Estimate, by a key that identifies the process.
    """

    def __init__(self) -> None:
        self.of: dict[Any, Estimate] = {}
        self._living: set[Any] = set()

    def add(self, seconds: float, processes: Mapping[Any, Known]) -> int:
        """Add a sample of all running processes, and return how many earlier samples it corrected.

        When a process ends, the others inherit its share, because the pages are still there and
        fewer processes share the pages. So the sum changes only when memory does.
        """
        gone, new = self._living - processes.keys(), processes.keys() - self._living
        self._living = {*processes}
        stayed = [self.of[each] for each in self._living - new]
        if gone or new:
            for estimate in stayed:
                estimate.forget_open()
        left, held = sum(self.of[each].share for each in gone), sum(e.share for e in stayed)
        for estimate in stayed if held else ():
            estimate.share += left * estimate.share / held
        self.of |= {each: Estimate() for each in new}
        return max(
            (self.of[each].add(seconds, known) for each, known in processes.items()), default=0
        )


def _within(private: float, rss: float) -> float:
    upper = private if math.isnan(rss) else max(rss, 0.0)
    return min(max(private, 0.0), upper)
