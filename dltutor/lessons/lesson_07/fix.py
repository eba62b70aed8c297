"""Grade "07.fix": pairs of files, opened at the same time, by threads that each process has.

Main makes the dataset and takes a sample, as people do. Then come two epochs with 2 workers that
are kept, two with 0, and one with 4, in another order than that of the files, which are new in
each. Whoever opens one file of a pair in a worker is held up until the other one is opened too.
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
        not_yet(f"the folder holds {_PAIRS} pairs, and `len(dataset)` is {length}.")
    if not torch.equal(first, expected[0]):
        not_yet("in main, `dataset[0]` is not the bytes of the first image and of its mask.")
    _only_reads("In main", changed(before, folder))
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
        not_yet(
            f"a `{type(delivered).__name__}` comes. A sample is one tensor, the bytes of the image "
            "and of the mask, as in the starter."
        )


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
        run, lead = epochs.run, where(epochs.workers)
        _only_reads(lead, epochs.changed)
        timed_out = run.raised_in_worker == "TimeoutError"
        if timed_out or run.end == "hung":
            _why_it_hangs(epochs, lead)
        ended_well(run, lead)
        if epochs.wrong:
            not_yet(
                f"{lead}, {epochs.wrong} of {epochs.samples} pairs are not what the files held "
                "when they were asked for. When did your class open and read them?"
            )
        if epochs.workers:
            _how_it_reads(epochs, lead)
    return correct(
        f"{_PAIRS} of {_PAIRS} pairs arrive in every epoch, with 2 workers, with 0 and with 4, "
        "after main had used the dataset too. In the workers, both files of a pair are opened "
        "at the same time, and each worker starts its threads once."
    )


def _only_reads(lead: str, files: Sequence[str]) -> None:
    if files:
        not_yet(
            f"{lead}, `{files[0]}` was changed, added or removed in the folder, one of "
            f"{len(files)} such files. A dataset only reads."
        )


def _why_it_hangs(epochs: Epochs, lead: str) -> None:
    run = epochs.run
    what = run.error or f"the run was stopped after {run.deadline:g} s"
    if run.end == "hung" and epochs.samples == _PAIRS * dict(_RUNS)[epochs.workers]:
        not_yet(
            f"{lead}, {what}: all pairs came, and then its workers did not end. A process ends "
            "when its threads have ended. Who tells yours that there is no more work?"
        )
    main = " Main had started a thread before, and no worker has that." * epochs.main_started
    not_yet(
        f"{lead}, {what}{'' if run.error else '. '}{run.stood}{main} Who works for what they wait "
        "for, and how can a worker tell in which process that was started?"
    )


def _how_it_reads(epochs: Epochs, lead: str) -> None:
    if epochs.more > epochs.samples // 2 or (epochs.more and epochs.ended):
        not_yet(
            f"{lead}, {epochs.more} reading threads were started after a worker's first pair, for "
            f"{epochs.samples} pairs in all. Once in each process is enough. What would a worker "
            "have to remember?"
        )
    if not epochs.opened:
        not_yet(
            f"{lead}, Python opened none of their files in a worker. The check sees nothing else: "
            "open them with Python, when a pair is asked for."
        )
    if epochs.apart:
        not_yet(
            f"{lead}, image and mask are opened one after the other: the first was held up for "
            f"{_APART:g} s, and Python did not open the second. Who could open it meanwhile?"
        )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(
        a_fixed_class,
        starter=Pairs,
        without_workers="Without workers there is no fork: what does a fork leave behind?",
    ),
    runs="uses your class in main, then runs epochs with 2, 0 and 4 workers on fresh files",
    at_most=6 * _LONG + 4,
)
