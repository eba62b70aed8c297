"""Does `pin_memory=True` reach the tensors in a batch?

Make one batch without workers, and ask which of its tensors torch would pin. That needs no GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.objects.digests import leaves
from dltutor.diagnosis.running.subject import Subject, Unanswered
from dltutor.diagnosis.words import part_of
from dltutor.observation import torch_internals
from dltutor.observation.foreign import is_a


@dataclass(frozen=True)
class Pinned:
    """A count of the tensors in a batch that torch wouldn't pin.

    Args:
        tensors: How many tensors the batch has.
        missed: How many of them torch wouldn't pin.
        bytes: How many bytes the missed tensors have.
        inside: The class that torch doesn't look into for tensors, or "" if there's none.
    """

    tensors: int = 0
    missed: int = 0
    bytes: int = 0
    inside: str = ""

    def __str__(self) -> str:
        return part_of(self.missed, self.tensors, "tensor", "aren't pinned", "are")


def needed(evidence: Evidence) -> bool:
    """Return whether the loader pins memory, and a batch arrived."""
    return evidence.parts.pinned and evidence.run.batches > 0


def ask(subject: Subject) -> Pinned:
    """Make a batch, and find the tensors in it that torch wouldn't pin."""
    subject.change(num_workers=0, pin_memory=False)
    batches: Any = iter(subject.inner)
    batch = next(batches, None)
    tensors = [leaf for _, leaf in leaves(batch) if is_a(leaf, torch.Tensor)]
    if not tensors:
        raise Unanswered("a batch has no tensors that the doctor can find")
    reached = {id(each) for each in torch_internals.pinned(batch)}
    missed = [each for each in tensors if id(each) not in reached]
    return Pinned(
        tensors=len(tensors),
        missed=len(missed),
        bytes=sum(each.nbytes for each in missed),
        inside=_unknown(batch, {id(each) for each in missed}),
    )


def _unknown(part: Any, missed: set[int]) -> str:
    # Return the class of the first object that has a missed tensor and isn't a mapping, list, or
    # tuple.
    if not any(id(leaf) in missed for _, leaf in leaves(part)):
        return ""
    if is_a(part, Mapping):
        parts = [*part.values()]
    elif is_a(part, (list, tuple)):
        parts = [*part]
    else:
        return type(part).__name__
    return next(filter(None, (_unknown(each, missed) for each in parts)), "")


EXPERIMENT: Final = probe("pinned", 6.0, needed, ask)
