"""Do two ranks share the samples if each of them makes the loader?

Two forks make the loader at the same time, one as rank 0 and one as rank 1 (see
`dltutor.diagnosis.running.ranks`). Each fork has its own random seed, and imports the module of
your function again, because the module may ask for its rank when it's imported. The forks make no
batches, because only the samplers' indices are compared.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final

from torch import distributed

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.running import forks
from dltutor.diagnosis.running.random_states import SEED, seed_all
from dltutor.diagnosis.running.ranks import on_each
from dltutor.diagnosis.running.subject import Subject, Unanswered, inner_loader, length_of, own_line
from dltutor.observation.errors import is_yours
from dltutor.observation.foreign import attribute, is_a

_MOST: Final = 100_000  # the most indices, or batches of them, to take from a sampler
_MEETING: Final = 1.5  # the most seconds for the two ranks to find each other
_MAKING: Final = 6.0  # the most seconds to make the loaders and to ask their samplers


@dataclass(frozen=True)
class MadeAsRank:
    """A comparison of the indices that the samplers of rank 0 and rank 1 deal out in an epoch.

    Args:
        length: How many samples the dataset has.
        dealt: How many indices each rank got.
        repeated: How many duplicate indices the rank with more of them got.
        both: How many indices both ranks got.
        neither: How many samples neither rank got.
        batch: The most indices in a batch.
        where: The file and line of your sampler's `__iter__`, or "" if unknown.
    """

    length: int = 0
    dealt: tuple[int, ...] = ()
    repeated: int = 0
    both: int = 0
    neither: int = 0
    batch: int = 0
    where: str = ""

    def __str__(self) -> str:
        if not self.dealt:
            return "No ranks were compared."
        return f"{self.both} of {self.length} samples go to both ranks, and {self.neither} to none."


def needed(evidence: Evidence) -> bool:
    """Return whether a file of yours mentions a rank, and a map-style dataset's run went well."""
    parts = evidence.parts
    return parts.by_rank and not parts.stream and evidence.run.well


def ask(subject: Subject) -> MadeAsRank:
    """Make the loader as rank 0 and as rank 1 of 2, and compare what their samplers deal out."""
    make = subject.make
    if make is None or not distributed.is_available() or distributed.is_initialized():
        return MadeAsRank()
    yours = type(subject.dataset), type(subject.sampler)
    modules = [each.__module__ for each in yours if _is_yours(each.__module__)]
    try:
        found = on_each(partial(_dealt, make, modules), _MEETING, _MAKING)
    except forks.NoAnswer:
        raise Unanswered("making the loader as rank 0 and as rank 1 of 2 failed") from None
    if any(each is None or each[1] is None for each in found):
        return MadeAsRank()
    (length, first, batch), (_, second, _) = found
    one, other = set(first), set(second)
    return MadeAsRank(
        length=length,
        dealt=(len(first), len(second)),
        repeated=max(len(first) - len(one), len(second) - len(other)),
        both=len(one & other),
        neither=length - len(one | other),
        batch=batch,
        where=own_line(type(subject.sampler).__iter__),
    )


def _is_yours(module: str) -> bool:
    file = attribute(sys.modules.get(module), "__file__")
    return module != "__main__" and file is not None and is_yours(file)


def _dealt(make: Callable[[], Any], modules: Sequence[str]) -> tuple[int, list[int] | None, int]:
    # Return the dataset's length, the indices, and the most indices in a batch. Instead of the
    # indices, return None if they aren't whole numbers.
    seed_all(SEED + distributed.get_rank())
    inner = inner_loader(_anew(make, modules)())
    sampler: Any = inner.sampler if inner.batch_sampler is None else inner.batch_sampler
    batches = [each if is_a(each, list) else [each] for each in islice(iter(sampler), _MOST)]
    indices = [index for batch in batches for index in batch]
    whole = all(is_a(index, int) for index in indices)
    most = max(map(len, batches), default=0)
    return length_of(inner.dataset) or 0, indices if whole else None, most


def _anew(make: Callable[[], Any], modules: Sequence[str]) -> Callable[[], Any]:
    # Import the function's module again, under the same name, and return its function. Have the
    # other modules imported again, too.
    name, path = attribute(make, "__module__", ""), attribute(make, "__qualname__", "<locals>")
    spec = attribute(sys.modules.get(name), "__spec__")
    for each in modules:
        sys.modules.pop(each, None)
    if spec is None or spec.origin is None or "<" in path:
        # Code in a script or a notebook, a function inside another one, or a lambda can't be
        # imported again.
        return make
    again = importlib.util.spec_from_file_location(spec.name, spec.origin)
    assert again is not None and again.loader is not None
    found: Any = importlib.util.module_from_spec(again)
    sys.modules[spec.name] = found
    again.loader.exec_module(found)
    for each in path.split("."):
        found = getattr(found, each)
    return found  # type: ignore[no-any-return]  # this is the function with that name


EXPERIMENT: Final = probe("made_as_rank", 10.0, needed, ask)
