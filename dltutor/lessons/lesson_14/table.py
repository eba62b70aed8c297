"""Incident "table": all workers use one connection, because main opened it first.

Each thread keeps its own connections. A forked worker runs as a copy of main's thread, so it has
the same connections. And main has opened a connection, because main reads all rows to scale them.
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

from dltutor.lessons.engine.endings import check_ending, loader_of, run_loop, where
from dltutor.lessons.engine.outcomes import Result, correct, not_yet
from dltutor.lessons.engine.running import made, theirs
from dltutor.lessons.lesson_14.reports import grader
from dltutor.lessons.lesson_14.scene import Incident

_CUSTOMERS, _COLUMNS = 64, 8
_EPOCHS: Final = 2
_WORKERS: Final = (2, 0, 4)
_WITHIN: Final = 20  # time limit in seconds for making a loader, and for its epochs
_JOB: Final = 40  # time limit in seconds for the training script


def make_data(folder: Path, seed: int) -> None:
    """Write a row of 8 numbers for each of 64 customers. No two rows begin with the same number."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(_CUSTOMERS, _COLUMNS)) * 10.0 ** np.arange(-3, _COLUMNS - 3)
    rows[:, 0] = random.permutation(_CUSTOMERS) + 100 * seed
    rows[:, 1] = np.arange(_CUSTOMERS) % 8 + random.normal(size=_CUSTOMERS) / 10
    np.save(folder / "rows.npy", rows)


INCIDENT: Final = Incident("table", make_data, not_yours=("database.py",))


def run(folder: Path, data: Any, train: Any) -> Result:
    """Check the rows that main and workers read from two running databases.

    Also count the connections, and run the training script.
    """
    for number, workers in enumerate(_WORKERS):
        databases = [_served(50 + 2 * number), _served(51 + 2 * number)]
        loaders: list[Any] = []
        for at, _ in databases:
            loaders.append(loader_of(data, at, workers, _WITHIN))
            with theirs():
                loaders[0].dataset[0]  # main reads before any worker does
        for which, (loader, (at, rows)) in enumerate(zip(loaders, databases, strict=True), start=1):
            with theirs():
                loaders[0].dataset[which]
            lead = f"{where(workers)}, in loader {which} of {len(loaders)}"
            _rows(loader, which, rows, lead)
            _connections(at / "connections.log", 1 + workers, lead)
    _end_servers()
    made(train.train, folder, call="train.train(folder)", within=_JOB)
    _end_servers()
    (folder / "connections.log").unlink(missing_ok=True)
    return correct()


def _served(seed: int) -> tuple[Path, Any]:
    # Start a server in a new folder. Then change the rows in the folder's file, to catch an answer
    # that reads the file. Return the folder, and the rows that the server has.
    at = Path(tempfile.mkdtemp())
    make_data(at, seed)
    rows = np.load(at / "rows.npy")
    import_module("database").serve(at)  # the module in the incident's folder
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
    wrong: list[bool] = []  # for each wrong row, whether it's another customer's
    dataset: Any = loader.dataset

    def compare(customer: Any, row: torch.Tensor) -> None:
        same = torch.isclose(row, expected, atol=1e-4).all(dim=1)
        if not (0 <= customer < _CUSTOMERS and same[customer]):
            wrong.append(bool(same.any()))

    def consume(batches: Any) -> None:
        for number, batch in enumerate(batches):
            try:
                customers, numbers = batch
                shapes = tuple(customers.shape), tuple(numbers.shape)
                fits = shapes == ((len(customers),), (len(customers), _COLUMNS))
            except (TypeError, ValueError, AttributeError):
                fits = False
            if not fits:
                not_yet("other-batch", where=lead)
            for customer, row in zip(customers.tolist(), numbers.float(), strict=True):
                times[customer] += 1
                compare(customer, row)
            compare(*dataset[(which + 7 * number) % _CUSTOMERS])  # main reads between batches

    check_ending(run_loop(loader, consume, within=_WITHIN, epochs=_EPOCHS), lead)
    if missing := sum(times[customer] != _EPOCHS for customer in range(_CUSTOMERS)):
        not_yet("missing-customers", where=lead, missing=missing, customers=_CUSTOMERS)
    if wrong:
        not_yet("wrong-rows", where=lead, wrong=len(wrong), swapped=sum(wrong))


def _connections(log: Path, allowed: int, lead: str) -> None:
    # Each dataset may open one connection for main, and one for each of its workers.
    opened = len(log.read_text().splitlines()) if log.exists() else 0
    if not opened:
        not_yet("no-connection")
    if opened > allowed:
        not_yet("many-connections", where=lead, opened=opened, allowed=allowed)


GRADER: Final = grader(
    INCIDENT,
    run,
    at_most=_WITHIN * len(_WORKERS) * 2 + _JOB + 15,
    job=False,  # `run` runs the script, because it has to end a server afterward
)
