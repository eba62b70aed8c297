"""Grade "11.transfer": a table in shared memory that all see, and that is gone at last."""

from __future__ import annotations

import gc
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context, resource_tracker
from pathlib import Path
from random import shuffle
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader

from dltutor.lessons.kit.endings import Ending, ended_well, run_loader, where
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class, shown
from dltutor.lessons.kit.outcomes import Rejected, Result, correct, error_in_your_code, not_yet
from dltutor.lessons.kit.running import failed_in_main, made, send_cells
from dltutor.lessons.lesson_11.material import Rows
from dltutor.observation.texts import fate, tidy
from dltutor.tables import MB, Note

LENGTH: Final = 300
_WIDTH: Final = 5000
_WRITTEN: Final = (0, 1, 7, LENGTH - 1)  # the rows that main writes before each epoch
_RUNS: Final[tuple[tuple[int, str, dict[str, Any]], ...]] = (
    (2, "fork", {"persistent_workers": True}),
    (0, "fork", {}),
    (1, "spawn", {"persistent_workers": True}),
    (4, "fork", {}),
)
_WITHIN: Final = {"fork": 8, "spawn": 40}  # seconds for two epochs
_STEP: Final = 8  # seconds for anything else
_PATIENCE: Final = 20.0
_METHODS: Final = ("__len__", "__getitem__", "write", "close")


@dataclass(frozen=True)
class Epochs:
    """Two epochs of a table: how they ended, and what came.

    Args:
        where: With how many workers, started how.
        run: How it ended.
        came: How many rows.
        wrong: How many of them are not the table's.
        old: How many of those are what stood there before main wrote.
    """

    where: str
    run: Ending
    came: int = 2 * LENGTH
    wrong: int = 0
    old: int = 0


@dataclass(frozen=True)
class Used:
    """What became of a table.

    Args:
        kind: What a row is, in words.
        other: Whether `table[3]` is not the array's row 3.
        shares: Whether a change to a row that was read is a change of the table.
        lost: Whether main does not see what it has written.
        runs: The epochs, until something was wrong.
        mixed: Whether two tables at once get in each other's way.
        error: What `close()` raised, in a sentence; with "second" the second call.
        left: How many files of the table are left in `/dev/shm`.
        mapped: MB of shared memory that main still maps.
        tracker: What the resource tracker has said.
    """

    kind: str = f"torch.float32, ({_WIDTH},)"
    other: bool = False
    shares: bool = False
    lost: bool = False
    runs: tuple[Epochs, ...] = ()
    mixed: bool = False
    error: str = ""
    left: int = 0
    mapped: float = 0.0
    tracker: str = ""


def gather(answer: Any) -> Used:
    """Use two tables as a training run would, then close them and look for what is left."""
    send_cells()
    folder = tempfile.mkdtemp()
    _stderr_to(f"{folder}/stderr")
    files = _Files()
    random = np.random.default_rng()
    one, two = (random.random((LENGTH, _WIDTH), np.float32) for _ in range(2))
    before = _mapped()
    call = f"{answer.__name__}(array)"
    table, other = (made(answer, each.copy(), call=call, within=_STEP) for each in (one, two))
    used: Used = made(_alone, table, one, call=f"{call}[index]", within=_STEP)
    if used != Used():
        return used
    runs: list[Epochs] = []
    for workers, method, options in _RUNS:
        runs.append(_epochs(table, one, workers, method, options))
        if runs[-1].run.end != "finished" or runs[-1].wrong or runs[-1].came != 2 * LENGTH:
            return replace(used, runs=tuple(runs))
    used = replace(used, runs=tuple(runs))
    error = _closed(table, "close()")
    mixed = not error and not _reads(other, two)
    for each, what in ((other, "close()"), (table, "a second close()")):
        error = error or _closed(each, what)
    gc.collect()
    left, mapped = files.left(), _mapped() - before
    del table, other, each
    files.remove()
    return replace(
        used,
        mixed=mixed,
        error=error,
        left=left,
        mapped=mapped,
        tracker=_tracker_said(f"{folder}/stderr"),
    )


def _alone(table: Any, array: Any) -> Used:
    row = table[3]
    tensor = isinstance(row, torch.Tensor)
    kind = f"{row.dtype}, {tuple(row.shape)}" if tensor else shown(row)
    if kind != Used.kind:
        return Used(kind)
    if not torch.equal(row, torch.from_numpy(array[3])):
        return Used(other=True)
    row.fill_(-1)
    if not torch.equal(table[3], torch.from_numpy(array[3])):
        return Used(shares=True)
    new = torch.full((_WIDTH,), 0.5)
    table.write(3, new)
    array[3] = 0.5
    return Used(lost=not torch.equal(table[3], new))


def _reads(table: Any, array: Any) -> bool:
    def same() -> bool:
        return all(torch.equal(table[i], torch.from_numpy(array[i])) for i in (0, LENGTH - 1))

    try:
        return bool(made(same, call="table[index]", within=_STEP))
    except Rejected:
        return False


def _epochs(table: Any, array: Any, workers: int, method: str, options: dict[str, Any]) -> Epochs:
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
    run = run_loader(table, epoch, epochs=2, batch_size=20, sampler=order, **how, **options)
    return Epochs(where(workers, method), run, came[0], wrong[0], old[0])


def _closed(table: Any, call: str) -> str:
    try:
        made(table.close, call=f"table.{call}", within=_STEP)
    except Rejected as rejected:
        cause = rejected.__cause__
        if cause is None:
            raise
        return f"`{call}` raises: {failed_in_main(cause).text}"
    return ""


