"""Define Evidence, the record of what the experiments find out about one loader."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the probes import this module
    from dltutor.diagnosis.measures import Measures
    from dltutor.diagnosis.probes.ahead import Ahead
    from dltutor.diagnosis.probes.copies import Copies
    from dltutor.diagnosis.probes.culprit import Culprit
    from dltutor.diagnosis.probes.displaced import Displaced
    from dltutor.diagnosis.probes.ending import Ending
    from dltutor.diagnosis.probes.epochs import Epochs
    from dltutor.diagnosis.probes.fetched import Fetched
    from dltutor.diagnosis.probes.handles import Handles
    from dltutor.diagnosis.probes.imported import Imported
    from dltutor.diagnosis.probes.in_workers import InWorkers
    from dltutor.diagnosis.probes.leftovers import Leftover
    from dltutor.diagnosis.probes.made_as_rank import MadeAsRank
    from dltutor.diagnosis.probes.memory import Memory
    from dltutor.diagnosis.probes.new_interpreter import NewInterpreter
    from dltutor.diagnosis.probes.order import Order
    from dltutor.diagnosis.probes.parts import Parts
    from dltutor.diagnosis.probes.pinned import Pinned
    from dltutor.diagnosis.probes.recomputed import Recomputed
    from dltutor.diagnosis.probes.reordered import Reordered
    from dltutor.diagnosis.probes.repeats import Repeats
    from dltutor.diagnosis.probes.samples import Samples
    from dltutor.diagnosis.probes.segments import Segments
    from dltutor.diagnosis.probes.shares import Shares
    from dltutor.diagnosis.probes.state import State
    from dltutor.diagnosis.probes.threads import Threads
    from dltutor.diagnosis.probes.travel import Travel
    from dltutor.diagnosis.probes.twice import Twice
    from dltutor.diagnosis.probes.two_ranks import TwoRanks
    from dltutor.diagnosis.probes.views import Views
    from dltutor.diagnosis.probes.waits import Waits
    from dltutor.diagnosis.running.pace import Paces


@dataclass(frozen=True)
class Evidence:
    """The answers to the experiments' questions about one loader. The findings are based on them.

    Except for `parts` and `run`, a field is None if its question has no answer. Each field's
    experiment is either a run in interventions.py or a module in `probes`.
    """

    parts: Parts

    # Runs of the loader as it is, and with something changed.
    run: Measures
    alone: Measures | None = None
    reseeded: Measures | None = None
    repeated: Measures | None = None
    seeded: Measures | None = None
    seeded_again: Measures | None = None
    called_again: Measures | None = None
    called_alone: Measures | None = None
    copied: Measures | None = None
    in_turn: Measures | None = None
    not_kept: Measures | None = None
    stayed: Measures | None = None
    untimed: Measures | None = None
    one_thread: Measures | None = None
    forked: Measures | None = None
    lighter: Measures | None = None
    arrays: Measures | None = None
    nothing_kept: Measures | None = None
    more_files: Measures | None = None

    # Times of the loader as it is and with one thing changed, measured alternately.
    sending: Paces | None = None
    workerless: Paces | None = None
    one_iterator: Paces | None = None
    any_order: Paces | None = None

    # Answers to other questions.
    samples: Samples | None = None
    fetched: Fetched | None = None
    reordered: Reordered | None = None
    recomputed: Recomputed | None = None
    culprit: Culprit | None = None
    in_workers: InWorkers | None = None
    leftover: Leftover | None = None
    threads: Threads | None = None
    waits: Waits | None = None
    while_held: Waits | None = None
    travel: Travel | None = None
    imported: Imported | None = None
    two_ranks: TwoRanks | None = None
    made_as_rank: MadeAsRank | None = None
    new_interpreter: NewInterpreter | None = None
    handles: Handles | None = None
    repeats: Repeats | None = None
    shares: Shares | None = None
    displaced: Displaced | None = None
    epochs: Epochs | None = None
    twice: Twice | None = None
    copies: Copies | None = None
    ending: Ending | None = None
    state: State | None = None
    order: Order | None = None
    memory: Memory | None = None
    views: Views | None = None
    ahead: Ahead | None = None
    segments: Segments | None = None
    pinned: Pinned | None = None

    @property
    def as_it_is(self) -> tuple[Measures, ...]:
        """The run of the loader as it is, and if there is one, the run that calls its loop again.

        A loop of one epoch may show only in several calls what it leaves or keeps.
        """
        return (self.run,) if self.called_again is None else (self.run, self.called_again)

    @property
    def files_by_the_end(self) -> float:
        """An estimate of how many descriptors main gains from an epoch's first batch to its end."""
        batches = max(self.run.batches, 1)
        return self.run.files / batches * max(self.parts.batches or 0, batches)

    @property
    def by_seed(self) -> int:
        """How many samples arrive only with another seed, in the first epoch without workers.

        If one of these runs is missing, or they can't be compared, the number is 0.
        """
        if self.alone is None or self.reseeded is None:
            return 0
        return self.alone.lacks(self.reseeded)

    @property
    def only_forked(self) -> bool:
        """Whether forked workers deliver exactly main's samples, and other workers don't.

        `forked` is enough to tell, because the doctor runs the loader with forked workers only if
        workers in new interpreters failed or delivered different samples.
        """
        forked, alone = self.forked, self.alone
        if forked is None or alone is None or forked.more_than(alone):
            return False
        return forked.covers(alone)

    @property
    def seeded_once(self) -> bool:
        """Whether persistent workers may cache random samples.

        That's possible if no sample changes when it's drawn again in the same process, but another
        seed gives different samples.
        """
        samples = self.samples
        if not self.parts.persistent or samples is None or samples.random or samples.again:
            return False
        return self.by_seed > 0

    @property
    def only_slow(self) -> bool:
        """Whether the loader timed out, but gets further without a timeout, after a longer wait."""
        run, untimed = self.run, self.untimed
        if not run.timeout or untimed is None or not untimed.well:
            return False
        return untimed.batches > run.batches and untimed.longest >= run.timeout

    def disturbed_by(self, kind: str) -> Handles | None:
        """Return the Handles of a shared "file" or "socket" that disturbs workers, or None."""
        handles = self.handles
        if handles is None or handles.kind != kind or not handles.disturbed:
            return None
        # Only a forked worker inherits an open file, but main can send a socket to any worker.
        return handles if kind == "socket" or self.parts.method == "fork" else None

    @property
    def refilled(self) -> bool:
        """Whether copying each sample and batch when made changes batches, the same way twice."""
        return self.copies is not None and self.copies.steady and self.copies.differ > 0

    @property
    def same_stream(self) -> bool:
        """Whether, as far as the doctor can tell, all workers of a stream read the same samples."""
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
        # Return whether each sample arrived as many times as there are workers. Don't compare
        # positions, because the workers may read the samples in different orders.
        drawn, alone = self.run.drawn[:1], self.alone.drawn[:1] if self.alone else ()
        if not (drawn and alone and drawn[0] and alone[0]):
            return False
        workers, once = self.parts.workers, Counter(alone[0])
        return Counter(drawn[0]) == Counter({each: workers * once[each] for each in once})
