"""How fast the loader is as it is, and changed in one respect."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Paces:
    """How long the loader took as it is, and changed in one respect, timed in turns.

    Args:
        as_is: Seconds, in each turn.
        changed: Seconds of the changed one, in each turn.
        blocked: The part of their time in which the workers wanted no processor, as it is: in the
            turn with least.
        line: Where the workers were most of the time, as it is; "" where that isn't known.
        share: How much of the time.
        inside: How much of the time they were in any line of yours.
    """

    as_is: tuple[float, ...] = ()
    changed: tuple[float, ...] = ()
    blocked: float = 0.0
    line: str = ""
    share: float = 0.0
    inside: float = 0.0

    @property
    def times(self) -> float:
        """How many times as long it took as it is, by the turn that shows least; 0 for one turn."""
        turns = [a / max(b, 1e-9) for a, b in zip(self.as_is, self.changed, strict=False)]
        return min(turns) if len(turns) > 1 else 0.0

    @property
    def both(self) -> tuple[float, float]:
        """The middle of the turns of each, in seconds."""
        return _middle(self.as_is), _middle(self.changed)


@dataclass(frozen=True)
class Threads:
    """With how many threads the workers compute.

    Args:
        cores: That this process may use.
        computing: For each worker, how many of its threads computed a good part of the time.
        alone: The same with each worker kept to one thread.
        paces: Seconds for a batch, as it is and kept to one thread: [as is, kept], in turns.
    """

    cores: int
    computing: tuple[int, ...] = ()
    alone: tuple[int, ...] = ()
    paces: tuple[tuple[float, float], ...] = ()

    @property
    def too_many(self) -> bool:
        """Whether more threads compute than there are cores, and some worker has several."""
        return sum(self.computing) > self.cores and max(self.computing, default=0) > 1


def _middle(seconds: tuple[float, ...]) -> float:
    return sorted(seconds)[len(seconds) // 2] if seconds else 0.0