class _Files:
    # The files in /dev/shm that this process makes or maps from now on; torch's have no name there.
    def __init__(self) -> None:
        self.names: set[str] = set()
        sys.addaudithook(self._note)

    def _note(self, event: str, given: tuple[Any, ...]) -> None:
        with suppress(OSError, TypeError):
            if event == "mmap.__new__" and given[0] >= 0:
                self.names.add(os.readlink(f"/proc/self/fd/{given[0]}"))
            elif event == "open" and isinstance(given[0], str):
                self.names.add(given[0])

    def _there(self) -> list[Path]:
        ours = (Path(name) for name in self.names if name.startswith("/dev/shm/"))
        return [path for path in ours if path.is_file()]

    def left(self) -> int:
        return len(self._there())

    def remove(self) -> None:
        for path in self._there():
            path.unlink(missing_ok=True)


def _mapped() -> float:
    # MB of files in /dev/shm that this process maps, with a name or without.
    total = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        if re.search(r" (/dev/shm/|/memfd:|/dev/zero|/tmp/\S*pymp-)", line):
            start, _, end = line.partition(" ")[0].partition("-")
            total += int(end, 16) - int(start, 16)
    return total / MB


def _stderr_to(path: str) -> None:
    # The resource tracker, which starts later, has it too.
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 2)
    os.close(file)


def _tracker_said(path: str) -> str:
    # It speaks when the last process that talks to it is gone, and main is that one.
    tracker: Any = resource_tracker._resource_tracker
    if tracker._fd is not None:
        os.close(tracker._fd)
        until = time.monotonic() + _PATIENCE
        with suppress(ChildProcessError):
            while not os.waitpid(tracker._pid, os.WNOHANG)[0] and time.monotonic() < until:
                time.sleep(0.02)
        tracker._fd = tracker._pid = None
    lines = tidy(Path(path).read_text(errors="replace")).splitlines()
    words = re.compile(r"There appear .* leaked shared_memory objects|KeyError: '/.*")
    told = map(words.search, lines)
    return next((re.sub(r"'/.*", "'/psm_...'", found[0]) for found in told if found), "")


def judge(used: Used) -> Result:
    """Correct if every process saw the table as main wrote it, and nothing is left of it."""
    if used.kind != Used.kind:
        not_yet(f"a row is {used.kind}. The array's rows are {Used.kind}.")
    if used.other:
        not_yet("`dataset[3]`, in main, is not row 3 of the array.")
    if used.shares:
        not_yet(
            "a row that was read, and then filled with -1, has changed the table. The row lies in "
            "the block. What does that mean for the next epoch, and after `close()`?"
        )
    if used.lost:
        not_yet("after `write(3, row)`, main itself reads another row 3. Where did it go?")
    for epochs in used.runs:
        question = "Which of your lines ends it, or needs what is gone?"
        ended_well(epochs.run, epochs.where, died=question)
        if epochs.came != 2 * LENGTH:
            not_yet(f"{epochs.where}, {epochs.came} of {2 * LENGTH} rows came in two epochs.")
        if epochs.old and epochs.old == epochs.wrong:
            not_yet(
                f"{epochs.where}, {epochs.old} of {2 * len(_WRITTEN)} rows that main had written "
                "came as they were before. That worker has rows of its own. How did it get them: "
                "as the name of a block, or row by row?"
            )
        if epochs.wrong:
            not_yet(f"{epochs.where}, {epochs.wrong} of {epochs.came} rows are not the table's.")
    if used.mixed:
        not_yet("two tables were open. When one was closed, the other could not be read any more.")
    if used.error:
        error_in_your_code(used.error)
    if used.left:
        not_yet(
            f"every row is right. But after `close()`, {used.left} files are left in `/dev/shm`. "
            "Closing ends this process's use of a block. What removes its name?"
        )
    if used.mapped > 1:
        not_yet(
            f"every row is right, and no name is left. But main still maps {used.mapped:.0f} MB of "
            "shared memory after `close()`. Who holds the block, or a view of it?"
        )
    if used.tracker:
        not_yet(
            f"every row is right, and nothing is left. But the resource tracker says: "
            f"`{used.tracker}`. Who registers the block, and who has taken that back, how often?"
        )
    return correct(
        "Each of 2 forked, 4 forked, and 1 spawned workers read every row as main had written it, "
        "also after it had started. After close() nothing is left, and the tracker says nothing."
    )


def read_after_close(table: Callable[[Any], Any]) -> Note:
    """In a process of its own: take a row of a small table, close the table, read the row.

    Args:
        table: A class such as `Rows`.
    """
    hear, say = os.pipe()
    process = get_context("fork").Process(target=_read_after_close, args=(table, say))
    process.start()
    os.close(say)
    process.join(_PATIENCE)
    process.kill()
    process.join()
    with open(hear) as told:
        left = told.read().split()
    for name in left:
        Path(name).unlink(missing_ok=True)
    what = "read it" if process.exitcode == 0 else f"was {fate(process.exitcode)}"
    return Note(
        "A row after close():",
        f"the process that read it {what.replace('read it', 'could')}. "
        f"Files left in /dev/shm: {len(left)}.",
    )


def _read_after_close(table: Callable[[Any], Any], say: int) -> None:
    import faulthandler

    faulthandler.disable()  # a death here is what is asked for
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the tracker's words, too
    tracker: Any = resource_tracker._resource_tracker
    tracker._fd = tracker._pid = None  # it gets its own, which removes the block in the end
    files = _Files()
    rows = table(np.arange(12, dtype=np.float32).reshape(3, 4))
    row = rows[1]
    rows.close()
    os.write(say, " ".join(map(str, files._there())).encode())
    os.close(say)
    row.sum().item()


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_class, starter=Rows, methods=_METHODS),
    runs="two tables in turn: two epochs each with 2 (persistent), 0, and 4 forked workers, and "
    "with 1 spawned one",
    at_most=75,
)
