"""Do two ranks get the same samples from the stream?

Two forks draw from the stream at the same time, one as rank 0 and one as rank 1. The forks set the
environment variables that `torchrun` sets, and form a process group, so the dataset can ask the
environment or torch for its rank. If the forks can't form a group, no samples are compared.
"""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Any, Final

from torch import distributed

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.objects.digests import digest
from dltutor.diagnosis.objects.walking import walk
from dltutor.diagnosis.running import forks
from dltutor.diagnosis.running.limits import in_time
from dltutor.diagnosis.running.random_states import seed_all
from dltutor.diagnosis.running.subject import Subject, Unanswered
from dltutor.observation.foreign import is_a, said

_RANKS: Final = 2
_DRAWN: Final = 32
_LONGEST: Final = 1.5  # the most seconds to draw the samples
_MEETING: Final = 1.5  # the most seconds for the two ranks to find each other


@dataclass(frozen=True)
class TwoRanks:
    """A comparison of the samples that rank 0 and rank 1 draw from a stream.

    Args:
        drawn: How many samples were compared.
        alike: How many samples were the same on both ranks, at the same position.
        different: How many distinct samples rank 0 drew.
        made_for: The paths, in lowercase, of the integers in the dataset and in its code's globals
            whose path ends in "rank" or "world_size".
        failed: The error that drawing as one of the ranks raised, or "" if both worked.
    """

    drawn: int = 0
    alike: int = 0
    different: int = 0
    made_for: tuple[str, ...] = ()
    failed: str = ""

    def __str__(self) -> str:
        if self.failed:
            return f"Can't tell, because it raised {self.failed} when it was told its rank."
        if not self.drawn:
            return "No samples were compared."
        return f"{self.alike} of {self.drawn} samples are the same on both ranks."


def needed(evidence: Evidence) -> bool:
    """Return whether the loader ran well with a stream, which may split its samples by rank."""
    return evidence.parts.stream and evidence.run.well


def ask(subject: Subject) -> TwoRanks:
    """Draw the first samples on each rank, and compare them.

    If this process is already in a process group, or torch can't form one, don't draw samples.
    """
    # Look in the dataset's attributes and in the globals that its code uses, because either may
    # hold a rank or a world size.
    numbers = [each.path.lower() for each in walk(subject.dataset) if is_a(each.thing, int)]
    made_for = tuple(path for path in numbers if path.endswith(("rank", "world_size")))
    if not distributed.is_available() or distributed.is_initialized():
        return TwoRanks(made_for=made_for)
    meeting = os.memfd_create("dltutor-ranks")  # a memfd disappears with the last process using it
    ranks = [partial(_as_rank, rank, subject.dataset, meeting) for rank in range(_RANKS)]
    try:
        found = forks.in_forks(ranks, _MEETING + _LONGEST + 1.0)
    except forks.NoAnswer:
        raise Unanswered("drawing as rank 0 and as rank 1 of 2 didn't finish") from None
    finally:
        os.close(meeting)
    joined = [each for each in found if each is not None]
    if len(joined) < _RANKS:
        return TwoRanks(made_for=made_for)
    failed = next((error for _, error in joined if error), "")
    if failed:
        return TwoRanks(made_for=made_for, failed=failed[:120])
    drawn = [samples for samples, _ in joined]
    both = min(map(len, drawn))
    alike = sum(a == b for a, b in zip(*drawn, strict=False))
    return TwoRanks(drawn=both, alike=alike, different=len(set(drawn[0])), made_for=made_for)


def _as_rank(rank: int, dataset: Any, meeting: int) -> tuple[list[str], str] | None:
    # Return digests of the samples, and the error or "". If the forks can't form a process group,
    # return None.
    if not _join(rank, meeting):
        return None
    try:
        seed_all()
        first = in_time(islice(iter(dataset), _DRAWN), _LONGEST)
        return [digest(sample) for sample in first], ""
    except Exception as error:
        return [], said(error)


def _join(rank: int, meeting: int) -> bool:
    variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": _RANKS, "LOCAL_WORLD_SIZE": _RANKS}
    os.environ.update({name: str(number) for name, number in variables.items()})
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # both ranks are on this machine
    try:
        distributed.init_process_group(
            "gloo",
            init_method=f"file:///proc/self/fd/{meeting}",
            rank=rank,
            world_size=_RANKS,
            timeout=timedelta(seconds=_MEETING),
        )
        accelerate: Any = sys.modules.get("accelerate.state")
        if accelerate is not None:  # accelerate caches the first rank that it reads
            warnings.simplefilter("ignore")
            accelerate.PartialState._reset_state()
            accelerate.PartialState(cpu=True)
    except Exception:
        return False
    return True


EXPERIMENT: Final = probe("two_ranks", 5.0, needed, ask)
