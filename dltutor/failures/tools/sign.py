"""Define the signs that a loader goes wrong: a message, a count, or a cost.

A Sign compares a run of the broken case with a run of the fixed one. Each run is an Observation, or
anything with the same fields.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Seen(Protocol):
    """The fields of an Observation that a Sign reads."""

    @property
    def end(self) -> str: ...
    @property
    def chain(self) -> Sequence[tuple[str, str]]: ...
    @property
    def stderr(self) -> str: ...
    @property
    def workers(self) -> Sequence[Any]: ...
    @property
    def result(self) -> object: ...


@dataclass(frozen=True)
class Finding:
    """A number that a loop measured about its own run. A lower number is better.

    Args:
        value: The measured number, in the unit that `what` gives.
        what: What the number counts, such as "of 64 samples wrong" or "ms for a batch".
    """

    value: float
    what: str

    def __str__(self) -> str:
        digits = f"{self.value:.0f}" if self.value >= 100 else f"{self.value:.3g}"
        return f"{digits} {self.what}"


@dataclass(frozen=True)
class Says:
    """A message as a sign. The broken run shows the message, and the fixed run finishes.

    Args:
        end: How the broken run ends: "raised", "worker died", "main died", or "hung".
        texts: Messages, of which one has to appear in an exception in the chain (written as
            `Type: message`), on a worker's stderr, in how a worker ended, or in a worker's stack.
    """

    end: str
    texts: tuple[str, ...]

    def shown(self, broken: Seen, fixed: Seen) -> bool:
        """Return whether the broken run ended as `end` says, and with one of `texts`.

        The fixed run must have finished.
        """
        said = _messages(broken)
        return (
            broken.end == self.end
            and any(text in said for text in self.texts)
            and fixed.end == "finished"
        )

    def told(self, seen: Seen) -> str:
        """Return how the run ended, and the first of `texts` that appeared in the run, if any."""
        said = _messages(seen)
        return next((f"{seen.end}: {text}" for text in self.texts if text in said), seen.end)


class _Measured:
    """A sign that compares the Findings from the loops of the broken and the fixed run."""

    def told(self, seen: Seen) -> str:
        """Return the loop's Finding as a string, or how the run ended if there's no Finding."""
        return str(seen.result) if isinstance(seen.result, Finding) else seen.end


@dataclass(frozen=True)
class Counts(_Measured):
    """A count as a sign: the broken run's loop counts `least` or more errors, the fixed one 0."""

    least: int = 1

    def shown(self, broken: Seen, fixed: Seen) -> bool:
        """Return whether the broken run has `least` or more errors, and the fixed run has none."""
        return _value(broken) >= self.least and _value(fixed) == 0


@dataclass(frozen=True)
class Costs(_Measured):
    """A cost as a sign, such as memory or time.

    The broken run costs at least `times` times as much as the fixed run.
    """

    times: float

    def shown(self, broken: Seen, fixed: Seen) -> bool:
        """Return whether the broken run cost at least `times` times as much as the fixed one."""
        return _value(broken) >= self.times * _value(fixed)


#: Any sign, which tells a broken run from a fixed one.
Sign = Says | Counts | Costs


def _value(seen: Seen) -> float:
    # Every comparison with NaN is false, so `shown` is false if either run has no Finding.
    return seen.result.value if isinstance(seen.result, Finding) else float("nan")


def _messages(seen: Seen) -> str:
    lines = [f"{kind}: {message}" for kind, message in seen.chain]
    lines.append(seen.stderr)
    for worker in seen.workers:
        lines.append(str(worker))
        lines += [str(frame) for frame in worker.stack or ()]
    return re.sub(r"\s+", " ", "\n".join(lines))
