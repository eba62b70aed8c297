"""Grade "07.fix": pairs of files, read at the same time, by threads that each process has.

Main makes the dataset and looks at one sample, as people do. Then it is run with 2 workers for two
epochs, with 0 and with 4. Whether two reads overlap is tried: whoever opens one file of a pair is
held up until the other one is opened too, or until that takes too long.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from dltutor.failures.lost_thread import Pairs
from dltutor.lessons.kit.endings import Ending, ended_well, ending
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class
from dltutor.lessons.kit.outcomes import Result, correct, not_yet
from dltutor.lessons.kit.running import made, theirs
from dltutor.lessons.lesson_07.material import Tally
from dltutor.observation import observe
from dltutor.observation.time_limits import DeadlinePassed, deadline

_PAIRS: Final = 14
_SIZE: Final = 5  # bytes of a file
_EPOCHS: Final = 2
_LONG: Final = 6  # seconds for each thing that the answer does
_APART: Final = 2.0  # seconds that the first file of a pair waits for the second
_PICKLED: Final = ("__getstate__", "__reduce__", "__setstate__")
_OF_QUEUES: Final = ("multiprocessing.queues", "multiprocessing.resource_sharer")


@dataclass(frozen=True)
class Epochs:
    """What an answer delivered with some workers.

    Args:
        workers: How many.
        run: How it ended.
        samples: How many came.
        wrong: How many of them are not what the files hold.
        threads: How many threads the workers started.
        opened: How many pairs were opened in the workers.
        apart: In how many of these the second file was not opened while the first was being read.
    """

    workers: int
    run: Ending
    samples: int
    wrong: int
    threads: int
    opened: int
    apart: int


@dataclass(frozen=True)
class Evidence:
    """What is known of an answer.

    Args:
        runs: With 2 workers, with 0, with 4; up to the first that is not right.
        pickling: The method that says how it is pickled, or "".
        fine_untouched: Whether it finishes where main did not use it before; None if not tried.
    """

    runs: tuple[Epochs, ...]
    pickling: str
    fine_untouched: bool | None = None


def look(answer: Any) -> type:
    """The answer, if it is a dataset's class that is no longer the starter."""
    return a_fixed_class(
        answer,
        Pairs,
        without_workers="Without workers there is no fork: what does a fork leave behind?",
    )


def gather(answer: type) -> Evidence:
    """Use the class in main, then run it with 2, 0 and 4 workers."""
    folder, expected = _fresh_pairs()
    dataset = _make_and_touch(answer, folder, expected)
    reads, threads = _Reads(), _threads_counted()
    runs: list[Epochs] = []
    for workers, epochs in ((2, _EPOCHS), (0, 1), (4, 1)):
        runs.append(_run(dataset, workers, epochs, expected, threads, reads))
        if runs[-1].run.end != "finished" or runs[-1].wrong:
            break
    pickling = next((name for name in _PICKLED if name in vars(answer)), "")
    fine = None
    if runs[-1].run.end == "hung" and runs[-1].samples % _PAIRS == 0:
        untouched = made(answer, folder, call=f"{answer.__name__}(folder)", within=_LONG)
        fine = _run(untouched, 2, 1, expected, threads, reads).run.end == "finished"
    return Evidence(tuple(runs), pickling, fine)


def _fresh_pairs() -> tuple[Path, torch.Tensor]:
    # What the files hold: (pair, image or mask, byte).
    folder = Path(tempfile.mkdtemp())
    contents = torch.arange(_PAIRS * 2 * _SIZE).reshape(_PAIRS, 2, _SIZE) * 7 % 251
    for number, (image, mask) in enumerate(contents):
        (folder / f"scan-{number:02}.image").write_bytes(bytes(image.tolist()))
        (folder / f"scan-{number:02}.mask").write_bytes(bytes(mask.tolist()))
    return folder, contents


def _make_and_touch(answer: type, folder: Path, expected: torch.Tensor) -> Any:
    dataset = made(answer, folder, call=f"{answer.__name__}(folder)", within=_LONG)
    try:
        with theirs(), deadline(_LONG):
            length, first = len(dataset), torch.as_tensor(dataset[0])
    except DeadlinePassed:
        not_yet(
            f"in main, without any worker, `dataset[0]` did not come within {_LONG} s. What does "
            "it wait for?"
        )
    if length != _PAIRS:
        not_yet(f"the folder holds {_PAIRS} pairs, and `len(dataset)` is {length}.")
    if not torch.equal(first, expected[0]):
        not_yet(
            "in main, `dataset[0]` is not the bytes of the first image and of its mask. Which "
            "files does it read?"
        )
    return dataset


def _run(
    dataset: Any,
    workers: int,
    epochs: int,
    expected: torch.Tensor,
    threads: Tally,
    reads: _Reads,
) -> Epochs:
    got: list[torch.Tensor] = []

    def collect(loader: DataLoader[Any]) -> None:
        for batch in loader:
            got.extend(torch.as_tensor(batch).clone())

    with theirs():
        loader = DataLoader(
            dataset,
            batch_size=4,
            num_workers=workers,
            # An answer is typed into a notebook, so its workers have to be forked.
            multiprocessing_context="fork" if workers else None,
        )
    before = threads.total, reads.opened.total, reads.apart.total
    run = ending(observe(loader, deadline=_LONG, consume=collect, epochs=epochs))
    after = threads.total, reads.opened.total, reads.apart.total
    wrong = sum(not torch.equal(pair, expected[i % _PAIRS]) for i, pair in enumerate(got))
    counted = (one - other for one, other in zip(after, before, strict=True))
    return Epochs(workers, run, len(got), wrong, *counted)


