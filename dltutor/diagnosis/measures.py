"""The measures of one run of the loader, the same for each run there is."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Final

from dltutor.diagnosis.words import count_of, duration


@dataclass(frozen=True)
class Measures:
    """One run of the loader: as it is, or changed in one respect.

    Args:
        end: As in an Observation; "enough" if it was stopped between two batches because its time
            was up.
        error: Type and text of what arrived in main, the worker's own where it raised; "" without.
        kind: The type that arrived in main.
        raised: The type that the worker raised, or None.
        at: Your own lines in the traceback, innermost first.
        said: The texts of all exceptions, and stderr.
        named: The failure modes that these words point to, the best first.
        codes: The exit code of each worker.
        batches: How many reached the loop.
        passes: For each iteration of the loader, what each batch held, as a digest.
        drawn: The same for each sample, where a batch can be taken apart.
        counted: How many samples each iteration delivered.
        finished: Whether each iteration came to its end by itself.
        resumed: How many iterations were begun anew before they had ended, and then asked for more.
        result: What the loop returned, as a digest of its value; "" for nothing to compare.
        returned: The same value as its repr, cut short.
        numbers: The numbers in that value.
        kept: The most earlier batches that the loop still held on to at one time.
        kept_bytes: The most bytes of these.
        kept_then: `kept` each time the number of batches had doubled: [batches, kept].
        tensors: How many a batch has, on average.
        batch_bytes: The bytes of the largest batch.
        storage_bytes: The bytes of the storages that came with it.
        private: MB of each worker's own memory: [at its first batch, the most].
        files: How many more descriptors main had at the end than at the first batch.
        epochs_told: How often the loop called a `set_epoch`.
        asked: Whether the loop asked a worker that had died for its exit code.
        first: Seconds until its first batch, the workers' start among them.
        pace: Seconds between two batches of one iteration: the mean.
        stood: Where the first worker stood at the end, or main without workers; "" if that isn't
            known.
        left: How many processes that workers had started outlived them.
        computed: Seconds that the workers together have computed, or main without workers.
        temporary: How many temporary files and folders there were at the end of the first two whole
            iterations.
        ending: Seconds that the loop waited after the last batch until the iteration ended: the
            most of any iteration.
        waited_for: Seconds that the loop waited for batches in the first iteration, without the
            first batch.
        idle: Which part of that time each worker had nothing left to do: [in the first half of the
            batches, in the other half].
        cores: How many cores all workers together may use, and how many main may use.
    """

    end: str
    error: str = ""
    kind: str = ""
    raised: str | None = None
    at: tuple[str, ...] = ()
    said: str = ""
    named: tuple[str, ...] = ()
    codes: tuple[int | None, ...] = ()
    batches: int = 0
    passes: tuple[tuple[str, ...], ...] = ()
    drawn: tuple[tuple[str, ...], ...] = ()
    counted: tuple[int, ...] = ()
    finished: tuple[bool, ...] = ()
    resumed: int = 0
    result: str = ""
    returned: str = ""
    numbers: tuple[float, ...] = ()
    kept: int = 0
    kept_bytes: int = 0
    kept_then: tuple[tuple[int, int], ...] = ()
    tensors: float = 0.0
    batch_bytes: int = 0
    storage_bytes: int = 0
    private: tuple[tuple[float, float], ...] = ()
    files: int = 0
    epochs_told: int = 0
    asked: bool = False
    first: float = 0.0
    pace: float = 0.0
    stood: str = ""
    left: int = 0
    computed: float = 0.0
    temporary: tuple[int, ...] = ()
    ending: float = 0.0
    waited_for: float = 0.0
    idle: tuple[tuple[float, float], ...] = ()
    cores: tuple[int, int] = (0, 0)

    @property
    def begins_again(self) -> bool:
        """Whether an epoch starts like the one before it."""
        first, second = (*self.passes, (), ())[:2]
        most = min(len(first), len(second))
        return most > 1 and first[:most] == second[:most]

    @property
    def well(self) -> bool:
        """Whether nothing ended it early."""
        return self.end in ("finished", "enough")

    @property
    def contents(self) -> tuple[tuple[str, ...], ...]:
        """What each iteration held: its samples, or its batches if those can't be taken apart."""
        return tuple(drawn or whole for drawn, whole in zip(self.drawn, self.passes, strict=True))

    @property
    def whole(self) -> tuple[tuple[str, ...], ...]:
        """The same, only of iterations that came to their end."""
        pairs = zip(self.contents, self.finished, strict=True)
        return tuple(each for each, done in pairs if done)

    @property
    def line(self) -> str:
        """Your own innermost line in the traceback; "" without one."""
        return self.at[0] if self.at else ""

    @property
    def dead(self) -> tuple[tuple[int, int], ...]:
        """The workers that died, and their exit codes, without those that were asked to end."""
        codes = enumerate(self.codes)
        return tuple((number, code) for number, code in codes if code and code != -signal.SIGTERM)

    @property
    def total(self) -> int:
        """How many samples the loop received in all iterations together."""
        return sum(self.counted)

    def lacks(self, other: Measures) -> int:
        """Count the samples of another run's first pass that this run's whole first pass lacks."""
        own = set(self.drawn[0]) if self.drawn and self.finished[:1] == (True,) else ()
        return sum(each not in own for each in other.drawn[0]) if own and other.drawn else 0

    @property
    def waited(self) -> bool:
        """Whether main waited in vain for a batch: without end, or until the loader's timeout."""
        return self.end == "hung" or "DataLoader timed out" in self.error

    def __str__(self) -> str:
        epochs = sum(self.finished)
        came = count_of(self.batches, "batch", "batches")
        if self.end == "finished":
            paced = f", {duration(self.pace)} apart on average" if self.pace else ""
            return f"It finished after {count_of(epochs, 'full epoch')} and {came}{paced}."
        if self.end == "enough":
            return f"{came[:1].upper()}{came[1:]} arrived before time ran out."
        error = f": {self.error[:120]}" if self.error else ""
        return f"{_ENDED[self.end]} after {came}{error}."


_ENDED: Final = {
    "raised": "It raised",
    "hung": "It hung",
    "worker died": "A worker died",
    "main died": "The main process died",
    "not run": "It wasn't run",
}
