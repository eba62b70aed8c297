"""Does a stream give two ranks the same samples?

It is drawn in main, once as rank 0 and once as rank 1 of two: as the environment of `torchrun`
says it, and as `torch.distributed` would. No process group is made.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Any, Final
from unittest import mock

from torch import distributed

from dltutor.diagnosis.kit.bench import Bench
from dltutor.diagnosis.kit.digests import digest
from dltutor.diagnosis.kit.pins import seed_all
from dltutor.diagnosis.kit.walking import Found, held
from dltutor.failures.kit.evidence import Evidence, TwoRanks
from dltutor.observation.foreign import is_a

FIELD: Final = "two_ranks"
SECONDS: Final = 5.0

_DRAWN: Final = 32
_LONGEST: Final = 1.5  # seconds for one rank


def needed(evidence: Evidence | None) -> bool:
    """Where a stream ran well."""
    return evidence is not None and evidence.parts.stream and evidence.run.well


def ask(bench: Bench) -> TwoRanks:
    """Draw the first samples of each."""
    told = tuple(path for path in _numbers(bench.dataset) if path.endswith(("rank", "world_size")))
    drawn = []
    for rank in range(2):
        try:
            with _rank(rank):
                drawn.append(_first(bench.dataset))
        except Exception as error:  # it may want a process group after all
            return TwoRanks(made_for=told, failed=f"{type(error).__name__}: {error}"[:120])
    both = min(map(len, drawn))
    alike = sum(a == b for a, b in zip(*drawn, strict=False))
    return TwoRanks(drawn=both, alike=alike, different=len(set(drawn[0])), made_for=told)


def _numbers(dataset: Any) -> list[str]:
    inside = held(Found("dataset", dataset))
    return [each.path for each in inside if is_a(each.thing, int)]


def _first(dataset: Any) -> list[str]:
    seed_all()
    until, found = time.monotonic() + _LONGEST, []
    for sample in islice(iter(dataset), _DRAWN):
        found.append(digest(sample))
        if time.monotonic() > until:
            break
    return found


@contextmanager
def _rank(rank: int) -> Iterator[None]:
    told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    answers = {"is_initialized": True, "get_rank": rank, "get_world_size": 2}
    with ExitStack() as undo:
        undo.enter_context(mock.patch.dict(os.environ, {k: str(v) for k, v in told.items()}))
        for name, answer in answers.items():
            undo.enter_context(mock.patch.object(distributed, name, return_value=answer))
        yield
