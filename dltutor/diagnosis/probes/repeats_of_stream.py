"""How many of the stream's random draws repeat in another worker or in the next epoch?

W0 runs three epochs, because a stream that only shuffles may have the same order twice by chance.
Then all workers, at least two, get W0's number, so they have the same share of the stream. If that
share is random, it shouldn't come out the same in two of them.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import Any, Final

from torch.utils.data import get_worker_info

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.objects.digests import digest
from dltutor.diagnosis.probes.repeats import Repeats
from dltutor.diagnosis.probes.shares import LOOKED, PASS, in_main, most_of
from dltutor.diagnosis.running import forks
from dltutor.diagnosis.running.random_states import used_generators
from dltutor.diagnosis.running.small_loaders import answers, small_loader
from dltutor.diagnosis.running.subject import Subject

_EPOCHS: Final = 3


def needed(evidence: Evidence) -> bool:
    """Return whether two passes in one process differ because of random numbers."""
    return evidence.shares is not None and evidence.shares.random


def ask(subject: Subject) -> Repeats:
    """Count the samples that repeat in W0's later epochs, and in two workers with W0's number."""
    first = _epochs(subject, forced=False)
    forced = _epochs(subject, forced=True)
    (one, other), count, ended = in_main(subject, most_of(subject), whole=True)
    compared = min(map(len, first), default=0)
    across = min(map(len, forced[:2]), default=0) if len(forced) > 1 else 0
    return Repeats(
        sources=(
            (
                "all",
                sum(a != b for a, b in zip(one, other, strict=False)),
                _alike(forced[:2]),
                across,
                _alike(first),
                compared,
            ),
        ),
        own=tuple(used_generators(subject.dataset, lambda: list(islice(subject.dataset, 4)))),
        # If a pass was cut short, it isn't known whether the samples differ or only their order.
        order=sorted(one) == sorted(other) or not (ended and len(one) == len(other) == count),
    )


def _alike(lists: list[list[str]]) -> int:
    return sum(len({*each}) == 1 for each in zip(*lists, strict=False)) if len(lists) > 1 else 0


def _epochs(subject: Subject, *, forced: bool) -> list[list[str]]:
    """Return W0's samples in each epoch or, if `forced`, each worker's samples with W0's number."""

    def prepare(worker: int) -> None:
        info: Any = get_worker_info()
        if forced and info is not None:
            object.__setattr__(info, "id", 0)

    def work() -> list[list[str]]:
        workers = max(subject.inner.num_workers, 2) if forced else subject.inner.num_workers
        loader = small_loader(
            subject,
            prepare,
            workers=workers,
            collate=lambda samples: (os.getpid(), digest(samples)),
            persistent=bool(subject.inner.persistent_workers),
        )
        epochs = []
        for epoch in range(1 if forced else _EPOCHS):
            subject.tell(epoch)
            found: dict[int, list[str]] = {}
            for answer in answers(loader, PASS, most=LOOKED * workers):
                if not isinstance(answer, Exception):
                    found.setdefault(answer[0], []).append(answer[1])
            epochs.append([found[each] for each in sorted(found)])
        return epochs[0] if forced else [(each or [[]])[0] for each in epochs]

    return forks.attempt(work, (_EPOCHS + 1) * PASS + 2) or []


EXPERIMENT: Final = probe("repeats", 14.0, needed, ask)
