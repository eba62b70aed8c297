"""drop_last drops a batch for each worker, and with enough workers the whole epoch.

Symptom: an IterableDataset with drop_last=True loses samples with workers that it does not lose
without; with a small one the loop may run no step at all.

Mechanism: an IterableDataset is batched in the workers. Each fills batches from its own part of
the stream, and each drops what is left over, so up to `workers * (batch_size - 1)` samples go
instead of `batch_size - 1`. Of 48 samples in batches of 16: none lost with no workers, 16 with
two, all 48 with four, since no worker has 16. A map-style dataset is batched in the main process
and drops once.

Remedy: deal out whole batches instead of samples: let the dataset build them, and give the loader
`batch_size=None`. Then the order does not depend on the number of workers either. It costs a pass
over all samples in every worker: the cheap part (reading a line) is done for every sample, the
expensive part (decoding) only for the worker's own. Or do without `drop_last`, if the model accepts
short batches: there may be one for each worker.

Seen in: pytorch#33413 (open since 2020), detectron2#5035.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from dltutor.failures.kit.contract import Case, Failure, load
from dltutor.failures.kit.evidence import Evidence, Fit
from dltutor.failures.kit.sign import Counts, Finding

LENGTH, BATCH = 48, 16


class Stream(IterableDataset[torch.Tensor]):
    """A stream of samples; of n workers each takes every n-th."""

    def __init__(self, length: int = LENGTH) -> None:
        self.length = length

    def __iter__(self) -> Iterator[torch.Tensor]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for number in range(first, self.length, step):
            yield torch.tensor(number)


class BatchedStream(IterableDataset[torch.Tensor]):
    """The same stream in whole batches; of n workers each takes every n-th batch."""

    def __init__(self, length: int = LENGTH) -> None:
        self.length = length

    def __iter__(self) -> Iterator[torch.Tensor]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        return islice(self._batches(), first, None, step)

    def _batches(self) -> Iterator[torch.Tensor]:
        numbers = iter(range(self.length))
        while len(batch := list(islice(numbers, BATCH))) == BATCH:
            yield torch.tensor(batch)


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """One epoch; the stream fills whole batches, so nothing need be lost."""
    seen = {number for batch in loader for number in batch.tolist()}
    return Finding(LENGTH - len(seen), f"of {LENGTH} samples lost")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Deal out samples, and drop what is left in each worker."""
    return _case(Stream(), BATCH, workers, start_method)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Deal out batches."""
    return _case(BatchedStream(), None, workers, start_method)


def _case(
    dataset: IterableDataset[torch.Tensor], batch_size: int | None, workers: int, start_method: str
) -> Case:
    loader = load(
        dataset, workers, start_method, batch_size=batch_size, drop_last=batch_size is not None
    )
    return Case(loader, train)


_TAIL: Final = 4  # times as many samples as belong to no worker: of fewer it is no tail


def fits(evidence: Evidence) -> Fit | None:
    """A stream has fewer samples with workers than without, and they were there to be drawn."""
    run, alone, shares = evidence.run, evidence.alone, evidence.shares
    if alone is None or shares is None or not (run.well and alone.well and shares.complete):
        return None
    if evidence.handles is not None and evidence.handles.disturbed:
        return None
    if not (run.finished[:1] == alone.finished[:1] == (True,)):
        return None
    came, there = run.counted[0], alone.counted[0]
    if not shares.ended and not len(set(run.counted)) == len(set(alone.counted)) == 1:
        return None  # how many there are has to be certain
    whole = shares.whole if shares.ended else there
    drawn = sum(shares.shares)
    counts = " and ".join(map(str, shares.shares[:4]))
    if evidence.parts.drop_last and came < there and drawn >= whole:
        return Fit(
            "wrong",
            "shown",
            f"{came} samples come with {evidence.parts.workers} workers and {there} without. The "
            f"workers draw {counts} of {whole}; `drop_last` drops the rest of each.",
            where="drop_last=True",
            fix="Use `drop_last=False` if the loop takes short batches; or build whole batches in "
            f"`{evidence.parts.dataset}`, deal those out, and give the loader `batch_size=None`.",
        )
    each = run.drawn[0] if run.drawn else ()
    some_twice = len(set(each)) < len(each)  # that is another failure
    tail = 0 < whole - drawn <= whole / _TAIL
    if tail and came < there and not some_twice:
        return Fit(
            "wrong",
            "shown",
            f"The workers draw {counts} samples, {drawn} of the {whole} that there are "
            "without workers: the rest belongs to none of them.",
            where=evidence.parts.where,
            fix="Deal out so that nothing is left over: every `num_workers`-th sample from `id` "
            "on, as `itertools.islice(samples, id, None, num_workers)` does.",
        )
    return None


FAILURE = Failure(
    name="lost_tail",
    lesson="12",
    promise="complete",
    symptoms=(
        "an IterableDataset with drop_last=True loses samples with workers that it does not "
        "lose without",
    ),
    cause="A stream is batched in the workers, and each of them drops its own unfinished batch.",
    remedy="Let the dataset build whole batches and deal those out, with batch_size=None.",
    broken=broken,
    fixed=fixed,
    sign=Counts(BATCH),
    fits=fits,
)
