"""Grade "11.transfer", which asks for a table in shared memory that leaves nothing behind."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from random import shuffle
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader

from dltutor.lessons.engine.endings import Ending, check_ending, run_loader, where
from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.forms import a_fixed_class
from dltutor.lessons.engine.outcomes import Rejected, error_in_your_code, not_yet
from dltutor.lessons.engine.running import in_words, made, send_cells
from dltutor.lessons.lesson_11.helpers import Rows
from dltutor.lessons.lesson_11.traces import Blocks, errors_to, tracker_said, type_of

LENGTH: Final = 300
_WIDTH: Final = 1000
_OTHER: Final = 100, 1000  # the shape of the second table, which has a different dtype
_WRITTEN: Final = (0, 1, 7, LENGTH - 1)  # the rows that main writes before each epoch
#: Each run's number of workers, start method, and whether the workers outlive an epoch.
_RUNS: Final = ((2, "fork", True), (0, "fork", False), (1, "spawn", True), (4, "fork", False))
_WITHIN: Final = {"fork": 30, "spawn": 60}  # time limit in seconds for two epochs
_STEP: Final = 20  # time limit in seconds for any other step
_METHODS: Final = ("__len__", "__getitem__", "write", "close")


@dataclass(frozen=True)
class Epochs:
    """A record of two epochs of a table.

    Args:
        where: The run's settings, such as "with 2 workers under fork".
        run: How the epochs ended.
        came: How many rows arrived.
        wrong: How many of the rows that arrived differ from the table's.
        old: How many of the wrong rows are as they were before main wrote.
    """

    where: str
    run: Ending
    came: int = 2 * LENGTH
    wrong: int = 0
    old: int = 0


def run(answer: Any) -> Iterator[Epochs]:
    """Use two tables in main and one of them in loaders, close both, and look for leftovers.

    Yield a record of the loader's epochs in each of `_RUNS`.

    Raises:
        Rejected: A table is wrong in main, can't be made or closed, or leaves something behind.
    """
    send_cells()
    said = f"{tempfile.mkdtemp()}/stderr"  # the resource tracker also writes there
    with errors_to(said):
        yield from _used(answer)
    if tracker := tracker_said(said):
        not_yet("tracker", tracker=tracker)


def _used(answer: Any) -> Iterator[Epochs]:
    blocks = Blocks()
    random = np.random.default_rng()
    one, two = random.random((LENGTH, _WIDTH), np.float32), random.random(_OTHER)
    call = f"{answer.__name__}(array)"
    table, other = (made(answer, each.copy(), call=call, within=_STEP) for each in (one, two))
    for each, array in ((table, one), (other, two)):
        made(_alone, each, array, call=f"{call}[index]", within=_STEP)
    for plan in _RUNS:
        yield _epochs(table, one, *plan)
    blocks.look()
    for each, what in ((table, "`close()`"), (other, "`close()`"), (table, "a second `close()`")):
        _close(each, what)
    gc.collect()
    if left := len(blocks.left()):
        not_yet("left-files", left=left)
    if (mapped := blocks.mapped()) > 0.5:
        not_yet("left-mapped", mapped=f"{mapped:.0f}")


def _alone(table: Any, array: Any) -> None:
    # Reject a table that's wrong in main, before any worker has used it.
    if len(table) != len(array):
        not_yet("length", length=f"{len(table):,}", rows=f"{len(array):,}")
    row, right = table[3], torch.from_numpy(array[3])
    if type_of(row) != type_of(right):
        not_yet("other-type", kind=type_of(row), right=type_of(right))
    if not torch.equal(row, right):
        not_yet("other-row")
    row.fill_(-1)
    if not torch.equal(table[3], right):
        not_yet("shares")
    table.write(3, right.fill_(0.5).clone())  # `right` is a view, so this also changes the array
    if not torch.equal(table[3], right):
        not_yet("lost")


def _epochs(table: Any, array: Any, workers: int, method: str, persistent: bool) -> Epochs:
    order, came, wrong, old = [*range(LENGTH)], [0], [0], [0]

    def epoch(loader: DataLoader[Any]) -> None:
        shuffle(order)
        before = torch.from_numpy(array.copy())
        for index in _WRITTEN:
            array[index] += 1
            table.write(index, torch.from_numpy(array[index].copy()))
        right, at = torch.from_numpy(array), 0
        for batch in loader:
            rows = torch.as_tensor(batch)
            indices = order[at : at + len(rows)]
            at += len(rows)
            differ = (rows != right[indices]).any(1)
            wrong[0] += int(differ.sum())
            old[0] += int((differ & (rows == before[indices]).all(1)).sum())
        came[0] += at

    how: dict[str, Any] = {"workers": workers, "method": method, "within": _WITHIN[method]}
    how |= {"batch_size": 20, "sampler": order, "persistent_workers": persistent}
    run = run_loader(table, epoch, epochs=2, **how)
    return Epochs(where(workers, method), run, came[0], wrong[0], old[0])


def _close(table: Any, call: str) -> None:
    try:
        made(table.close, call="table.close()", within=_STEP)
    except Rejected as rejected:
        cause = rejected.__cause__
        if cause is None:
            raise
        code = "view-left" if isinstance(cause, BufferError) else "close-raised"
        error_in_your_code(code, call=call, error=in_words(cause))


def judge(epochs: Epochs) -> None:
    """Raise `Rejected` unless the epochs finished, and all rows arrived as main wrote them."""
    check_ending(epochs.run, epochs.where)
    if epochs.came != 2 * LENGTH:
        not_yet("missing", where=epochs.where, came=epochs.came, rows=2 * LENGTH)
    if epochs.old and epochs.old == epochs.wrong:
        written = 2 * len(_WRITTEN)
        not_yet("old-rows", where=epochs.where, old=epochs.old, written=written)
    if epochs.wrong:
        not_yet("wrong-rows", where=epochs.where, wrong=epochs.wrong, came=epochs.came)


GRADER: Final = by_runs(
    run,
    judge,
    look=partial(a_fixed_class, starter=Rows, methods=_METHODS),
    at_most=sum(_WITHIN.values()) + 30,
)
