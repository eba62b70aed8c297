"""Define Measures, the record of what the doctor measures in a run of the loader."""

from __future__ import annotations

import re
import signal
from collections import Counter
from dataclasses import dataclass
from typing import Final

from dltutor.diagnosis.words import count_of, duration


@dataclass(frozen=True)
class Measures:
    """The measurements from one run of the loader, as it is or with something changed.

    Args:
        end: How the run ended: "finished", "raised", "hung", "worker died", "main died", "enough"
            if the doctor stopped it between two batches because time was up, or "not run".
        error: The type of the exception that arrived in main and the first line of its message
            (both from the worker's exception, if a worker raised it), or "" if none arrived.
        kind: The type of the exception that arrived in main.
        raised: The type of the exception that a worker raised, or None if no worker did.
        at: Your own lines in the traceback, innermost first.
        said: The messages from all exceptions, what was written to stderr, and the exceptions'
            notes, joined and cut to the last 4,000 characters.
        stderr: What was written to stderr, cut to the last 4,000 characters.
        named: The failure modes that `explain` finds in all these messages, the likeliest first.
        codes: The exit code of each worker, or None for a worker that was still running.
        batches: How many batches reached the loop.
        passes: For each iteration of the loader, a digest of each of the first 2,000 batches.
        drawn: For each iteration, a digest of each sample in these batches, if batches can be taken
            apart.
        fields: For each of the first two iterations and each field, the field's path and a digest
            of each sample's part of the field, if batches can be taken apart and there aren't too
            many samples.
        padded: The paths of fields whose rows don't have the same shape in all batches. Usually
            each batch is padded to its longest sample.
        ngrams: The sum of what `ngrams.count` returns for each batch in a stream's first iteration.
        counted: How many samples each iteration delivered.
        finished: Whether each iteration reached its end, or delivered as many batches as an epoch
            has.
        stopped: How many iterations reached their end because the loop asked for one batch more.
        resumed: How many iterations went on after another had restarted the iterator they share.
        result: A digest of what the loop returned, or "" if results can't be compared.
        returned: The repr of what the loop returned, shortened, or "" if `result` is "".
        numbers: The numbers in what the loop returned.
        kept: The most batches that the loop still held three or more batches later.
        kept_bytes: The most bytes in the batches that the loop still held that much later.
        kept_then: How many batches had arrived, and what `kept` was by then, each time the number
            of batches had doubled.
        tensors: How many tensors a batch has, on average.
        batch_bytes: The bytes of the tensors in the largest batch.
        storage_bytes: The most bytes in the storages that arrived with one batch.
        private: For each worker that was measured at least twice, its own memory in MB, at first
            and at its largest.
        files: How many more descriptors main had at the end than at the first batch.
        epochs_told: How often the loop called the sampler's `set_epoch`.
        loaded: How many samples had arrived and how many the sampler had left, when the first
            iteration began, and each one before which the loop had called the sampler's
            `load_state_dict`. Empty if the loop never called it.
        asked: Whether the loop asked a dead worker for its exit code.
        gpu: How many bytes main's tensors take up on the GPU when each batch arrives.
        first: Seconds from the first call of `iter(loader)` to the first batch.
        pace: Mean seconds between two batches in one iteration.
        longest: The most seconds that the loop waited for a batch.
        stood: If the run hung, the first worker that was in your code and its line there. If none
            was, the first worker whose stack is known, or "" if no stack is known.
        left: How many processes that workers had started outlived the workers.
        others: How many workers of other loaders, which the loop iterated and kept, were running
            when it returned.
        computed: Seconds of CPU time that all workers used (main, if there are no workers).
        anew: Seconds of CPU time that the second iteration's new workers used.
        later: Seconds of CPU time that the workers (or main) used for each sample in about the
            second half of the first iteration, or 0 if it was too short to tell.
        carried: The path of the largest numpy array that's in both of the first two batches, and
            the bytes of all such arrays.
        temporary: How many temporary files and folders there were at the end of the first two
            finished iterations.
        opened: How many descriptors a worker gained from the end of the first finished iteration to
            the end of the second. If there are several such workers, the most.
        ending: The most seconds that an iteration took to end after the loop asked for one batch
            more than there were.
        after: Seconds that the loop went on after its last batch, or after it began an iteration
            that got none.
        state: A digest of torch's global generator when the loop first iterated the loader.
        waited_for: Seconds that the loop waited for batches in the first iteration, except for the
            first batch.
        idle: For each worker, the share of the loop's waiting time in which the worker had nothing
            left to do, in the first half of those batches and in the second half.
        cores: How many cores all workers together may use, and how many main may use.
    """

    end: str
    error: str = ""
    kind: str = ""
    raised: str | None = None
    at: tuple[str, ...] = ()
    said: str = ""
    stderr: str = ""
    named: tuple[str, ...] = ()
    codes: tuple[int | None, ...] = ()
    batches: int = 0
    passes: tuple[tuple[str, ...], ...] = ()
    drawn: tuple[tuple[str, ...], ...] = ()
    fields: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = ()
    padded: tuple[str, ...] = ()
    ngrams: tuple[int, ...] = ()
    counted: tuple[int, ...] = ()
    finished: tuple[bool, ...] = ()
    stopped: int = 0
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
    loaded: tuple[tuple[int, int], ...] = ()
    asked: bool = False
    gpu: tuple[int, ...] = ()
    first: float = 0.0
    pace: float = 0.0
    longest: float = 0.0
    stood: str = ""
    left: int = 0
    others: int = 0
    computed: float = 0.0
    anew: float = 0.0
    later: float = 0.0
    carried: tuple[str, int] = ("", 0)
    temporary: tuple[int, ...] = ()
    opened: int = 0
    ending: float = 0.0
    after: float = 0.0
    state: str = ""
    waited_for: float = 0.0
    idle: tuple[tuple[float, float], ...] = ()
    cores: tuple[int, int] = (0, 0)

    @property
    def begins_again(self) -> bool:
        """Whether the first two epochs begin with the same two or more batches in the same order.

        Compare all batches up to the point that both epochs reached.
        """
        first, second = (*self.passes, (), ())[:2]
        most = min(len(first), len(second))
        return most > 1 and first[:most] == second[:most]

    @property
    def well(self) -> bool:
        """Whether the run finished, or got as far as time allowed, without a failure."""
        return self.end in ("finished", "enough")

    @property
    def contents(self) -> tuple[tuple[str, ...], ...]:
        """For each iteration, a digest of each sample, or of each batch if it can't be split."""
        return tuple(drawn or whole for drawn, whole in zip(self.drawn, self.passes, strict=True))

    @property
    def whole(self) -> tuple[tuple[str, ...], ...]:
        """The contents of the finished iterations."""
        pairs = zip(self.contents, self.finished, strict=True)
        return tuple(each for each, done in pairs if done)

    @property
    def line(self) -> str:
        """Your own innermost line in the traceback, or "" if there's none."""
        return self.at[0] if self.at else ""

    @property
    def dead(self) -> tuple[tuple[int, int], ...]:
        """The numbers and exit codes of workers that died, except workers that got SIGTERM."""
        codes = enumerate(self.codes)
        return tuple((number, code) for number, code in codes if code and code != -signal.SIGTERM)

    @property
    def total(self) -> int:
        """How many samples the loop received in all iterations together."""
        return sum(self.counted)

    @property
    def lengths(self) -> set[int]:
        """The different numbers of samples in finished iterations."""
        pairs = zip(self.counted, self.finished, strict=False)
        return {count for count, done in pairs if done}

    def covers(self, other: Measures) -> bool:
        """Return whether this run's first pass finished, with all samples that the other's has."""
        return self.finished[:1] == (True,) and any(self.drawn[:1]) and not self.lacks(other)

    def lacks(self, other: Measures) -> int:
        """Count the samples that only the other run's first pass has.

        If this run didn't finish its first pass, or its batches can't be taken apart, return 0.
        """
        own = set(self.drawn[0]) if self.drawn and self.finished[:1] == (True,) else ()
        return sum(each not in own for each in other.drawn[0]) if own and other.drawn else 0

    def more_than(self, other: Measures) -> int:
        """Count the samples that this run's first pass has, but the other's has less often.

        If the other run didn't finish its first pass, or its batches can't be taken apart, return
        0.
        """
        if not self.drawn or not any(other.drawn[:1]) or other.finished[:1] != (True,):
            return 0
        return (Counter(self.drawn[0]) - Counter(other.drawn[0])).total()

    @property
    def timeout(self) -> float:
        """After how many seconds the loader timed out, or 0 if it didn't."""
        said = _TIMED_OUT.search(self.error)
        return float(said[1]) if said else 0.0

    @property
    def waited(self) -> bool:
        """Whether the run hung, or main waited for a batch until the loader's timeout."""
        return self.end == "hung" or self.timeout > 0

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


_TIMED_OUT: Final = re.compile(r"DataLoader timed out after ([\d.]+) seconds")
_ENDED: Final = {
    "raised": "It raised",
    "hung": "It hung",
    "worker died": "A worker died",
    "main died": "The main process died",
    "not run": "It wasn't run",
}
