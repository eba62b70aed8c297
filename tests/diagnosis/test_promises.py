"""Check that the doctor reports a broken promise even if no failure mode explains it.

`dltutor.failures.PROMISES` lists a good loader's promises, and what happens if one is broken. Each
broken loader here breaks one promise in a way that the catalog has no name for. The healthy loaders
are similar, and get no finding. test_verdicts.py tests the same with made-up evidence.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ranked
import small_datasets
import torch
from small_datasets import Numbers
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    Sampler,
    get_worker_info,
)

from dltutor import Diagnosis, diagnose

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


load = partial(small_datasets.load, batch_size=4)


class Rows(Numbers):
    def __init__(self, length: int = 64) -> None:
        super().__init__(length=length)


# A dataset for the promise `same`


class ByWorker(Rows):
    """A dataset whose rows are twice as large in all workers except W0."""

    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        return super().__getitem__(index) * (2.0 if info and info.id else 1.0)


# A sampler that skips batches, and a stream that workers share. Both keep the promise `complete`.


class Resumed(Sampler[list[int]]):
    """A batch sampler that skips the first four batches of each epoch."""

    def __iter__(self) -> Iterator[list[int]]:
        for at in range(16, 64, 4):
            yield list(range(at, at + 4))


def share() -> tuple[int, int]:
    """Return the first number of this worker's share, and the step to the next."""
    info = get_worker_info()
    return (info.id, info.num_workers) if info else (0, 1)


class Shares(IterableDataset[torch.Tensor]):
    """A stream of numbers, of which each worker takes its share."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        first, step = share()
        return (torch.full((8,), float(each)) for each in range(first, 48, step))


# A dataset that leaves files open, one that closes its file, and a stream of tokens


class Opens(Rows):
    """A dataset that opens a file for each row, and forgets to close it."""

    kept: list[Any] = []  # noqa: RUF012 - a common mistake in real datasets

    def __getitem__(self, index: int) -> Any:
        self.kept.append(open(__file__))  # noqa: SIM115 - the bug of this dataset
        return super().__getitem__(index)


class Archive(Rows):
    """A dataset that reads a part of each row from a file."""

    def __init__(self, path: Path) -> None:
        super().__init__(32)
        self.path = path
        if not path.exists():
            rows = np.arange(32 * 8192, dtype=np.float32).reshape(32, 8192)
            np.save(path, rows)

    def __getitem__(self, index: int) -> Any:
        with self.path.open("rb") as file:
            file.seek(128 + index * 8192 * 4)
            return torch.from_numpy(np.frombuffer(file.read(256), np.float32).copy())


class Packs(IterableDataset[Any]):
    """A stream of blocks of tokens, which each worker cuts from its share of the documents."""

    def __iter__(self) -> Iterator[Any]:
        first, step = share()
        rest: list[int] = []
        for number in range(first, 200, step):
            rng = np.random.default_rng(number)
            rest += rng.integers(0, 5000, rng.integers(100, 400)).tolist()
            while len(rest) >= 128:
                yield torch.tensor(rest[:128])
                del rest[:128]


# Two loaders in random order, and a dataset with random samples


class Side:
    """A wrapper around two loaders, which each have their own order."""

    def __init__(self) -> None:
        self.both = [load(Rows(), shuffle=True), load(Rows(), shuffle=True)]

    def __iter__(self) -> Iterator[Any]:
        return iter([(first, number, second) for number, (first, second) in self._pairs()])

    def _pairs(self) -> list[tuple[int, tuple[Any, Any]]]:
        return list(enumerate(zip(*self.both, strict=True)))


class Noisier(Rows):
    """A dataset that adds noise. If `shared`, a counter that all workers share seeds the noise."""

    def __init__(self, shared: bool) -> None:
        super().__init__()
        self.count = multiprocessing.Value("q", 0) if shared else None

    def __getitem__(self, index: int) -> Any:
        if self.count is None:
            return super().__getitem__(index) + torch.randn(8)
        with self.count.get_lock():
            self.count.value += 1
            seed = self.count.value
        time.sleep(0.001)
        return super().__getitem__(index) + torch.randn(
            8, generator=torch.Generator().manual_seed(seed)
        )


def seeded(dataset: Any) -> DataLoader[Any]:
    return load(dataset, shuffle=True, generator=torch.Generator().manual_seed(1))


# Loaders, a sampler, and loops for orders that depend on the epoch. Below are datasets, loops, and
# a sampler for the other cases.


class Endless(DataLoader[Any]):
    """A loader with one iterator for all epochs, so it draws indices before their epoch begins."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        object.__setattr__(self, "batch_sampler", _Again(self.batch_sampler))
        self.batches = super().__iter__()

    def __iter__(self) -> Any:
        return (next(self.batches) for _ in range(len(self)))

    def __len__(self) -> int:
        return len(self.batch_sampler)  # type: ignore[arg-type]


