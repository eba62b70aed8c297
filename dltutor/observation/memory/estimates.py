"""The one estimate of memory between two readings of USS and PSS.

The live chart, the figures and `Timeline.growth` all use it, so that they show the same numbers.
"""

from __future__ import annotations

import math
import mmap
from array import array
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_PAGE: Final = float(mmap.PAGESIZE)


class Known(NamedTuple):
    """What is known of one process at one moment; bytes, NaN where it was not read."""

    rss: float
    faults: float
    uss: float
    pss: float


class Estimate:
    """The memory of one process in each of its samples: what is private, and its share of the rest.

    Where USS and PSS were read, it is what was read. After a reading each minor fault stands for a
    page, or part of one, that has become private (which follows USS within 3 % while copy-on-write
    pages are copied), and the share stays as it was. The next reading settles what lies between:
    private memory follows the faults from the one to the other (a process that frees and takes the
    same memory again has faults, too, and does not grow), and the share follows a straight line.
    When a process comes or goes, the shares of all others jump, so nothing is joined across that.

    Attributes:
        private: Bytes, in each sample.
        shared: Bytes, in each sample.
        was_read: Whether USS or PSS was read so far.
        share: The newest of `shared`. When another process ends, it is given a part of that one's.
    """

    def __init__(self) -> None:
        self.private = array("d")
        self.shared = array("d")
        self.was_read = False
        self._per_fault = _PAGE
        self._last = Known(math.nan, math.nan, math.nan, math.nan)  # reading
        self.share = 0.0
        self._open: list[tuple[float, Known]] = []  # samples with their times, not settled yet
        self._begins_read = False  # whether the first of them is a reading

    def part(self) -> None:
        """A process has come or gone: settle nothing that lies before."""
        self._open.clear()
        self._begins_read = False

    def add(self, seconds: float, known: Known) -> int:
        """Take one more sample.

        Returns:
            How many samples before it have another estimate now.
        """
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
        if not self.was_read:  # what it has faulted in since it was forked
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
    """An Estimate for each process, in step: one sample of all of them is added at a time.

    Attributes:
        of: By whatever tells one process from another.
    """

    def __init__(self) -> None:
        self.of: dict[Any, Estimate] = {}
        self._living: set[Any] = set()

    def add(self, seconds: float, processes: Mapping[Any, Known]) -> int:
        """Take one sample of all processes that live.

        When a process ends, the others inherit its share: the pages are still there, with fewer
        to share them. So the sum of all moves only when memory does.

        Args:
            seconds: When it was taken.
            processes: What is known of each.

        Returns:
            How many samples before it have another estimate now.
        """
        gone, new = self._living - processes.keys(), processes.keys() - self._living
        self._living = {*processes}
        stayed = [self.of[each] for each in self._living - new]
        if gone or new:
            for estimate in stayed:
                estimate.part()
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
