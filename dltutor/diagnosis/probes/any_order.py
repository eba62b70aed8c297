"""Would batches that are ready arrive sooner with `in_order=False`?

Alternate between a loader with forked workers and the same loader with `in_order=False`, and time
how long the first batches take to arrive. Unless the dataset is a stream, move the batch with the
slowest known sample to the second position for both.
"""

from __future__ import annotations

import time
from functools import partial
from itertools import islice
from typing import Final

import torch

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.probes.samples import Samples
from dltutor.diagnosis.running import pace
from dltutor.diagnosis.running.pace import Paces
from dltutor.diagnosis.running.subject import Subject

SLOW: Final = 0.25  # a slow sample takes at least this many seconds
TIMES: Final = 8  # a slow sample takes at least this many times as long as a typical one
_SEARCHED: Final = 1000  # the most batches to search for the slow sample
_BATCHES: Final = 8  # the fewest batches in a run that can show a difference
_EACH: Final = 8  # time half of this many batches per worker, or more with a large prefetch_factor


def slow(samples: Samples | None) -> bool:
    """Return whether the slowest sample takes at least 0.25 s and 8 times as long as a typical one.

    Return False if fewer than three samples were drawn.
    """
    return (
        samples is not None
        and samples.looked > 2
        and samples.slowest >= max(SLOW, TIMES * samples.typical)
    )


def needed(evidence: Evidence) -> bool:
    """Return whether several workers send enough batches in order, and one sample is far slower."""
    if not evidence.run.well:
        return False
    parts = evidence.parts
    return (
        parts.workers > 1
        and parts.in_order
        and slow(evidence.samples)
        and (parts.batches or _BATCHES) >= _BATCHES
    )


def ask(subject: Subject) -> Paces:
    """Measure how many seconds the first batches take to arrive, with `in_order` on and off."""
    loader = pace.forked(subject)
    most = loader.num_workers * max(_EACH, 2 * (loader.prefetch_factor or 0))
    samples = subject.known.samples if subject.known else None
    if not subject.stream and samples is not None:
        most = min(most, _begin_near(subject, samples.slowest_at))
    seed = torch.initial_seed()

    def half(in_order: bool) -> float | None:
        vars(loader)["in_order"] = in_order
        torch.manual_seed(seed)
        with pace.left_at_once(loader) as iterator:
            began = time.perf_counter()
            taken = sum(1 for _ in islice(iterator, most // 2))
            took = time.perf_counter() - began
        return took if taken == most // 2 else None

    if most < _BATCHES:
        return Paces()
    as_is, changed = partial(half, True), partial(half, False)
    return pace.in_turns(as_is, changed, seconds=subject.seconds, turns=2)


def _begin_near(subject: Subject, index: int) -> int:
    # Make the slow sample's batch the second one, which is the second worker's first batch, and
    # return how many batches there are, at most 1000. If none of these batches has the sample,
    # leave the order as it is.
    name = "sampler" if subject.inner.batch_sampler is None else "batch_sampler"
    batches = list(islice(subject.dealer, _SEARCHED))
    at = next((n for n, each in enumerate(batches) if index in subject.indices_in(each)), None)
    if at is None:
        return len(batches)
    rest = batches[:at] + batches[at + 1 :]
    around = rest[at:] + rest[:at]
    vars(subject.inner)[name] = [*around[:1], batches[at], *around[1:]]
    return len(batches)


EXPERIMENT: Final = probe("any_order", 14.0, needed, ask)