class _Reads:
    """Holds up, in forked workers, the first file of a pair until the second is opened as well.

    Python tells an audit hook of every file that is opened, whatever opens it. A hook cannot be
    taken back: this process ends with its check.
    """

    def __init__(self) -> None:
        self.opened = Tally()
        self.apart = Tally()
        self._main = os.getpid()
        self._both: dict[tuple[int, str], threading.Event] = {}
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or os.getpid() == self._main:
            return
        path = os.fsdecode(arguments[0]) if isinstance(arguments[0], (str, bytes)) else ""
        pair, _, kind = path.rpartition(".")
        if kind not in ("image", "mask") or self.apart.total:
            return
        waiting = self._both.pop((os.getpid(), pair), None)
        if waiting is not None:
            waiting.set()
            return
        both = self._both[os.getpid(), pair] = threading.Event()
        self.opened.add()
        if not both.wait(_APART):
            self._both.pop((os.getpid(), pair), None)
            self.apart.add()


def _threads_counted() -> Tally:
    # Counts the threads that forked workers start, but for those of Python's own queues.
    started = Tally()
    start = threading.Thread.start

    def count(self: threading.Thread) -> None:
        target = getattr(self, "_target", None)
        if getattr(target, "__module__", None) not in _OF_QUEUES:
            started.add()
        start(self)

    threading.Thread.start = count  # type: ignore[method-assign]  # the workers copy it
    return started


def judge(evidence: Evidence) -> Result:
    """Correct if every pair came, and its two files were read at the same time."""
    for epochs in evidence.runs:
        where = f"with {epochs.workers} workers"
        if epochs.run.end == "hung":
            _why_it_hangs(evidence, epochs, where)
        if epochs.run.raised_in_worker == "TimeoutError":
            not_yet(
                f"after {epochs.samples} pairs, `TimeoutError` in W{epochs.run.failed_worker}: the "
                "wait has an end now, and what it waits for still does not come. Who should bring "
                "it?"
            )
        ended_well(epochs.run, "" if epochs.workers == 2 else where)
        if epochs.wrong:
            not_yet(
                f"{where}, {epochs.wrong} of {epochs.samples} pairs are not what the files hold. "
                "Where does what the file does not hold come from, and who will notice it in "
                "training?"
            )
        if epochs.workers:
            _how_it_reads(epochs, where)
    return correct(
        f"{_PAIRS} of {_PAIRS} pairs arrive in {_EPOCHS} epochs with 2 workers, and with 0 and 4, "
        "after main had used the dataset too. The two files of a pair are read at the same time, "
        f"and {evidence.runs[0].samples} pairs took {evidence.runs[0].threads} threads."
    )


def _why_it_hangs(evidence: Evidence, epochs: Epochs, where: str) -> None:
    run = epochs.run
    if epochs.samples and epochs.samples % _PAIRS == 0:
        not_yet(
            f"{where}, all pairs of an epoch came, and then its workers did not end: stopped after "
            f"{run.deadline:g} s. A process ends when its threads have ended. Who tells yours that "
            "there is no more work, or that nobody has to wait for it?"
        )
    stood = f"{where}, the epoch was stopped after {run.deadline:g} s. {run.stood}"
    if evidence.pickling:
        not_yet(
            f"{stood} `{evidence.pickling}` was not called: fork copies memory and pickles nothing."
            " Who works for what they wait for, and where was it started?"
        )
    if evidence.fine_untouched:
        not_yet(
            f"{stood} Without main's `dataset[0]` before, the same class finishes. So the thread "
            "is made late, once, by whoever asks first, and here main did. How can a worker tell "
            "that the executor it finds was made by another process?"
        )
    not_yet(f"{stood} Who works for what they wait for, and in which process was it started?")


def _how_it_reads(epochs: Epochs, where: str) -> None:
    # A pool may start a few at once: only more and more of them are too many.
    if epochs.workers == 2 and epochs.threads >= epochs.samples:
        not_yet(
            f"all pairs come. For {epochs.samples} of them the workers started {epochs.threads} "
            "threads: at least one for each pair. Once in each process is enough. What would a "
            "worker have to remember?"
        )
    if not epochs.opened:
        not_yet(
            f"{where}, all pairs come, and no worker opened any of their files. They were read "
            "before, all of them: that works for as long as all scans fit into memory. Read a pair "
            "when it is asked for."
        )
    if epochs.apart:
        started = "No worker started a thread." if not epochs.threads else "There is a thread."
        not_yet(
            f"{where}, all pairs come, and image and mask are read one after the other: the first "
            f"was held up for {_APART:g} s, and nobody opened the second. {started} That ends the "
            "hang by giving up what the class was for. Begin both before you wait for either."
        )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=look,
    runs="uses your class in main, then runs epochs with 2, 0 and 4 workers on fresh files",
    at_most=6 * _LONG + 12,
)
