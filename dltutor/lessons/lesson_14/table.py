"""Incident "table": one connection for all workers, since main was there first.

Connections are kept for each thread. A forked worker is the same thread as main was, with the same
connections; and main has one, since the numbers are scaled.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader

from dltutor.lessons.engine.endings import ended_well, ending, loader_of, where
from dltutor.lessons.engine.outcomes import not_yet
from dltutor.lessons.engine.running import made, theirs
from dltutor.lessons.lesson_14.reports import grader
from dltutor.lessons.lesson_14.scene import Cause, Incident
from dltutor.observation import observe

_CUSTOMERS, _COLUMNS = 64, 8
_EPOCHS: Final = 2
_WORKERS: Final = (2, 0, 4)
_WITHIN: Final = 20  # seconds for making a loader, and for its epochs
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
            places=(
                "connection",
                "connections",
                "_own",
                "local",
                "Connection",
                "read",
                "scale",
                "Scaler",
                "Customers",
            ),
            shortest="the samples with 0 workers and with 2, compared by content; then the open "
            "sockets of main and of a worker: the same one.",
        ),
    ),
    make_data=make_data,
    not_yours=("database.py",),
)


def run(folder: Path, data: Any, train: Any) -> str:
    """Loaders of two databases, one made while the other's dataset is in use, for each number."""
    for number, workers in enumerate(_WORKERS):
        databases = [_served(50 + 2 * number), _served(51 + 2 * number)]
        loaders: list[Any] = []
        for at, _ in databases:
            loaders.append(loader_of(data, at, workers, _WITHIN))
            with theirs():
                loaders[0].dataset[0]  # main uses it
        for which, (loader, (at, rows)) in enumerate(zip(loaders, databases, strict=True), start=1):
            with theirs():
                loaders[0].dataset[which]
            told = "the second of two loaders" if which > 1 else "a loader whose data main has read"
            lead = f"{where(workers)}, {told}"
            _rows(loader, which, rows, lead)
            _connections(at / "connections.log", 1 + workers, lead)
    _end_servers()
    made(train.train, folder, call="train.train(folder)", within=_JOB)
    _end_servers()
    (folder / "connections.log").unlink(missing_ok=True)
    return (
        f"All rows are their customer's with 0, 2 and 4 workers, {_EPOCHS} epochs of two loaders."
    )


def _served(seed: int) -> tuple[Path, Any]:
    # A folder with a server, and the rows that it has. What lies in the folder then is other rows.
    at = Path(tempfile.mkdtemp())
    make_data(at, seed)
    rows = np.load(at / "rows.npy")
    import_module("database").serve(at)  # the incident's own module, in its folder
    np.save(at / "rows.npy", rows + 1)
    return at, rows


def _end_servers() -> None:
    servers = import_module("database")._servers
    for server, _ in servers.values():
        server.kill()
        server.communicate()
    servers.clear()


def _rows(loader: DataLoader[Any], which: int, rows: Any, lead: str) -> None:
    expected = torch.from_numpy(((rows - rows.mean(0)) / rows.std(0)).astype(np.float32))
    times: Counter[int] = Counter()
    wrong = {"": 0, "odd": 0, "swapped": 0}
    dataset: Any = loader.dataset

    def compare(customer: Any, row: torch.Tensor) -> None:
        same = torch.isclose(row, expected, atol=1e-4).all(dim=1)
        if not (0 <= customer < _CUSTOMERS and same[customer]):
            wrong[""] += 1
            wrong["swapped"] += bool(same.any())

    def consume(batches: Any) -> None:
        for number, batch in enumerate(batches):
            try:
                customers, numbers = batch
                shapes = tuple(customers.shape), tuple(numbers.shape)
                fits = shapes == ((len(customers),), (len(customers), _COLUMNS))
            except (TypeError, ValueError, AttributeError):
                fits = False
            if not fits:
                wrong["odd"] += 1
                return
            for customer, row in zip(customers.tolist(), numbers.float(), strict=True):
                times[customer] += 1
                compare(customer, row)
            compare(*dataset[(which + 7 * number) % _CUSTOMERS])  # main reads meanwhile

    ended_well(ending(observe(loader, consume=consume, deadline=_WITHIN, epochs=_EPOCHS)), lead)
    if wrong["odd"]:
        not_yet(f"{lead}: a batch is not the ids of customers and their numbers.")
    if missing := sum(times[customer] != _EPOCHS for customer in range(_CUSTOMERS)):
        not_yet(
            f"{lead}: {missing} of {_CUSTOMERS} customers did not come once in each of {_EPOCHS} "
            "epochs."
        )
    if wrong[""]:
        of = f", {wrong['swapped']} of them another customer's" if wrong["swapped"] else ""
        not_yet(
            f"{lead}: {wrong['']} rows in {_EPOCHS} epochs, and in what main reads meanwhile, are "
            f"not what the server has for this customer, scaled{of}. Who reads an answer, and who "
            "asked?"
        )


def _connections(log: Path, allowed: int, lead: str) -> None:
    # Each dataset has one for main, and one for each of its workers.
    opened = len(log.read_text().splitlines()) if log.exists() else 0
    if not opened:
        not_yet("no connection to the server was opened: the rows are from somewhere else.")
    if opened > allowed:
        not_yet(
            f"{lead}: {opened} connections were opened so far, and one for each process and "
            f"dataset would be {allowed}. When do you open one?"
        )


GRADER: Final = grader(
    INCIDENT,
    run,
    runs="runs two loaders of yours on another database, with 0, 2 and 4 workers",
    at_most=_WITHIN * len(_WORKERS) * 2 + _JOB + 15,
    job=False,  # run above: a server has to be ended after it
)