class _Again:
    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from self.sampler


class Epochs(Sampler[int]):
    """A sampler that shuffles differently in each epoch that `set_epoch` sets."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        order = [*range(self.length)]
        random.Random(self.epoch).shuffle(order)
        return iter(order)


class Counting(DataLoader[Any]):
    """A loader that sets its sampler's epoch. It counts epochs as they begin or, if `late`, end."""

    def __init__(self, *, late: bool) -> None:
        batches = BatchSampler(Epochs(32), 4, drop_last=False)
        options: Any = {"num_workers": 2, "multiprocessing_context": "fork"}
        super().__init__(Rows(), batch_sampler=batches, **options)
        self.late, self.epoch = late, 0

    def __iter__(self) -> Any:
        self.batch_sampler.sampler.set_epoch(self.epoch)
        self.epoch += not self.late
        yield from super().__iter__()
        self.epoch += self.late


def leave_early(loader: Any) -> None:
    for number, _ in enumerate(loader):
        if number == 2:
            return


def train(loader: Any) -> None:
    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        for _ in loader:
            pass


MISSING: list[Any] = []
"""The stand-in for a missing label, which `without_label` recognizes with `is`."""


def unlabeled(rows: list[torch.Tensor]) -> Any:
    return torch.stack(rows), MISSING


def without_label(loader: Any) -> int:
    """Return how many batches have no label, plus one."""
    return 1 + sum(label is MISSING for _, label in loader)


def states(diagnosis: Diagnosis) -> dict[str, str]:
    return {each.promise: each.state for each in diagnosis.promises}


class Waits(Rows):
    """A dataset whose rows never arrive from a worker."""

    def __getitem__(self, index: int) -> Any:
        if get_worker_info() is not None:
            time.sleep(1000)
        return super().__getitem__(index)


class Decoded(Rows):
    """A dataset of rows from 16 files. Decoding one takes a while, so the dataset keeps the result.

    If `at_once`, the dataset decodes all files when it's made.
    """

    def __init__(self, *, at_once: bool) -> None:
        super().__init__()
        self.decoded = {number: decode(number) for number in range(16) if at_once}

    def __getitem__(self, index: int) -> Any:
        number = index % 16
        if number not in self.decoded:
            self.decoded[number] = decode(number)
        return super().__getitem__(index) + self.decoded[number]


def decode(number: int) -> float:
    until = time.thread_time() + 0.06
    while time.thread_time() < until:
        pass
    return number / 16


class Unpacks(Rows):
    """A dataset that makes a folder in each process, and has `atexit` remove the folder."""

    folder = ""

    def __init__(self) -> None:
        super().__init__()
        self.owner = 0

    def __getitem__(self, index: int) -> Any:
        if self.owner != os.getpid():
            self.owner, self.folder = os.getpid(), tempfile.mkdtemp()
            atexit.register(shutil.rmtree, self.folder)
        return super().__getitem__(index)


class Refers(Rows):
    """A dataset whose samples refer to a whole table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = SimpleNamespace(numbers=np.arange(300_000.0))

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index), self.table


class Uneven(Rows):
    """A dataset in which every third batch of four rows takes a while."""

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.02 * (index // 4 % 3 == 0))
        return super().__getitem__(index) + 1.0


def one_epoch(loader: Any) -> float:
    return sum(float(batch.sum()) for batch in loader)


def by_position(loader: Any) -> dict[int, np.ndarray[Any, Any]]:
    rows, at = np.zeros((64, 2), np.float32), 0
    for batch in loader:
        rows[at : at + len(batch)] = batch.numpy()
        at += len(batch)
    return dict(enumerate(rows))


def by_number(loader: Any) -> dict[int, float]:
    return dict(sorted((int(row), float(row)) for batch in loader for row in batch))


class Drawn(Sampler[int]):
    """A sampler without a length or an end, which draws each index when it's asked for it."""

    def __iter__(self) -> Iterator[int]:
        while True:
            yield random.randrange(64)


HERE = "test_promises.py"
Loader = tuple[Callable[[Path], Any], Callable[[Any], Any] | None]
"""What to diagnose: a function that takes a temporary folder, and the training loop or None. The
function returns a loader, or a function that makes one."""

