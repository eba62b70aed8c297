"""What shows that a loader goes wrong: a message, a count, or a cost.

A Sign compares what was seen of the broken case with what was seen of the fixed one. It reads an
Observation, or anything with the same fields.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Seen(Protocol):
    """What a Sign reads of an Observation."""

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
    """What a loop found out about its own run, as a number of which less is better.

    Args:
        value: The number.
        what: What it counts, with its unit: "of 64 samples wrong", "MB private to each worker".
    """

    value: float
    what: str

    def __str__(self) -> str:
        digits = f"{self.value:.0f}" if self.value >= 100 else f"{self.value:.3g}"
        return f"{digits} {self.what}"


@dataclass(frozen=True)
class Says:
    """The broken run ends in a certain way and says something; the fixed one ends well.

    Args:
        end: How the broken run ends: "raised", "worker died", "main died" or "hung".
        texts: One of these stands in an exception of the chain (as `Type: message`), in what a
            worker wrote to stderr, in the fate of a worker, or in the line where one stood.
    """

    end: str
    texts: tuple[str, ...]

    def shown(self, broken: Seen, fixed: Seen) -> bool:
        """Whether the broken run ended and spoke as it should, and the fixed one finished."""
        said = _all_that_was_said(broken)
        return (
            broken.end == self.end
            and any(text in said for text in self.texts)
            and fixed.end == "finished"
        )

    def told(self, seen: Seen) -> str:
        """How the run ended, and the first of the texts that was said."""
        said = _all_that_was_said(seen)
        return next((f"{seen.end}: {text}" for text in self.texts if text in said), seen.end)


class _Measured:
    """A sign that is read from what the loops of both runs found out."""

    def told(self, seen: Seen) -> str:
        """The loop's finding."""
        return str(seen.result) if isinstance(seen.result, Finding) else seen.end


@dataclass(frozen=True)
class Counts(_Measured):
    """Both runs finish; the broken one's loop finds some things wrong, the fixed one's finds none.

    Args:
        least: How many at least are wrong in the broken run.
    """

    least: int = 1

    def shown(self, broken: Seen, fixed: Seen) -> bool:
        """Whether enough went wrong in the broken run, and nothing in the fixed one."""
        return _value(broken) >= self.least and _value(fixed) == 0


@dataclass(frozen=True)
class Costs(_Measured):
    """Both runs finish; the broken one costs a multiple of the fixed one: memory, time, messages.

    Args:
        times: How many times as much, at least.
    """

    times: float

    def shown(self, broken: Seen, fixed: Seen) -> bool:
        """Whether the broken run cost at least so many times what the fixed one did."""
        return _value(broken) >= self.times * _value(fixed)


#: Tells a broken run from a fixed one.
Sign = Says | Counts | Costs


def _value(seen: Seen) -> float:
    # Not a number compares as false, so a run that found nothing out shows nothing.
    return seen.result.value if isinstance(seen.result, Finding) else float("nan")


def _all_that_was_said(seen: Seen) -> str:
    lines = [f"{kind}: {message}" for kind, message in seen.chain]
    lines.append(seen.stderr)
    for worker in seen.workers:
        lines.append(str(worker))
        lines += [str(frame) for frame in worker.stack or ()]
    return re.sub(r"\s+", " ", "\n".join(lines))
