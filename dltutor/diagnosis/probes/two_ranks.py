"""Do two ranks share the samples, does the loop end on both, and do they draw the same numbers?

Two forks draw from the stream at the same time, one as rank 0 and one as rank 1. The forks set
variables such as `RANK`, as `torchrun` does, and form a process group, so the dataset can ask the
environment or torch for its rank. If the forks can't form a group, no samples are compared. If the
ranks get different samples, or there's no stream, two forks run the training loop, whose collective
calls then wait for the other rank. Each of these forks starts with other random numbers, as two
processes do that nothing has seeded.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final

from torch import distributed
from torch.utils.data import get_worker_info

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.limits import in_time
from dltutor.diagnosis.objects.digests import digest
from dltutor.diagnosis.objects.walking import walk
from dltutor.diagnosis.running import forks, runner
from dltutor.diagnosis.running.random_states import SEED, global_states, seed_all, wrap_draws
from dltutor.diagnosis.running.ranks import RANKS, on_each
from dltutor.diagnosis.running.subject import Subject, Unanswered
from dltutor.observation.foreign import attribute, has, is_a, said

_DRAWN: Final = 32
_LONGEST: Final = 1.5  # the most seconds to draw the samples
_MEETING: Final = 1.5  # the most seconds for the two ranks to find each other
_LOOP: Final = 3.0  # the most seconds for the loop, if no collective call makes it wait
PATIENCE: Final = 3.0  # seconds after which a collective call of the loop fails
_NOTED: Final = 16  # in how many of its first draws a process looks for random numbers
#: Matches the path of a rank or a world size: an attribute, a global, a key, or a closure variable.
_KNOWN: Final = re.compile(r"(?:rank|world_size)(?:'?\]| of .*)?$")

States = dict[int, dict[str, str]]  # digests of generators' states, by worker and by name


@dataclass(frozen=True)
class TwoRanks:
    """A comparison of the samples that rank 0 and rank 1 draw from a stream.

    Args:
        drawn: How many samples were compared.
        alike: How many samples were the same on both ranks, at the same position.
        different: How many distinct samples rank 0 drew.
        made_for: The paths, in lowercase, of the integers in the dataset and in its code's globals
            whose name ends in "rank" or "world_size".
        failed: The error that drawing as one of the ranks raised, or "" if both worked.
        batches: For each rank, how many batches each iteration of the loop got. Empty if the loop
            wasn't run as two ranks.
        finished: For each rank, whether each iteration reached its end.
        errors: For each rank, the error that the loop itself ended with, or "".
        after: For each rank, how many seconds the loop went on after its last batch.
        seeded: The global generators, by name, that are in the same state on both ranks when each
            worker begins to use them.
    """

    drawn: int = 0
    alike: int = 0
    different: int = 0
    made_for: tuple[str, ...] = ()
    failed: str = ""
    batches: tuple[tuple[int, ...], ...] = ()
    finished: tuple[tuple[bool, ...], ...] = ()
    errors: tuple[str, ...] = ()
    after: tuple[float, ...] = ()
    seeded: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.failed:
            return f"Can't tell, because it raised {self.failed} when it was told its rank."
        said = "No samples were compared."
        if self.drawn:
            said = f"{self.alike} of {self.drawn} samples are the same on both ranks."
        if not self.batches:
            return said
        first, second = map(sum, self.batches)
        said += f" The loop got {first} batches as rank 0 and {second} as rank 1."
        return f"{said} Both began with the same random numbers." if self.seeded else said


def needed(evidence: Evidence) -> bool:
    """Return whether there's a stream, which may split its samples by rank, or a sampler that does.

    A stream's run may have ended with an error from the loop, which may wait for other ranks.
    """
    run, parts, order = evidence.run, evidence.parts, evidence.order
    if parts.stream:
        return run.well or (parts.loop and run.end == "raised" and not run.raised)
    return run.well and parts.loop and order is not None and order.ranks > 1


def ask(subject: Subject) -> TwoRanks:
    """Compare the first samples of a stream on each rank, and then run the loop on each.

    If this process is already in a process group, or torch can't form one, do neither.
    """
    # Look in the dataset's attributes and in the globals that its code uses, because either may
    # hold a rank or a world size.
    made_for = _made_for(subject.dataset)
    if not distributed.is_available() or distributed.is_initialized():
        return TwoRanks(made_for=made_for)
    if not subject.stream:
        return TwoRanks(**_loops(subject))
    try:
        found = on_each(partial(_draw, subject.dataset), _MEETING, _LONGEST)
    except forks.NoAnswer:
        raise Unanswered("drawing as rank 0 and as rank 1 of 2 didn't finish") from None
    joined = [each for each in found if each is not None]
    if len(joined) < RANKS:
        return TwoRanks(made_for=made_for)
    failed = next((error for _, error in joined if error), "")
    if failed:
        return TwoRanks(made_for=made_for, failed=failed[:120])
    drawn = [samples for samples, _ in joined]
    both = min(map(len, drawn))
    alike = sum(a == b for a, b in zip(*drawn, strict=False))
    compared = TwoRanks(drawn=both, alike=alike, different=len(set(drawn[0])), made_for=made_for)
    if subject.loop is None or made_for or alike == both:
        return compared
    return replace(compared, **_loops(subject))


def _made_for(thing: Any, *others: Any) -> tuple[str, ...]:
    # Return the paths of ranks and world sizes that these objects hold in main, and so also in both
    # forks.
    numbers = [each.path.lower() for each in walk(thing, *others) if is_a(each.thing, int)]
    return tuple(filter(_KNOWN.search, numbers))


def _loops(subject: Subject) -> dict[str, Any]:
    # Return the fields of TwoRanks that come from running the loop, or {} if that fails.
    with suppress(forks.NoAnswer):
        found = on_each(partial(_loop, subject), PATIENCE, _LOOP + 2 * PATIENCE)
        if None not in found:
            names = ("batches", "finished", "errors", "after")
            *measured, states = zip(*found, strict=True)
            inner = subject.inner
            known = _made_for(subject.loop, subject.dataset, inner.worker_init_fn)
            seeded = () if known else _same(*states)
            return dict(zip(names, measured, strict=True), seeded=seeded)
    return {}


def _same(one: States, other: States) -> tuple[str, ...]:
    # Return the generators that are in the same state on both ranks, in each worker that both note.
    pairs = [(one[worker], other[worker]) for worker in one.keys() & other.keys()]
    names = sorted({name for states, _ in pairs for name in states})
    return tuple(name for name in names if all(a.get(name) == b.get(name, "") for a, b in pairs))


def _loop(subject: Subject) -> tuple[tuple[int, ...], tuple[bool, ...], str, float, States]:
    rank, sampler = distributed.get_rank(), subject.sampler
    if int(attribute(sampler, "num_replicas", 0) or 0) > 1 and has(sampler, "rank"):
        sampler.rank = rank
    subject.change(method="fork")  # forked workers start fastest, and inherit the file of notes
    file = _note_states(subject.dataset)
    ran = runner.run(subject, seconds=_LOOP, patience=2 * PATIENCE, seed=SEED + rank)
    error = "" if ran.raised else ran.error  # a worker's error isn't about the other rank
    noted = [json.loads(each) for each in os.pread(file, 1 << 20, 0).splitlines()]
    # Keep the first note with each worker's number, because each epoch may start new workers.
    first = dict(reversed(noted))
    return tuple(map(len, ran.passes)), ran.finished, error, ran.after, first


def _note_states(dataset: Any) -> int:
    # Return a file in which each process that draws samples notes its worker's number and, for the
    # global generators that its first random sample uses, their states before that sample.
    file, left = os.memfd_create("dltutor-states"), [_NOTED]

    def around(draw: Callable[[], Any], index: Any) -> Any:
        if not left[0]:
            return draw()
        left[0] -= 1
        before = global_states()
        sample = draw()
        now = global_states()
        if used := {name: state for name, state in before.items() if now[name] != state}:
            left[0] = 0
            worker = get_worker_info()
            note = worker.id if worker else -1, used
            # All processes share the file's position, so no note overwrites another one.
            os.write(file, json.dumps(note).encode() + b"\n")
        return sample

    wrap_draws(dataset, around)
    return file


def _draw(dataset: Any) -> tuple[list[str], str]:
    # Return digests of the samples, and the error or "".
    try:
        seed_all()
        first = in_time(islice(iter(dataset), _DRAWN), _LONGEST)
        return [digest(sample) for sample in first], ""
    except Exception as error:
        return [], said(error)


EXPERIMENT: Final = probe("two_ranks", 18.0, needed, ask)
