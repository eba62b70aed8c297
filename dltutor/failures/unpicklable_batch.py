"""A worker drops a batch that can't be pickled, and the loop waits forever.

Symptom: the loop hangs. A worker wrote `TypeError: cannot pickle 'sqlite3.Row' object` (or
`'generator'`, `'_thread.lock'`, `'_io.BufferedReader'`), or `RuntimeError: Cowardly refusing to
serialize non-leaf tensor which requires_grad`, to stderr, below `multiprocessing/queues.py, in
_feed`.

Mechanism: the worker puts the finished batch in a queue, and the queue's own thread pickles it. If
that fails, the thread prints a traceback and drops the batch. By then, the worker has moved on. The
worker is alive, so the main process sees no reason to stop waiting. Without workers nothing is
pickled, and the same loop works. The default collate function rejects such objects, but your own
function may let them through, and so does `batch_size=None`.

Fix: return tensors, numbers, strings, and lists and dicts of these. Turn a row into a dict and a
view into a list, and `detach()` what a model made. Test a batch in the main process, where that
takes milliseconds: `pickle.dumps(collate_fn([dataset[0]]))` raises what the queue's thread would
print. This test misses only a tensor that requires grad. Give the loader a `timeout=`.

Seen in: pytorch#142884, pytorch_geometric#3143.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from dltutor.failures.tools import Case, Failure, Says, facts_of, load, own_folder


class Measurements(Dataset[Any]):
    """A dataset of rows from a database, each with a tensor of its low and high values."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with closing(sqlite3.connect(path)) as database:
            self.ids = [id for (id,) in database.execute("SELECT id FROM measured ORDER BY id")]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Any:
        row = self.fetch(self.ids[index])
        return torch.tensor([row["low"], row["high"]]), row

    def fetch(self, id: int) -> Any:
        with closing(sqlite3.connect(self.path)) as database:
            database.row_factory = sqlite3.Row
            return database.execute("SELECT * FROM measured WHERE id = ?", (id,)).fetchone()


class PlainMeasurements(Measurements):
    """A dataset of rows from a database, with each row as a dict."""

    def __getitem__(self, index: int) -> Any:
        values, row = super().__getitem__(index)
        return values, dict(row)


def collate_with_rows(samples: list[Any]) -> Any:
    """Stack the tensors of a batch, and return them together with the rows."""
    values, rows = zip(*samples, strict=True)
    return torch.stack(values), rows


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose batches hold rows as the database driver makes them."""
    dataset = Measurements(_database())
    return Case(load(dataset, workers, start_method, collate_fn=collate_with_rows))


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose batches hold the rows as dicts."""
    dataset = PlainMeasurements(_database())
    return Case(load(dataset, workers, start_method, collate_fn=collate_with_rows))


@cache
def _database() -> Path:
    path = own_folder() / "measured.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE measured (id INTEGER, place TEXT, low REAL, high REAL)")
        rows = [(id, f"place {id % 3}", id / 4, id / 2) for id in range(16)]
        database.executemany("INSERT INTO measured VALUES (?, ?, ?, ?)", rows)
    return path


FAILURE = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Says("hung", ("TypeError: cannot pickle 'sqlite3.Row' object",)),
    deadline=3,
)
