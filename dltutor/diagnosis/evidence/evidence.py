"""All that was found out about one loader, and how to read a record back from JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from dltutor.diagnosis.evidence.fit import Harm
from dltutor.diagnosis.evidence.loader import Parts, Run
from dltutor.diagnosis.evidence.memory import Ahead, Limits, Memory, Segments, Views
from dltutor.diagnosis.evidence.processes import (
    Epochs,
    Handles,
    Imported,
    Leftover,
    State,
    Travel,
    Waits,
)
from dltutor.diagnosis.evidence.samples import (
    Copies,
    Culprit,
    Ending,
    Fetched,
    InWorkers,
    Reordered,
    Samples,
    Twice,
)
from dltutor.diagnosis.evidence.sequences import Order, Repeats, Shares, TwoRanks
from dltutor.diagnosis.evidence.speed import Paces, Threads

_Record = TypeVar("_Record")


@dataclass(frozen=True)
class Evidence:
    """All that was found out. What was not asked, or not answered, is None.

    Args:
        parts: What the loader is made of.
        run: The loader as it is.
        samples: Its samples, drawn without workers.
        fetched: Whether its batches are made of what `dataset[i]` gives.
        reordered: Whether a sample depends on what was drawn before it.
        alone: The loader without workers.
        reseeded: The same with other random numbers.
        culprit: What fails in a main process.
        in_workers: What workers were doing when they died or raised.
        leftover: The workers that are left when the loop has returned.
        not_kept: The loader without persistent workers.
        sending: A batch sent tensor by tensor, and in one message: seconds for a batch.
        workerless: With its workers and without any: seconds for a batch.
        one_iterator: Each step from a new iterator, and all from one: seconds for a step.
        any_order: In order and in any order: seconds until half of the batches had come.
        threads: What its workers compute with.
        waits: What its workers wait for, where it hangs.
        while_held: The same where it does not hang, forked while a thread of main held a lock.
        travel: What becomes of it on the way to a new interpreter.
        imported: New interpreters as workers, given main's globals.
        two_ranks: A stream on two ranks.
        handles: Whether workers disturb each other.
        repeats: Which random numbers repeat.
        shares: Which worker delivers what of a stream.
        epochs: Whether what is set between epochs arrives.
        twice: A sample that is drawn twice.
        copies: Whether samples arrive as they were drawn.
        ending: Where the dataset ends.
        state: What workers change and main does not see.
        order: What a sampler of several ranks deals out.
        memory: What became of the workers' own memory.
        views: Batches kept as they come, and as copies.
        ahead: What is loaded ahead of the loop.
        limits: A run that ran out of shared memory or descriptors, with less needed.
        segments: What is left of a run that is killed.
    """

    parts: Parts
    run: Run
    samples: Samples | None = None
    fetched: Fetched | None = None
    reordered: Reordered | None = None
    alone: Run | None = None
    reseeded: Run | None = None
    culprit: Culprit | None = None
    in_workers: InWorkers | None = None
    leftover: Leftover | None = None
    not_kept: Run | None = None
    sending: Paces | None = None
    workerless: Paces | None = None
    one_iterator: Paces | None = None
    any_order: Paces | None = None
    threads: Threads | None = None
    waits: Waits | None = None
    while_held: Waits | None = None
    travel: Travel | None = None
    imported: Imported | None = None
    two_ranks: TwoRanks | None = None
    handles: Handles | None = None
    repeats: Repeats | None = None
    shares: Shares | None = None
    epochs: Epochs | None = None
    twice: Twice | None = None
    copies: Copies | None = None
    ending: Ending | None = None
    state: State | None = None
    order: Order | None = None
    memory: Memory | None = None
    views: Views | None = None
    ahead: Ahead | None = None
    limits: Limits | None = None
    segments: Segments | None = None

    @property
    def harm(self) -> Harm:
        """How serious wrong data is: nobody notices, or the run ends of it."""
        return "wrong" if self.run.well else "ends"

    def disturbed_by(self, kind: str) -> Handles | None:
        """What workers do to each other through a "file" or a "socket"; None if they do not."""
        handles = self.handles
        if handles is None or handles.kind != kind or not handles.disturbed:
            return None
        # Only a forked worker is handed an open file; a plain socket is sent to any.
        return handles if kind == "socket" or self.parts.method == "fork" else None

    @property
    def same_stream(self) -> bool:
        """Whether the workers of a stream all read the same."""
        shares = self.shares
        if shares is None or len(shares.shares) < 2 or shares.distinct < 2:
            return False
        alike = shares.same == shares.compared
        if shares.ended and shares.complete:
            whole = all(count == shares.whole for count in shares.shares)
            return whole and shares.whole > 1 and (alike or self._times_workers)
        return alike and shares.natural and shares.distinct > 2

    @property
    def _times_workers(self) -> bool:
        # Each in an order of its own: then what came is compared.
        drawn, alone = self.run.drawn[:1], self.alone.drawn[:1] if self.alone else ()
        if not (drawn and alone and drawn[0] and alone[0]):
            return False
        workers, once = self.parts.workers, Counter(alone[0])
        return Counter(drawn[0]) == Counter({each: workers * once[each] for each in once})


def read(record: type[_Record], answer: dict[str, Any]) -> _Record:
    """Make a record of what JSON has: lists become tuples."""
    known = {field.name for field in fields(record)}  # type: ignore[arg-type]  # dataclasses only
    return record(**{name: _frozen(value) for name, value in answer.items() if name in known})


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
