"""Would a batch arrive sooner if its worker sent it as one message?

Alternate between a loader with forked workers and the same loader with workers that pickle the
whole batch into one message, which main unpickles. Both use the same samples and collate function.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, Final

import torch

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.running import pace
from dltutor.diagnosis.running.pace import Paces
from dltutor.diagnosis.running.subject import Subject

MANY: Final = 24  # the fewest tensors in a batch that make this question worth asking
_BATCHES: Final = 6  # the fewest batches in an epoch that's long enough to time


class InOneMessage:
    """A collate function that pickles its batch, so that a worker sends the batch as one message.

    Args:
        collate: The loader's own collate function, which makes the batch.
    """

    def __init__(self, collate: Any) -> None:
        self.collate = collate

    def __call__(self, samples: Any) -> bytes:
        written = io.BytesIO()
        _Pickler(written, protocol=pickle.HIGHEST_PROTOCOL).dump(self.collate(samples))
        return written.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, thing: Any) -> Any:
        if type(thing) is torch.Tensor and thing.layout == torch.strided:
            try:
                return torch.from_numpy, (thing.detach().numpy(),)
            except (RuntimeError, TypeError):  # this tensor can't become a numpy array
                return NotImplemented
        return NotImplemented


def needed(evidence: Evidence) -> bool:
    """Return whether workers send many tensors per batch, in epochs long enough to time."""
    return (
        evidence.run.well
        and evidence.parts.workers > 0
        and evidence.run.tensors >= MANY
        and max(map(len, evidence.run.passes), default=0) >= _BATCHES
    )


def ask(subject: Subject) -> Paces:
    """Time batches that are sent as usual, and batches that are sent as one message."""
    loader = pace.forked(subject)
    own = loader.collate_fn

    def as_is() -> float | None:
        loader.collate_fn = own
        return pace.of_a_batch(loader, seconds=0.8)

    def changed() -> float | None:
        loader.collate_fn = InOneMessage(own)
        return pace.of_a_batch(loader, seconds=0.8, take=pickle.loads)

    return pace.in_turns(as_is, changed, seconds=subject.seconds)


EXPERIMENT: Final = probe("sending", 8.0, needed, ask)