# Loaders that break one promise each, with the promise and with what the finding's `where` contains
BROKEN: dict[str, tuple[Loader, str, str]] = {
    "rows that never arrive": ((lambda _: load(Waits()), None), "ends", "in __getitem__"),
    "each batch has the table": (
        (lambda _: load(Refers(), collate_fn=list), None),
        "quick",
        HERE,
    ),
    "a worker with another scale": ((lambda _: load(ByWorker()), None), "same", HERE),
    # Return a function, because all experiments on one loader would share the counter.
    "a race for random numbers": (
        (lambda _: lambda: seeded(Noisier(shared=True)), None),
        "same",
        HERE,
    ),
    "another result of the loop": (
        (lambda _: load(Rows(), collate_fn=unlabeled), without_label),
        "same",
        "your training loop",
    ),
    "epochs that are left early and begin alike": (
        (lambda _: Counting(late=True), leave_early),
        "independent",
        "set_epoch",
    ),
    "an order that was dealt before the epoch was told": (
        (lambda _: Endless(Rows(), batch_size=4, sampler=Epochs(64), num_workers=2), train),
        "independent",
        "set_epoch",
    ),
    "results by position, of batches that arrive when they're ready": (
        (lambda _: load(Uneven(), in_order=False), by_position),
        "same",
        "your training loop",
    ),
    "ranks that divide their own orders": (
        (lambda _: ranked.own_orders, None),
        "complete",
        "ranked.py",
    ),
    "folders that a loop of one epoch leaves": (
        (lambda _: lambda: load(Unpacks()), one_epoch),
        "clean",
        HERE,
    ),
    "files that new workers decode again": (
        (lambda _: lambda: load(Decoded(at_once=False)), None),
        "quick",
        HERE,
    ),
    "files stay open": ((lambda _: load(Opens()), None), "bounded", HERE),
}
# Loaders that break no promise, with the promises that the doctor must report as kept
HEALTHY: dict[str, tuple[Loader, set[str]]] = {
    "batches without the first ones": (
        (lambda _: load(Rows(), batch_size=1, batch_sampler=Resumed()), None),
        {"ends", "complete", "same"},
    ),
    "an order for each epoch, and files that are closed": (
        (
            lambda folder: load(
                Archive(folder / "rows.npy"),
                sampler=Epochs(32),
                persistent_workers=True,
            ),
            train,
        ),
        {"ends", "complete", "same"},
    ),
    "results by number, of batches that arrive when they're ready": (
        (lambda _: load(Uneven(), in_order=False), by_number),
        {"ends", "complete", "same"},
    ),
    "ranks that divide one order": (
        (lambda _: ranked.shared_order, None),
        {"ends", "complete", "same"},
    ),
    "files that are decoded in main": (
        (lambda _: lambda: load(Decoded(at_once=True)), None),
        {"ends", "complete", "same"},
    ),
    "a stream that is dealt out": ((lambda _: load(Shares()), None), {"ends", "complete", "same"}),
    "a stream that packs": ((lambda _: load(Packs()), None), {"ends", "complete", "same"}),
    "noise that each worker draws": (
        (lambda _: seeded(Noisier(shared=False)), None),
        {"ends", "complete", "same"},
    ),
    "two loaders, each in its own order": ((lambda _: Side(), None), {"ends", "same"}),
    "epochs that are left early and differ": (
        (lambda _: Counting(late=False), leave_early),
        {"same"},
    ),
    "an order that is drawn on the way": (
        (lambda _: load(Rows(), sampler=Drawn()), leave_early),
        {"same"},
    ),
}
EACH_TIME = (
    "rows that never arrive",
    "a worker with another scale",
    "epochs that are left early and begin alike",
    "files stay open",
    "ranks that divide their own orders",
    "an order for each epoch, and files that are closed",
    "a stream that is dealt out",
)
"""Loaders for the default tier. The others are like one of these, or like evidence in
test_verdicts.py, and each takes seconds."""


def tiers(loaders: dict[str, Any]) -> list[Any]:
    return [
        pytest.param(what, marks=() if what in EACH_TIME else pytest.mark.thorough)
        for what in loaders
    ]


@pytest.mark.parametrize("what", tiers(BROKEN))
def test_a_broken_promise_is_found_without_a_name_for_its_cause(what: str, tmp_path: Path) -> None:
    (make, loop), promise, where = BROKEN[what]
    diagnosis = diagnose(make(tmp_path), consume=loop)
    assert [each.name for each in diagnosis.findings] == [promise], diagnosis
    assert where in diagnosis.findings[0].where
    assert diagnosis.findings[0].certainty == "shown"
    assert not diagnosis.ok and states(diagnosis)[promise] == "broken"


@pytest.mark.parametrize("what", tiers(HEALTHY))
def test_a_healthy_loader_breaks_none(what: str, tmp_path: Path) -> None:
    (make, loop), kept = HEALTHY[what]
    diagnosis = diagnose(make(tmp_path), consume=loop)
    assert diagnosis.findings == (), diagnosis
    found = states(diagnosis)
    assert "broken" not in found.values()
    assert kept <= {each for each in found if found[each] == "kept"}, diagnosis
