"""Do batches take up more shared memory than the tensors in them need?

Measure a few batches as they arrive, then a few whose tensors the worker copied before sending.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import torch

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.running.changed_batches import with_tensors
from dltutor.diagnosis.running.subject import Subject
from dltutor.failures.tools.gauge import Gauge

_KEPT: Final = 6  # the most batches to keep
_TIMES: Final = 3
_LEAST: Final = 100_000  # a batch has to waste more bytes than this


@dataclass(frozen=True)
class Views:
    """The shared memory that a few batches take up, as they arrive and with each tensor copied.

    Args:
        batches: How many batches were kept.
        as_they_come: MB of shared memory that the batches take up as they arrive.
        as_copies: MB that the batches take up if the worker copies each tensor before sending it.
    """

    batches: int
    as_they_come: float
    as_copies: float

    def __str__(self) -> str:
        return (
            f"{self.batches} batches take up {self.as_they_come:.0f} MB, and copies of them "
            f"{self.as_copies:.0f} MB."
        )


def needed(evidence: Evidence) -> bool:
    """Return whether the storages that arrived are far larger than the tensors in them."""
    if not evidence.parts.workers:
        return False
    shown, came = evidence.run.batch_bytes, evidence.run.storage_bytes
    return came > _TIMES * shown and came - shown > _LEAST


def ask(subject: Subject) -> Views:
    """Measure the memory of some batches as they arrive, then with their tensors copied."""
    subject.change(method="fork")
    count, as_they_come = _kept(subject)
    with_tensors(subject, torch.clone)
    _, as_copies = _kept(subject)
    return Views(count, as_they_come, as_copies)


def _kept(subject: Subject) -> tuple[int, float]:
    subject.change()
    gauge = Gauge()
    iterator: Any = iter(subject.loader)
    batches = list(islice(iterator, _KEPT))
    return len(batches), gauge.shared()


EXPERIMENT: Final = probe("views", 6.0, needed, ask)
