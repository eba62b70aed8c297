"""Grade "07.fix": pairs of files, read at the same time, by threads that each process has.

Main makes the dataset and takes a sample, as people do. Then it is run with 2 workers for two
epochs, with 0 and with 4. In a worker, whoever opens one file of a pair is held up until the other
one is opened too: so it is known whether two reads overlap, whatever reads them.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from dltutor.failures.lost_thread import Pairs
from dltutor.lessons.kit.endings import Ending, ended_well, run_loader, where
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class
from dltutor.lessons.kit.outcomes import Result, correct, not_yet
from dltutor.lessons.kit.running import made

_PAIRS: Final = 14
_LONG: Final = 6  # seconds for each thing that the answer does
_APART: Final = 2.0  # seconds that the first file of a pair waits for the second


@dataclass(frozen=True)
class Epochs:
    """What an answer delivered with some workers.

    Args:
        workers: How many.
        run: How it ended.
        samples: How many came.
        wrong: How many of them are not what the files hold.
        opened: How many pairs were opened in the workers, as far as Python was told of it.
        apart: In how many of these the second file was not opened while the first was being read.
        more: How many threads read, and were started after their worker's first pair.
        main_started: The call that started a thread in main before there were workers, or "".
    """

    workers: int
    run: Ending
    samples: int
    wrong: int = 0
    opened: int = 0
    apart: int = 0
    more: int = 0
    main_started: str = ""


def gather(answer: type) -> tuple[Epochs, ...]:
    """Use the class in main, then run it with 2, 0 and 4 workers, up to what is not right."""
    folder, expected = Path(tempfile.mkdtemp()), torch.arange(_PAIRS * 10).reshape(-1, 2, 5)
    for number, (image, mask) in enumerate(expected):
        (folder / f"scan-{number:02}.image").write_bytes(bytes(image.tolist()))
        (folder / f"scan-{number:02}.mask").write_bytes(bytes(mask.tolist()))
    threads = [threading.active_count()]
    dataset = made(answer, folder, call=f"{answer.__name__}(folder)", within=_LONG)
    threads.append(threading.active_count())
    first = made(lambda: torch.as_tensor(dataset[0]).long(), call="dataset[0]", within=_LONG)
    threads.append(threading.active_count())
    if (length := made(lambda: len(dataset), call="len(dataset)", within=_LONG)) != _PAIRS:
        not_yet(f"the folder holds {_PAIRS} pairs, and `len(dataset)` is {length}.")
    if not torch.equal(first, expected[0]):
        not_yet("in main, `dataset[0]` is not the bytes of the first image and of its mask.")
    calls = zip(("__init__", "dataset[0]"), threads, threads[1:], strict=False)
    started = next((call for call, before, after in calls if after > before), "")
    reads, runs = _Reads(), []
    for workers, epochs in ((2, 2), (0, 1), (4, 1)):
        got: list[torch.Tensor] = []

        def collect(loader: DataLoader[Any], got: list[torch.Tensor] = got) -> None:
            for batch in loader:
                got.extend(torch.as_tensor(batch).long().clone())

        run = run_loader(
            dataset, collect, workers=workers, within=_LONG, epochs=epochs, batch_size=4
        )
        wrong = sum(not torch.equal(pair, expected[i % _PAIRS]) for i, pair in enumerate(got))
        runs.append(Epochs(workers, run, len(got), wrong, *reads.taken(), started))
        if run.end != "finished" or wrong or runs[-1].apart:
            break
    return tuple(runs)


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
        self._more: set[int] = set()  # others, that have opened a file
        self._apart = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or os.getpid() == self._main or self._apart:
            return
        pair, _, kind = os.path.basename(str(arguments[0])).rpartition(".")
        if kind not in ("image", "mask"):
            return
        if self._first and (reader := threading.get_native_id()) not in self._first:
            self._more.add(reader)
        mine = kind, threading.Event()
        first = self._waiting.setdefault(pair, mine)
        if first is mine:
            self._apart = not mine[1].wait(_APART)
            del self._waiting[pair]
            self._first = self._first or {thread.native_id for thread in threading.enumerate()}
            with self._notes.open("a") as notes:
                notes.write(f"{os.getpid()} {self._apart:d} {len(self._more)}\n")
        elif first[0] != kind:
            first[1].set()

    def taken(self) -> tuple[int, int, int]:
        """What was noted since the last call: pairs opened, read apart, more threads."""
        text = self._notes.read_text() if self._notes.exists() else ""
        self._notes.unlink(missing_ok=True)
        lines = [tuple(map(int, line.split())) for line in text.splitlines()]
        more = {pid: number for pid, _, number in lines}
        return len(lines), sum(apart for _, apart, _ in lines), sum(more.values())


def judge(runs: tuple[Epochs, ...]) -> Result:
    """Correct if every pair came, and its two files were read at the same time."""
    for epochs in runs:
        lead = where(epochs.workers)
        if epochs.run.end == "hung":
            _why_it_hangs(epochs, lead)
        if epochs.run.raised_in_worker == "TimeoutError":
            not_yet(
                f"{lead}: {epochs.run.error} The wait has an end now, and what it waits for still "
                "does not come. Who should bring it?"
            )
        ended_well(epochs.run, lead)
        if epochs.wrong:
            not_yet(
                f"{lead}, {epochs.wrong} of {epochs.samples} pairs are not what was in the files. "
                "Who will notice it in training?"
            )
        if epochs.workers:
            _how_it_reads(epochs, lead)
    return correct(
        f"{_PAIRS} of {_PAIRS} pairs arrive in every epoch, with 2 workers, with 0 and with 4, "
        "after main had used the dataset too. In the workers, both files of a pair are open "
        "at the same time, and no thread is started for each pair."
    )


def _why_it_hangs(epochs: Epochs, lead: str) -> None:
    lead += f", the run was stopped after {epochs.run.deadline:g} s"
    if epochs.samples and epochs.samples % _PAIRS == 0:
        not_yet(
            f"{lead}: all pairs of an epoch came, and then its workers did not end. A process ends "
            "when its threads have ended. Who tells yours that there is no more work?"
        )
    started = f" Main had started a thread in `{epochs.main_started}`, before the fork."
    not_yet(
        f"{lead}. {epochs.run.stood}{started if epochs.main_started else ''} Who works for what "
        "they wait for, and how can a worker tell in which process that was started?"
    )


def _how_it_reads(epochs: Epochs, lead: str) -> None:
    if epochs.more > epochs.samples // 2:
        not_yet(
            f"all pairs come. {lead[:1].upper()}{lead[1:]}, {epochs.more} reading threads were "
            f"started after a worker's first pair, for {epochs.samples} pairs in all. Once in each "
            "process is enough. What would a worker have to remember?"
        )
    if not epochs.opened:
        not_yet(
            f"{lead}, all pairs come, and Python opened none of their files in a worker. "
            "Let the worker read a pair, when it is asked for."
        )
    if epochs.apart:
        not_yet(
            f"{lead}, all pairs come, and image and mask are read one after the other: the first "
            f"was held up for {_APART:g} s, and nobody opened the second. That ends the hang by "
            "giving up what the class was for. Begin both before you wait for either."
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
