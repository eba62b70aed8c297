"""How many of the stream's samples does each worker deliver?

Iterate the stream in main, twice, and with the loader's workers without dropping a batch. Then
iterate it with workers whose random generators are held, so that what they read can be compared.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import Any, Final

from torch.utils.data import get_worker_info

from dltutor.diagnosis.evidence import Evidence, Shares
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit import forks
from dltutor.diagnosis.kit.bench import Bench
from dltutor.diagnosis.kit.digests import digest
from dltutor.diagnosis.kit.pins import hold_draws
from dltutor.diagnosis.kit.small_loaders import answers, small_loader

LOOKED: Final = 48  # samples per worker to compare
PASS: Final = 1.5  # seconds for a pass


def needed(evidence: Evidence | None) -> bool:
    """Ask about a stream that workers iterate."""
    if evidence is None or not evidence.parts.stream or evidence.parts.workers == 0:
        return False
    return not (evidence.samples and evidence.samples.ended in ("died", "hung"))


def ask(bench: Bench) -> Shares:
    """Iterate it in main and in the workers."""
    (one, other), whole, ended = in_main(bench, _most(bench))
    held = in_main(bench, LOOKED, held=True)[0]
    counts, complete, natural = _by_workers(bench, held=False)
    _, _, pinned = _by_workers(bench, held=True)
    same, compared, distinct = _same(pinned)
    return Shares(
        whole=whole,
        ended=ended,
        shares=tuple(counts),
        complete=complete,
        same=same,
        compared=compared,
        distinct=distinct,
        natural=_all_same(natural),
        random=len(one) == len(other) > 1 and one != other and held[0] == held[1],
    )


def _most(bench: Bench) -> int:
    """Limit the samples of a pass. If it doesn't end, a few say just as much."""
    alone = bench.known.alone if bench.known else None
    return 200_000 if alone is None or all(alone.finished) else 4 * LOOKED


def in_main(
    bench: Bench, most: int, *, held: bool = False
) -> tuple[tuple[list[str], list[str]], int, bool]:
    """Run two passes in main: return their first samples, the first's length, and if it ended.

    Args:
        bench: Its dataset is a stream.
        most: Samples of the first pass, at most.
        held: Whether random generators are held.
    """

    def work() -> tuple[tuple[list[str], list[str]], int, bool]:
        if held:
            hold_draws(bench.dataset)
        first, count, ended = _pass(bench, most)
        second, _, _ = _pass(bench, LOOKED)
        return (first, second), count, ended

    with suppress(forks.NoAnswer):
        found: tuple[tuple[list[str], list[str]], int, bool] = forks.in_fork(work, 2 * PASS + 2)
        return found
    return ([], []), 0, False


def _pass(bench: Bench, most: int) -> tuple[list[str], int, bool]:
    until = time.monotonic() + PASS
    found: list[str] = []
    count = 0
    for count, sample in enumerate(bench.dataset, start=1):
        if len(found) < LOOKED:
            found.append(digest([sample]))
        if time.monotonic() > until or count >= most:
            return found, count, False
    return found, count, True


def _by_workers(bench: Bench, *, held: bool) -> tuple[list[int], bool, list[list[str]]]:
    with suppress(forks.NoAnswer):
        found: tuple[list[int], bool, list[list[str]]] = forks.in_fork(
            partial(_delivered, bench, held=held), PASS + 3
        )
        return found
    return [], False, []


def _delivered(bench: Bench, *, held: bool) -> tuple[list[int], bool, list[list[str]]]:
    workers = bench.inner.num_workers

    def prepare(worker: int) -> None:
        if held:
            hold_draws(bench.dataset)

    loader = small_loader(
        bench, prepare, workers=workers, collate=partial(_counted, [0]), prefetch=4
    )
    bench.tell_dataset(0)
    counts = [0] * workers
    found: list[list[str]] = [[] for _ in range(workers)]
    began = time.monotonic()
    most = 2 * LOOKED * workers if held else _most(bench)
    taken = 0
    for answer in answers(loader, PASS, most=most):
        taken += 1
        if isinstance(answer, Exception):
            return counts, False, found
        counts[answer[0]] += 1
        if answer[1]:
            found[answer[0]].append(answer[1])
    complete = taken < most and time.monotonic() - began < PASS
    return counts, complete, found


def _counted(count: list[int], samples: Any) -> tuple[int, str]:
    info = get_worker_info()
    count[0] += 1
    return (info.id if info else 0), digest(samples) if count[0] <= LOOKED else ""


def _same(found: list[list[str]]) -> tuple[int, int, int]:
    if len(found) < 2:
        return 0, 0, 0
    compared = min(len(found[0]), len(found[1]))
    same = sum(one == other for one, other in zip(*found[:2], strict=False))
    return same, compared, len(set(found[0][:compared]))


def _all_same(found: list[list[str]]) -> bool:
    same, compared, _ = _same(found)
    return compared > 0 and same == compared


EXPERIMENT: Final = Experiment("shares", 14.0, needed, ask)
