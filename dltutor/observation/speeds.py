"""Define the Throughput, which compares a loader's rates and chooses a number of workers."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median, quantiles
from typing import Final

from dltutor.tables import Table, Told

_WORTH: Final = 0.10  # take fewer workers if they're slower than the best by at most this fraction


@dataclass(frozen=True)
class Speed:
    """The measurements with one number of workers.

    Args:
        workers: The number of workers.
        rates: For each run, samples per second after the start-up, or batches per second if
            Throughput's `unit` is "batches".
        starts: For each run, how many seconds the loop waited until every worker had delivered a
            batch.
    """

    workers: int
    rates: tuple[float, ...]
    starts: tuple[float, ...]

    @property
    def rate(self) -> float:
        """The median rate of the runs."""
        return median(self.rates)

    @property
    def spread(self) -> tuple[float, float]:
        """The range of the middle half of the rates, or the rate twice if there is one run."""
        if len(self.rates) == 1:
            return self.rates[0], self.rates[0]
        low, _, high = quantiles(self.rates, n=4, method="inclusive")
        return low, high


@dataclass(frozen=True, repr=False)
class Throughput(Told):
    """A loader's throughput, by number of workers.

    Args:
        speeds: A Speed for each measured number of workers, the smallest first.
        too_short: The numbers of workers for which the stream has too few batches.
        unfinished: The numbers of workers that had no finished run at the deadline.
        unit: What the rates count: "samples", or "batches" if the number of samples is unknown.
        step: The training step that ran with each batch, such as "a step of 0.1 s", or "".
    """

    speeds: tuple[Speed, ...]
    too_short: tuple[int, ...] = ()
    unfinished: tuple[int, ...] = ()
    unit: str = "samples"
    step: str = ""

    @property
    def best(self) -> Speed:
        """The Speed with the highest median."""
        return max(self.speeds, key=lambda speed: speed.rate)

    @property
    def take(self) -> int:
        """The smallest number of workers that the best number doesn't clearly beat.

        With this number, the rate is at most 10 percent lower than the best rate, or no lower than
        the middle half of the best number's runs.
        """
        enough = min(self.best.spread[0], (1 - _WORTH) * self.best.rate)
        return next(speed.workers for speed in self.speeds if speed.rate >= enough)

    @property
    def why(self) -> str:
        """The choice and its reason, with a caveat if the choice is 0 workers without a step."""
        if self.take or self.step or len(self.speeds) == 1:
            return self._choice
        return (
            f"{self._choice} This is for a loop that does nothing with the batches. While a "
            "training step runs, workers can make the next batches. To measure that, pass step."
        )

    @property
    def _choice(self) -> str:
        best = self.best.workers
        if len(self.speeds) == 1:
            return f"Only {best} was measured, so there's nothing to compare it with."
        if self.unfinished:
            return f"Take {self.take}, the best of the numbers that were measured."
        if self.take == best == self.speeds[-1].workers > 0:
            return f"Take {best}, the most that was tried. If samples wait for I/O, try more."
        if self.take == best:
            why = "no smaller number comes near it" if best else "no number of workers is faster"
            return f"Take {best}: {why}."
        return (
            f"Take {self.take}: {best} is the fastest here, but by less than {_WORTH:.0%} or by "
            "less than its runs differ."
        )

    def story(self) -> Table:
        rows = []
        for speed in self.speeds:
            spread = " to ".join(map(_rounded, speed.spread))
            mark = "take this" if speed.workers == self.take and len(self.speeds) > 1 else ""
            start = f"{median(speed.starts):.2f} s"
            rows.append((f"{speed.workers}", _rounded(speed.rate), spread, start, mark))
        runs = min(len(speed.rates) for speed in self.speeds)
        header = ("workers", f"{self.unit}/s", "middle half of runs", "start-up", "")
        how = f"the median of {runs} alternating runs" if runs > 1 else "one run, so no spread"
        loop = self.step or "a loop that does nothing with the batches"
        return Table(f"Throughput with {loop}, {how}", tuple(rows), header)

    def _missing(self) -> list[str]:
        reasons = (
            (self.too_short, "The stream has too few batches for that many workers."),
            (self.unfinished, "The deadline passed first. Use a longer deadline or fewer counts."),
        )
        return [
            f"Not measured: {', '.join(map(str, numbers))}. {reason}"
            for numbers, reason in reasons
            if numbers
        ]

    def __str__(self) -> str:
        return "\n".join((str(self.story()), self.why, *self._missing()))

    def _repr_html_(self) -> str:
        lines = "".join(f"<p>{line}</p>" for line in (self.why, *self._missing()))
        return f"{self.story()._repr_html_()}{lines}"


def _rounded(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
