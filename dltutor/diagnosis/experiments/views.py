"""Do batches take up more shared memory than the tensors in them need?

Keep a few batches as they arrive, then keep copies that their worker made of each tensor.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

import torch

from dltutor.diagnosis.evidence import Evidence, Views
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit.bench import Bench
from dltutor.diagnosis.kit.changed_batches import with_tensors
from dltutor.failures.tools.gauge import Gauge

_KEPT: Final = 6  # batches
_TIMES: Final = 3
_LEAST: Final = 100_000  # bytes


def needed(evidence: Evidence | None) -> bool:
    """Ask if the storages that arrived are larger than the tensors in them."""
    if evidence is None or not evidence.parts.workers:
        return False
    shown, came = evidence.run.batch_bytes, evidence.run.storage_bytes
    return came > _TIMES * shown and came - shown > _LEAST


def ask(bench: Bench) -> Views:
    """Keep some batches as they arrive, then as copies."""
    bench.change(method="fork")
    count, as_they_come = _kept(bench)
    with_tensors(bench, torch.clone)
    _, as_copies = _kept(bench)
    return Views(count, as_they_come, as_copies)


def _kept(bench: Bench) -> tuple[int, float]:
    bench.change()
    gauge = Gauge()
    iterator: Any = iter(bench.loader)
    batches = list(islice(iterator, _KEPT))
    return len(batches), gauge.shared()


EXPERIMENT: Final = Experiment("views", 6.0, needed, ask)
