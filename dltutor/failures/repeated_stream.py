"""Every worker reads the whole stream, and every sample comes once for each worker.

Symptom: an IterableDataset returns duplicate data with num_workers > 1; an epoch is twice as long
with two workers. At times `UserWarning: Length of IterableDataset ... was reported to be`.

Mechanism: with a map-style dataset the main process deals the indices out. An IterableDataset has
none: each worker gets a copy of it and iterates that, from the first sample to the last. Torch's
warning is little help. It appears only if the dataset has a `__len__` and somebody called
`len(loader)`, and it compares the number of batches that came with the number of samples that were
promised: where a batch has as many samples as there are workers, or more, it stays silent.

Remedy: ask `get_worker_info()` in `__iter__` and take every n-th sample, or every n-th file where
there are many (each worker then opens and reads only its own). Between several machines deal out
by rank as well. The order of the samples changes with the number of workers.

Seen in: pytorch#30599, finetrainers#394, MatchZoo-py#169 (30 workers: 30 times), zarrdataset#11.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from dltutor.failures.kit.contract import Case, Failure, load
from dltutor.failures.kit.evidence import Evidence, Fit
from dltutor.failures.kit.handles import own_folder
from dltutor.failures.kit.sign import Counts, Finding

LENGTH = 64


class Events(IterableDataset[int]):
    """Events of a log, one JSON object on each line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[int]:
        with self.path.open() as lines:
            for line in lines:
                yield json.loads(line)["event"]


class DealtEvents(Events):
    """The same events; of n workers each takes every n-th."""

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        with self.path.open() as lines:
            for line in islice(lines, first, None, step):
                yield json.loads(line)["event"]


@cache
def shared_log() -> Path:
    """The log that the cases of this process share."""
    folder = own_folder()
    log = folder / "events.jsonl"
    log.write_text("".join(json.dumps({"event": number}) + "\n" for number in range(LENGTH)))
    return log


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """One epoch; no event may come twice."""
    seen = [event for batch in loader for event in batch.tolist()]
    return Finding(len(seen) - len(set(seen)), f"of {len(seen)} samples seen before")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Read the whole log in every worker."""
    return _case(Events(shared_log()), workers, start_method)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Deal the lines out."""
    return _case(DealtEvents(shared_log()), workers, start_method)


def _case(dataset: Events, workers: int, start_method: str) -> Case:
    loader = load(dataset, workers, start_method, batch_size=8)
    return Case(loader, train)


def fits(evidence: Evidence) -> Fit | None:
    """Each worker delivers what the other ones do."""
    shares = evidence.shares
    if overlap := _overlap(evidence):
        return overlap
    if shares is None or not evidence.same_stream:
        return None
    counts = " and ".join(map(str, shares.shares[:4]))
    said = (
        f"One pass has {shares.whole} samples, and the workers draw {counts}."
        if shares.complete
        else f"The first {shares.compared} samples of W0 and W1 are the same."
    )
    if shares.complete and shares.same:
        said += f" The first {shares.same} samples of W0 and W1 are the same."
    return Fit(
        "wrong",
        "shown",
        said,
        where=evidence.parts.where,
        fix=f"In `{evidence.parts.dataset}.__iter__`, ask `get_worker_info()` and take every "
        "`num_workers`-th sample or file, from `id` on.",
    )


def _overlap(evidence: Evidence) -> Fit | None:
    # Workers that share a part only: each shuffles anew before it takes its own.
    run, alone = evidence.run, evidence.alone
    if not evidence.parts.stream or alone is None:
        return None
    if not (run.finished[:1] == alone.finished[:1] == (True,)) or not (run.drawn and alone.drawn):
        return None
    came, there = Counter(run.drawn[0]), Counter(alone.drawn[0])
    if not there or max(there.values()) > 1 or not came.keys() <= there.keys():
        return None
    twice, never = sum(count > 1 for count in came.values()), len(there.keys() - came.keys())
    if twice < 2 or never < 2:
        return None
    return Fit(
        "wrong",
        "shown",
        f"Of {len(there)} samples {twice} come more than once and {never} never with "
        f"{evidence.parts.workers} workers; without workers each comes once.",
        where=evidence.parts.where,
        fix=f"In `{evidence.parts.dataset}.__iter__`, have all workers agree on one order, from a "
        "seed that is the same in each, before each takes its share of it.",
    )


FAILURE = Failure(
    name="repeated_stream",
    lesson="12",
    promise="complete",
    symptoms=(
        "an IterableDataset returns duplicate data with num_workers > 1",
        "an epoch is twice as long with two workers",
    ),
    cause=("Each worker iterates a copy of its own, and nobody has told it which part is its own."),
    remedy="Ask get_worker_info() in __iter__, and take every n-th sample or file.",
    broken=broken,
    fixed=fixed,
    sign=Counts(LENGTH),
    ordered=False,
    fits=fits,
)
