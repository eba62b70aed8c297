"""Do batches arrive the way they were made?

Compare the loader as it is with a loader that copies each sample as soon as it's drawn and each
batch as soon as it's made. In both, workers send their batches a little later than usual, and main
looks at the batches a little later, so that a reused buffer has time to change.
"""

from __future__ import annotations

import copy
import multiprocessing.queues
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final

import numpy as np
import torch

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.limits import in_time
from dltutor.diagnosis.objects.digests import digest, leaves
from dltutor.diagnosis.objects.walking import walk
from dltutor.diagnosis.running import forks
from dltutor.diagnosis.running.random_states import Pins, wrap_draws
from dltutor.diagnosis.running.small_loaders import where_samples_are_drawn
from dltutor.diagnosis.running.subject import Subject
from dltutor.diagnosis.words import part_of
from dltutor.observation.foreign import is_a

_LOOKED: Final = 16  # the most batches to compare
_LATE: Final = 0.03  # seconds to delay each batch, both in its worker and in main
_SHARE: Final = 0.3  # each of three runs gets this share of the experiment's time


@dataclass(frozen=True)
class Copies:
    """A comparison of the batches that arrive with those from a loader that copies everything.

    Args:
        looked: How many batches were compared.
        differ: How many batches come out differently if each sample is copied as soon as it's
            drawn, and each batch as soon as it's made.
        steady: Whether two runs with copies deliver the same batches.
        path: The path of the buffer that the dataset or collate function reuses, or "".
    """

    looked: int = 0
    differ: int = 0
    steady: bool = False
    path: str = ""

    def __str__(self) -> str:
        return part_of(
            self.differ,
            self.looked,
            "batch",
            "come out differently if they are copied at once",
            "do",
        )


def needed(evidence: Evidence) -> bool:
    """Return whether a sample or a batch changed when the next one was made."""
    samples, fetched = evidence.samples, evidence.fetched
    return (samples is not None and samples.overwritten > 0) or (
        fetched is not None and fetched.overwritten
    )


def ask(subject: Subject) -> Copies:
    """Compare the batches as they arrive with copied batches made from copied samples."""
    seconds = _SHARE * subject.seconds
    as_it_is, copied, again = (
        forks.in_fork(partial(_run, subject, seconds, copied=each), seconds)
        for each in (False, True, True)
    )
    both = list(zip(as_it_is, copied, strict=False))
    count = min(len(copied), len(again))
    return Copies(
        looked=len(both),
        differ=sum(one != other for one, other in both),
        steady=copied[:count] == again[:count] and count > 0,
        path=forks.attempt(partial(_buffer, subject), 2.0) or "",
    )


def _run(subject: Subject, seconds: float, *, copied: bool) -> list[str]:
    def prepare(_: int) -> None:
        pins = Pins(subject.dataset)

        def around(draw: Any, index: Any) -> Any:
            with pins.held():
                sample = draw()
            return copy.deepcopy(sample) if copied else sample

        wrap_draws(subject.dataset, around)
        queues: Any = multiprocessing.queues
        own = queues._ForkingPickler

        class Late(own):  # type: ignore[misc,valid-type]  # mypy doesn't know this base class
            @classmethod
            def dumps(cls, thing: Any, protocol: Any = None) -> Any:
                time.sleep(_LATE)
                return own.dumps(thing, protocol)

        queues._ForkingPickler = Late

    inner = subject.inner
    subject.change(persistent_workers=False)
    collate: Any = inner.collate_fn
    if copied:
        vars(inner)["collate_fn"] = lambda samples: copy.deepcopy(collate(samples))
    where_samples_are_drawn(subject, prepare)
    found = []
    for batch in in_time(islice(inner, _LOOKED), seconds - 1.0):
        if inner.num_workers:
            time.sleep(_LATE)
        found.append(digest(batch))
    return found


def _buffer(subject: Subject) -> str:
    # Return the path of an array or tensor in the dataset with the same address as one in a sample,
    # or of one in the collate function with the same address as one in a batch. If there's no such
    # array or tensor, return "".
    collate: Any = subject.inner.collate_fn
    if subject.stream:
        iterator = iter(subject.dataset)  # keep the iterator, because it may hold the buffer
        sample, batch = next(iterator), None
    else:
        sample = subject.dataset[subject.indices()[0]]
        batch = collate([sample])
    for made, maker, named in (
        (sample, subject.dataset, "dataset"),
        (batch, collate, "collate_fn"),
    ):
        at = {_memory(leaf) for _, leaf in leaves(made)} - {0}
        for each in walk(maker, named=named):
            if _memory(each.thing) in at:
                return each.path
    return ""


def _memory(thing: Any) -> int:
    with suppress(Exception):  # a sparse tensor, for example, has no address
        if is_a(thing, torch.Tensor):
            return int(thing.data_ptr())
        if is_a(thing, np.ndarray):
            return int(thing.__array_interface__["data"][0])
    return 0


EXPERIMENT: Final = probe("copies", 12.0, needed, ask)
