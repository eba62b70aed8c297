"""What a loader delivers by number of workers, and which number to take."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median, quantiles
from typing import Final

from dltutor.tables import Table

_WORTH: Final = 0.10  # a smaller number may be slower by that part of the best, and is taken


@dataclass(frozen=True)
class Speed:
    """What was measured with one number of workers.

    Args:
        workers: The number.
        rates: Samples per second of each run, once every worker has delivered; batches per second
            where Throughput says so.
        starts: Seconds that the loop waited until each has delivered a batch, of each run.
    """

    workers: int
    rates: tuple[float, ...]
    starts: tuple[float, ...]

    @property
    def rate(self) -> float:
        """The median of its runs."""
        return median(self.rates)

    @property
    def spread(self) -> tuple[float, float]:
        """Between what the middle half of its runs lies; of one run, that one twice."""
        if len(self.rates) == 1:
            return self.rates[0], self.rates[0]
        low, _, high = quantiles(self.rates, n=4, method="inclusive")
        return low, high


@dataclass(frozen=True)
class Throughput:
    """What a loader delivers, by number of workers.

    Args:
        speeds: One for each number that was measured, the smallest first.
        too_short: Numbers for which the epoch has too few batches.
        unfinished: Numbers that had no run when the deadline came.
        unit: What the rates count: "samples", or "batches" if their samples aren't known.
        step: The training step that ran with each batch: its seconds or its name; empty without.
    """

    speeds: tuple[Speed, ...]
    too_short: tuple[int, ...] = ()
    unfinished: tuple[int, ...] = ()
    unit: str = "samples"
    step: str = ""

    @property
    def best(self) -> Speed:
        """The one with the highest median."""
        return max(self.speeds, key=lambda speed: speed.rate)

    @property
    def take(self) -> int:
        """The smallest number of workers that the best does not clearly beat."""
        enough = min(self.best.spread[0], (1 - _WORTH) * self.best.rate)
        return next(speed.workers for speed in self.speeds if speed.rate >= enough)

    @property
    def why(self) -> str:
        """The choice and its reason, and for which loop it holds."""
        if self.take or self.step or len(self.speeds) == 1:
            return self._choice
        return (
            f"{self._choice} That is for a loop that does nothing with the batches. While a "
            "training step runs, workers can make the next ones: measure with step."
        )

    @property
    def _choice(self) -> str:
        best = self.best.workers
        if len(self.speeds) == 1:
            return f"Only {best} was measured: there is nothing to compare it with."
        if self.unfinished:
            return f"Take {self.take} of those that were measured."
        if self.take == best == self.speeds[-1].workers > 0:
            return f"Take {best}, the most that was tried. If its samples wait, try more."
        if self.take == best:
            why = "no smaller number comes near it" if best else "no number of workers is faster"
            return f"Take {best}: {why}."
        return (
            f"Take {self.take}: {best} is the fastest here, by less than {_WORTH:.0%} or less than "
            "its runs differ."
        )

    def story(self) -> Table:
        """The numbers, row by row."""
        rows = []
        for speed in self.speeds:
            spread = " to ".join(map(_rounded, speed.spread))
            mark = "take this" if speed.workers == self.take and len(self.speeds) > 1 else ""
            start = f"{median(speed.starts):.2f} s"
            rows.append((f"{speed.workers}", _rounded(speed.rate), spread, start, mark))
        runs = min(len(speed.rates) for speed in self.speeds)
        header = ("workers", f"{self.unit}/s", "middle half of runs", "start-up", "")
        how = (
            f"the median of {runs} runs in turns" if runs > 1 else "one run, so no spread is known"
        )
        loop = (
            f"a step of {self.step}" if self.step else "a loop that does nothing with the batches"
        )
        return Table(f"Throughput with {loop}, {how}", tuple(rows), header)

    def _missing(self) -> list[str]:
        reasons = (
            (self.too_short, "An epoch has too few batches for them."),
            (self.unfinished, "The deadline came first: give it more time, or fewer counts."),
        )
        return [
            f"Not measured: {', '.join(map(str, numbers))}. {reason}"
            for numbers, reason in reasons
            if numbers
        ]

    def __str__(self) -> str:
        return "\n".join((str(self.story()), self.why, *self._missing()))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = "".join(f"<p>{line}</p>" for line in (self.why, *self._missing()))
        return f"{self.story()._repr_html_()}{lines}"


def _rounded(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
