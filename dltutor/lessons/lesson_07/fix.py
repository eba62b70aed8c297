"""Grade "07.fix": pairs of files, opened at the same time, by threads that each process has.

Main makes the dataset and takes a sample, as people do. Then the check runs two epochs with 2
persistent workers, two with 0, and one with 4. Each epoch has new files, and reads them in another
order than theirs. In a worker, whatever opens one file of a pair waits until the other one is open.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from dltutor.failures.lost_thread import Pairs
from dltutor.lessons.engine.endings import Ending, ended_well, run_loader, where
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_class
from dltutor.lessons.engine.outcomes import Result, correct, not_yet
from dltutor.lessons.engine.running import changed, contents, made

_PAIRS: Final = 14
_ORDER: Final = [(3 * place + 5) % _PAIRS for place in range(_PAIRS)]
_RUNS: Final = ((2, 2), (0, 2), (4, 1))  # workers, and epochs
_LONG: Final = 6  # seconds for each thing that the answer does
_APART: Final = 2.0  # seconds that the first file of a pair waits for the second


@dataclass(frozen=True)
class Epochs:
    """What an answer delivered with some workers.

    Args:
        workers: How many.
        run: How it ended.
        samples: How many came.
        wrong: How many of them are not what the files held in that epoch.
        changed: The files that an epoch left changed, added or removed.
        opened: How many pairs were opened in the workers, as far as Python was told of it.
        apart: In how many of these the second file was not opened while the first was being read.
        more: How many threads read, and were started after their worker's first pair.
        ended: How many threads that read had ended before their worker's last pair.
        main_started: Whether main had started a thread before there were workers.
    """

    workers: int
    run: Ending
    samples: int
    wrong: int = 0
    changed: tuple[str, ...] = ()
    opened: int = 0
    apart: int = 0
    more: int = 0
    ended: int = 0
    main_started: bool = False


def gather(answer: type) -> tuple[Epochs, ...]:
    """Use the class in main, then run it with 2, 0 and 4 workers, up to what is not right."""
    folder, shift = Path(tempfile.mkdtemp()), count(1)
    expected, before = _write(folder, 0), contents(folder)
    threads = threading.active_count()
    dataset = made(answer, folder, call=f"{answer.__name__}(folder)", within=_LONG)
    first = _tensor(made(lambda: dataset[0], call="dataset[0]", within=_LONG))
    started = threading.active_count() > threads
    if (length := made(lambda: len(dataset), call="len(dataset)", within=_LONG)) != _PAIRS:
        not_yet("other-length", pairs=_PAIRS, length=length)
    if not torch.equal(first, expected[0]):
        not_yet("wrong-first")
    _only_reads("in main", changed(before, folder))
    reads, runs = _Reads(), []
    for workers, epochs in _RUNS:
        came: list[bool] = []  # whether each pair is right
        changes: set[str] = set()

        def collect(
            loader: DataLoader[Any], came: list[bool] = came, changes: set[str] = changes
        ) -> None:
            held, numbers = _write(folder, next(shift)), iter(_ORDER)
            before = contents(folder)
            try:
                for batch in loader:
                    pairs = zip(_tensor(batch), numbers, strict=False)
                    came.extend(torch.equal(pair, held[number]) for pair, number in pairs)
            finally:
                changes.update(changed(before, folder))

        run = run_loader(
            dataset,
            collect,
            workers=workers,
            within=_LONG,
            epochs=epochs,
            batch_size=4,
            sampler=_ORDER,
            persistent_workers=workers > 0 and epochs > 1,
        )
        wrong = came.count(False)
        left = tuple(sorted(changes))
        runs.append(Epochs(workers, run, len(came), wrong, left, *reads.taken(), started))
        if run.end != "finished" or wrong or left or runs[-1].apart:
            break
    return tuple(runs)


def _tensor(delivered: Any) -> torch.Tensor:
    try:
        return torch.as_tensor(delivered).long()
    except (TypeError, ValueError, RuntimeError):
        not_yet("other-sample", kind=type(delivered).__name__)


def _write(folder: Path, shift: int) -> torch.Tensor:
    # Replaces all files, with other bytes for each shift; what they hold now, as pairs.
    held = (torch.arange(_PAIRS * 10) + shift).reshape(-1, 2, 5)
    for number, pair in enumerate(held.tolist()):
        for kind, content in zip(("image", "mask"), pair, strict=True):
            (folder / "new").write_bytes(bytes(content))
            (folder / "new").replace(folder / f"scan-{number:02}.{kind}")
    return held


class _Reads:
    """Holds up, in forked workers, the first file of a pair until the second is opened as well.

    Python tells an audit hook of every file that it opens. A hook cannot be taken back: this
    process ends with its check.
    """

    def __init__(self) -> None:
        self._notes = Path(tempfile.mkdtemp()) / "notes"  # one line for each pair, from all workers
        self._main = os.getpid()
        self._waiting: dict[str, tuple[str, threading.Event]] = {}
        self._first: set[int | None] = set()  # this worker's threads at its first pair
        self._readers: dict[int, threading.Thread] = {}
        self._apart = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or os.getpid() == self._main or self._apart:
            return
        pair, _, kind = os.path.basename(str(arguments[0])).rpartition(".")
        if kind not in ("image", "mask"):
            return
        self._readers[threading.get_native_id()] = threading.current_thread()
        mine = kind, threading.Event()
        first = self._waiting.setdefault(pair, mine)
        if first is mine:
            self._apart = not mine[1].wait(_APART)
            del self._waiting[pair]
            self._first = self._first or {thread.native_id for thread in threading.enumerate()}
            more = len(self._readers.keys() - self._first)
            ended = sum(not thread.is_alive() for thread in self._readers.values())
            with self._notes.open("a") as notes:
                notes.write(f"{os.getpid()} {self._apart:d} {more} {ended}\n")
        elif first[0] != kind:
            first[1].set()

    def taken(self) -> tuple[int, int, int, int]:
        """What was noted since the last call: `opened`, `apart`, `more` and `ended` of Epochs."""
        text = self._notes.read_text() if self._notes.exists() else ""
        self._notes.unlink(missing_ok=True)
        lines = [tuple(map(int, line.split())) for line in text.splitlines()]
        last = {pid: counts for pid, _, *counts in lines}  # of each worker
        more, ended = (sum(counts[i] for counts in last.values()) for i in (0, 1))
        return len(lines), sum(line[1] for line in lines), more, ended


def judge(runs: tuple[Epochs, ...]) -> Result:
    """Correct if every pair came, and its two files were opened at the same time."""
    for epochs in runs:
        run, there = epochs.run, where(epochs.workers)
        _only_reads(there, epochs.changed)
        timed_out = run.raised_in_worker == "TimeoutError"
        if timed_out or run.end == "hung":
            _why_it_hangs(epochs, there)
        ended_well(run, there)
        if epochs.wrong:
            not_yet("wrong-pairs", where=there, wrong=epochs.wrong, samples=epochs.samples)
        if epochs.workers:
            _how_it_reads(epochs, there)
    return correct(pairs=_PAIRS)


def _only_reads(there: str, files: Sequence[str]) -> None:
    if files:
        not_yet("changed-files", where=there, file=files[0], files=len(files))


def _why_it_hangs(epochs: Epochs, there: str) -> None:
    run, how = epochs.run, {"where": there, "seconds": f"{epochs.run.deadline:g}"}
    if run.end == "hung" and epochs.samples == _PAIRS * dict(_RUNS)[epochs.workers]:
        not_yet("never-ends", **how)
    code = "timed-out" if run.error else "waits"
    more = "-main-started" if epochs.main_started else ""
    not_yet(f"{code}{more}", error=run.error, stood=run.stood, **how)


def _how_it_reads(epochs: Epochs, there: str) -> None:
    if epochs.more > epochs.samples // 2 or (epochs.more and epochs.ended):
        not_yet("more-threads", where=there, more=epochs.more, samples=epochs.samples)
    if not epochs.opened:
        not_yet("opened-none", where=there)
    if epochs.apart:
        not_yet("one-after-the-other", where=there, seconds=f"{_APART:g}")


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_class, starter=Pairs),
    at_most=6 * _LONG + 4,
)
