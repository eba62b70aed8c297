"""Grade "07.fix", where threads should open the two files of a pair at the same time.

Main makes the dataset and takes a sample, as programs often do. Then the check runs two epochs with
2 persistent workers, two without workers, and one with 4. Each epoch has new files, in mixed order.
In a worker, the thread that opens a pair's first file waits up to 2 s for another thread
to open the second file.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from dltutor.failures.lost_thread import Pairs
from dltutor.lessons.engine.endings import Ending, check_ending, run_loader, where
from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.forms import a_fixed_class
from dltutor.lessons.engine.outcomes import correct, not_yet
from dltutor.lessons.engine.running import made

_PAIRS: Final = 14
_ORDER: Final = [(3 * place + 5) % _PAIRS for place in range(_PAIRS)]
_RUNS: Final = {2: 2, 0: 2, 4: 1}  # the number of epochs for each number of workers
_LONG: Final = 6  # time limit in seconds for each call or run
_APART: Final = 2.0  # the most seconds that the thread with a pair's first file waits


@dataclass(frozen=True)
class Epochs:
    """A record of what an answer delivered with a given number of workers.

    Args:
        workers: Number of workers.
        run: How the run ended.
        samples: How many samples arrived.
        wrong: How many samples differ from the files' contents in that epoch.
        apart: A number above 0 if a worker opened a pair's files one after the other. Otherwise 0.
        threads: How many threads opened files in one worker: the one whose threads outnumber its
            pairs the most.
        pairs: How many pairs the same worker read.
        main_started: Whether main started a thread before it had workers.
    """

    workers: int
    run: Ending
    samples: int
    wrong: int = 0
    apart: int = 0
    threads: int = 0
    pairs: int = 0
    main_started: bool = False


def run(answer: type) -> Iterator[Epochs]:
    """Use the class in main, then yield a record of its epochs with 2, 0, and 4 workers."""
    folder, shift = Path(tempfile.mkdtemp()), count(1)
    expected = _write(folder, 0)
    threads = threading.active_count()
    dataset = made(answer, folder, call=f"{answer.__name__}(folder)", within=_LONG)
    first = _tensor(made(lambda: dataset[0], call="dataset[0]", within=_LONG))
    started = threading.active_count() > threads
    if (length := made(lambda: len(dataset), call="len(dataset)", within=_LONG)) != _PAIRS:
        not_yet("other-length", pairs=_PAIRS, length=length)
    if not torch.equal(first, expected[0]):
        not_yet("wrong-first")
    reads, came = _Reads(), list[bool]()

    def collect(loader: DataLoader[Any]) -> None:
        held, numbers = _write(folder, next(shift)), iter(_ORDER)
        for batch in loader:
            pairs = zip(_tensor(batch), numbers, strict=False)
            came.extend(torch.equal(pair, held[number]) for pair, number in pairs)

    for workers, epochs in _RUNS.items():
        came.clear()
        run = run_loader(
            dataset,
            collect,
            workers=workers,
            within=_LONG,
            epochs=epochs,
            batch_size=4,
            sampler=_ORDER,
        )
        yield Epochs(workers, run, len(came), came.count(False), *reads.taken(), started)


def _tensor(delivered: Any) -> torch.Tensor:
    try:
        return torch.as_tensor(delivered).long()
    except (TypeError, ValueError, RuntimeError):
        not_yet("other-sample", kind=type(delivered).__name__)


def _write(folder: Path, shift: int) -> torch.Tensor:
    # Replace all files, with different bytes for each shift, and return the contents as pairs.
    held = (torch.arange(_PAIRS * 10) + shift).reshape(-1, 2, 5)
    for number, pair in enumerate(held.tolist()):
        for kind, content in zip(("image", "mask"), pair, strict=True):
            (folder / "new").write_bytes(bytes(content))
            (folder / "new").replace(folder / f"scan-{number:02}.{kind}")
    return held


class _Reads:
    """An audit hook that notes in a file whether a worker opens a pair's two files together.

    Python calls the hook before it opens a file. In a worker, the hook makes the thread that opens
    a pair's first file wait for another thread to open the second. In main, the hook has no effect.
    Python can't remove a hook, but this process ends when the check does.
    """

    def __init__(self) -> None:
        # A line for each pair that a worker opens, up to the first pair whose files it opens one
        # after the other.
        self._notes = Path(tempfile.mkdtemp()) / "notes"
        self._main = os.getpid()
        self._waiting: dict[str, tuple[str, threading.Event]] = {}
        self._readers: set[threading.Thread] = set()  # the worker's threads that opened files
        self._apart = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or os.getpid() == self._main or self._apart:
            return
        pair, _, kind = os.path.basename(str(arguments[0])).rpartition(".")
        if kind not in ("image", "mask"):
            return
        self._readers.add(threading.current_thread())
        mine = kind, threading.Event()
        first = self._waiting.setdefault(pair, mine)
        if first is mine:
            self._apart = not mine[1].wait(_APART)
            del self._waiting[pair]
            with self._notes.open("a") as notes:
                notes.write(f"{os.getpid()} {self._apart:d} {len(self._readers)}\n")
        elif first[0] != kind:
            first[1].set()

    def taken(self) -> tuple[int, int, int]:
        """Return `apart`, `threads`, and `pairs` for Epochs, counted since the last call."""
        text = self._notes.read_text() if self._notes.exists() else ""
        self._notes.unlink(missing_ok=True)
        lines = [tuple(map(int, line.split())) for line in text.splitlines()]
        pairs = Counter(pid for pid, *_ in lines)
        readers = ((threads, pairs[pid]) for pid, _, threads in lines)
        most = max(readers, key=lambda each: each[0] - each[1], default=(0, 0))
        return sum(apart for _, apart, _ in lines), *most


def judge(epochs: Epochs) -> None:
    """Raise `Rejected` unless the run finished, each pair arrived, and each one is right.

    Workers must open a pair's two files together. In runs of several epochs, no worker may have
    more threads than pairs.
    """
    run, there = epochs.run, where(epochs.workers)
    if run.end == "hung" or run.raised_in_worker == "TimeoutError":
        _reject_hang(epochs, there)
    check_ending(run, there)
    if epochs.samples < (pairs := _PAIRS * _RUNS[epochs.workers]):
        not_yet("lost-pairs", where=there, samples=epochs.samples, pairs=pairs)
    if epochs.wrong:
        not_yet("wrong-pairs", where=there, wrong=epochs.wrong, samples=epochs.samples)
    # In a single epoch, a worker may read so few pairs that it rightly has more threads, so compare
    # the two only in longer runs.
    if epochs.threads > epochs.pairs and _RUNS[epochs.workers] > 1:
        not_yet("more-threads", where=there, threads=epochs.threads, pairs=epochs.pairs)
    if epochs.apart:
        not_yet("one-after-the-other", where=there, seconds=f"{_APART:g}")


def _reject_hang(epochs: Epochs, there: str) -> None:
    run, how = epochs.run, {"where": there, "seconds": f"{epochs.run.deadline:g}"}
    if run.end == "hung" and epochs.samples == _PAIRS * _RUNS[epochs.workers]:
        not_yet("never-ends", **how)
    if run.error:
        code = "timed-out-main-started" if epochs.main_started else "timed-out"
    else:
        code = "waits-main-started" if epochs.main_started else "waits"
    not_yet(code, error=run.error, stood=run.stood, **how)


GRADER: Final = by_runs(
    run,
    judge,
    result=lambda _: correct(pairs=_PAIRS),
    look=partial(a_fixed_class, starter=Pairs),
    at_most=6 * _LONG + 4,
)
