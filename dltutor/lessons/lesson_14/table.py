"""Incident "table": one connection for all workers, since main was there first."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader

from dltutor.lessons.kit.endings import Ending, ended_well, ending, where
from dltutor.lessons.kit.outcomes import not_yet
from dltutor.lessons.kit.running import made, theirs
from dltutor.lessons.lesson_14.scene import Cause, Incident, grader
from dltutor.observation import observe

_CUSTOMERS, _COLUMNS = 64, 8
_EPOCHS: Final = 2
_WORKERS: Final = (2, 0, 4)
_WITHIN: Final = 20  # seconds for the epochs of a loader
_JOB: Final = 40  # seconds for the training script


def make_data(folder: Path, seed: int) -> None:
    """Customers whose first number tells who they are, in one order of 64."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(_CUSTOMERS, _COLUMNS)) * 10.0 ** np.arange(-3, _COLUMNS - 3)
    rows[:, 0] = random.permutation(_CUSTOMERS) + 100 * seed
    rows[:, 1] = np.arange(_CUSTOMERS) % 8 + random.normal(size=_CUSTOMERS) / 10
    np.save(folder / "rows.npy", rows)


INCIDENT: Final = Incident(
    name="table",
    title="The wrong customer's numbers",
    causes=(
        Cause(
            names=("lazy_but_touched", "shared_connection"),
            places=("connection", "Connection", "row", "statistics", "__init__", "Customers"),
            shortest="the same samples with 0 workers and with 2, compared by content; then "
            "`loader.dataset.connection` before the first epoch: main has opened it.",
        ),
    ),
    make_data=make_data,
)


@dataclass(frozen=True)
class Ran:
    """What a loader delivered in its epochs.

    Args:
        where: With how many workers, and which loader.
        run: How it ended.
        has: How many workers it has.
        asked: How many it was asked for.
        odd: What of a batch is not as asked, in a sentence, or nothing.
        missing: Customers that did not come once in an epoch.
        wrong: Rows with other numbers than the server has for this customer.
        swapped: How many of them are another customer's.
        connections: How many were opened to the server in all.
        allowed: How many may be.
    """

    where: str
    run: Ending
    has: int = 0
    asked: int = 0
    odd: str = ""
    missing: int = 0
    wrong: int = 0
    swapped: int = 0
    connections: int = 0
    allowed: int = 0

    @property
    def right(self) -> bool:
        """Whether nothing is wrong with it."""
        well = self.run.end == "finished" and self.has == self.asked
        return well and not (self.odd or self.missing or self.wrong) and self._few()

    def _few(self) -> bool:
        return 0 < self.connections <= self.allowed


def run(folder: Path, data: Any, train: Any) -> tuple[Ran, ...]:
    """Two loaders, one of them made while the other's dataset is in use, for each number."""
    found: list[Ran] = []
    for number, workers in enumerate(_WORKERS):
        at = folder / f"database-{number}"  # with a server of its own
        at.mkdir()
        make_data(at, 50 + number)
        rows = np.load(at / "rows.npy")
        with theirs():
            loaders = [data.make_loader(at, workers)]
            for loader in loaders:
                if not isinstance(loader, DataLoader):
                    not_yet(f"`make_loader` returns a `{type(loader).__name__}`, no DataLoader.")
            loaders[0].dataset[0]  # main uses it
            loaders.append(data.make_loader(at, workers))
        for which, loader in enumerate(loaders, start=1):
            with theirs():
                loaders[0].dataset[which]
            # Each dataset has one for main, and one for each of its workers.
            allowed = 2 + which * workers
            found.append(_ran(loader, workers, which, rows, at, allowed))
            if not found[-1].right:
                return tuple(found)
    _end_servers()
    made(train.train, folder, call="train.train(folder)", within=_JOB)
    _end_servers()
    return tuple(found)


def _end_servers() -> None:
    servers = sys.modules["database"]._servers  # the incident's own module, in its folder
    for server, _ in servers.values():
        server.kill()
        server.communicate()
    servers.clear()


def _ran(
    loader: DataLoader[Any], workers: int, which: int, rows: Any, folder: Path, allowed: int
) -> Ran:
    expected = torch.from_numpy(((rows - rows.mean(0)) / rows.std(0)).astype(np.float32))
    times: Counter[int] = Counter()
    odd: list[str] = []
    wrong, swapped = [0], [0]

    dataset: Any = loader.dataset

    def compare(customer: Any, row: torch.Tensor) -> None:
        same = torch.isclose(row, expected, atol=1e-4).all(dim=1)
        if not (0 <= customer < _CUSTOMERS and same[customer]):
            wrong[0] += 1
            swapped[0] += bool(same.any())

    def consume(batches: Any) -> None:
        for batch in batches:
            try:
                customers, numbers = batch
                shapes = tuple(customers.shape), tuple(numbers.shape)
                fits = shapes == ((len(customers),), (len(customers), _COLUMNS))
            except (TypeError, ValueError, AttributeError):
                fits = False
            if not fits:
                odd.append("a batch is not the ids of customers and their numbers.")
                return
            for customer, row in zip(customers.tolist(), numbers.float(), strict=True):
                times[customer] += 1
                compare(customer, row)
            compare(*dataset[which])  # main reads meanwhile

    seen = observe(loader, consume=consume, deadline=_WITHIN, epochs=_EPOCHS)
    told = "the second of two loaders" if which > 1 else "a loader of a dataset that main has read"
    return Ran(
        f"{where(workers)}, {told}",
        ending(seen),
        loader.num_workers,
        workers,
        "".join(odd[:1]),
        sum(times[customer] != _EPOCHS for customer in range(_CUSTOMERS)),
        wrong[0],
        swapped[0],
        len((folder / "connections.log").read_text().splitlines())
        if (folder / "connections.log").exists()
        else 0,
        allowed,
    )


def judge_run(found: tuple[Ran, ...]) -> str:
    """Right if each row is its customer's, over few connections."""
    for ran in found:
        ended_well(ran.run, ran.where)
        if ran.has != ran.asked:
            not_yet(
                f"{ran.asked} workers were asked for, and the loader has {ran.has}. The job needs "
                "them."
            )
        if ran.odd:
            not_yet(f"{ran.where}: {ran.odd}")
        if ran.missing:
            not_yet(
                f"{ran.where}: {ran.missing} of {_CUSTOMERS} customers did not come once in each "
                f"of {_EPOCHS} epochs."
            )
        if ran.wrong:
            of = f", {ran.swapped} of them another customer's" if ran.swapped else ""
            not_yet(
                f"{ran.where}: {ran.wrong} rows in {_EPOCHS} epochs, and in what main reads "
                f"meanwhile, are not what the server has for this customer, scaled{of}. Who reads "
                "an answer, and who asked?"
            )
        if not ran.connections:
            not_yet("no connection to the server was opened: the rows are from somewhere else.")
        if ran.connections > ran.allowed:
            not_yet(
                f"{ran.where}: {ran.connections} connections were opened so far, and one for each "
                f"process and dataset would be {ran.allowed}. When do you open one?"
            )
    assert len(found) == len(_WORKERS) * 2, "one that is not right has been rejected"
    return (
        f"All rows are their customer's with 0, 2 and 4 workers, {_EPOCHS} epochs of two loaders."
    )


GRADER: Final = grader(
    INCIDENT,
    run=run,
    judge_run=judge_run,
    runs="runs two loaders of yours on another database, with 0, 2 and 4 workers",
    at_most=_WITHIN * len(_WORKERS) * 2 + _JOB + 15,
    job=False,  # run above: a server has to be ended after it
)
