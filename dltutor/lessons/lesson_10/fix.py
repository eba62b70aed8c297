"""Grade "10.fix": a dataset whose workers do not fill up, run for epochs over fresh recordings."""

from __future__ import annotations

import gc
import multiprocessing
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from torch.utils.data import DataLoader

from dltutor.display.stack import MB
from dltutor.failures.growing_cache import CachedRecordings
from dltutor.lessons.kit.endings import Ending, ended_well, run_loader, where
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class
from dltutor.lessons.kit.outcomes import Result, correct, not_yet
from dltutor.lessons.kit.running import made
from dltutor.system import processes

EPOCHS: Final = 3
LIMIT: Final = 24  # MB that anything may grow by
_RECORDINGS: Final = 64
_LENGTH: Final = 300_000  # numbers in each
_EACH: Final = _LENGTH * 4 / MB  # MB of one in memory
_MAKING, _WITHIN, _BRIEFLY = 8, 20, 6  # seconds for the dataset, three epochs, one epoch
_READ_EVERY: Final = 4  # batches


@dataclass(frozen=True)
class Ran:
    """What a dataset did in its runs.

    Args:
        ends: Of each run, by its number of workers.
        epochs: What each epoch of each run brought, likewise.
        expected: The right samples, in the order of the files.
        grew: "worker", "main", "others" or "files" -> by how many MB, in the run with two workers.
    """

    ends: dict[int, Ending]
    epochs: dict[int, list[list[float]]]
    expected: list[float]
    grew: dict[str, float]


def gather(answer: Any) -> Ran:
    """Three epochs by two workers, and one by none and by four, over other recordings."""
    folder, random = tempfile.mkdtemp(), np.random.default_rng(10)
    numbers = random.integers(-400, 400, _LENGTH, dtype=np.int16)
    paths = tuple(str(Path(folder, f"{number:03}.npy")) for number in range(_RECORDINGS))
    for loudness, path in enumerate(paths, start=1):
        np.save(path, loudness * numbers)
    expected = [float(np.abs(np.load(path).astype(np.float32)).mean()) for path in paths]
    growth, ends, brought = _Growth(), dict[int, Ending](), dict[int, list[list[float]]]()
    dataset = made(answer, paths, call=f"{answer.__name__}(paths)", within=_MAKING)
    growth.begin()
    for workers in (2, 0, 4):
        brought[workers] = []
        ends[workers] = run_loader(
            dataset,
            partial(_epoch, brought[workers], growth if workers == 2 else None),
            workers=workers,
            within=_WITHIN if workers == 2 else _BRIEFLY,
            epochs=EPOCHS if workers == 2 else 1,
            batch_size=4,
            shuffle=True,
            persistent_workers=workers > 0,
        )
        if ends[workers].end != "finished" or max(growth.most.values()) > LIMIT:
            break
    return Ran(ends, brought, expected, growth.most)


def _epoch(brought: list[list[float]], growth: _Growth | None, loader: DataLoader[Any]) -> None:
    brought.append([])
    for number, batch in enumerate(loader):
        if getattr(batch, "ndim", 0) != 1:
            raise TypeError("a sample must stay what it was: a tensor with one number")
        brought[-1].extend(batch.tolist())
        if growth and number % _READ_EVERY == 0:
            growth.read()


class _Growth:
    """By how many MB workers, main, other processes and files in `/dev/shm` grow from now on."""

    def __init__(self) -> None:
        gc.collect()
        gc.freeze()  # a later collection would copy what main shares with the kernel
        self.files: set[int] = set(_files())
        self.others: set[int | None] = set()
        self.first = self._sizes()
        self.most: dict[str, float] = {}

    def begin(self) -> None:
        """The dataset is made: what this process starts from now on is a worker."""
        self.others = {child.pid for child in multiprocessing.active_children()}
        self.read()

    def read(self) -> None:
        for what, size in self._sizes().items():
            grown = size - self.first.setdefault(what, size)
            self.most[what] = max(grown, self.most.get(what, 0.0))

    def _sizes(self) -> dict[str, float]:
        workers = {child.pid for child in multiprocessing.active_children()} - self.others
        files = _files()
        sizes = {
            "main": _held([os.getpid()]),
            "others": _held(processes.descendants(os.getpid()) - workers),
            "files": sum(files[inode] for inode in files.keys() - self.files),
        }
        return {"worker": _held(workers) / len(workers), **sizes} if workers else sizes


def _held(pids: Iterable[int | None]) -> float:
    # MB that processes have written and share with nobody; files that they map are left out.
    held = 0
    for pid in pids:
        with suppress(OSError):  # it has ended
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            held += sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty:"))
    return held * 1024 / MB


def _files() -> dict[int, float]:
    # Inode -> MB of what has a name in /dev/shm; torch's own come and go.
    sizes = {}
    for path in Path("/dev/shm").rglob("*"):
        with suppress(OSError):
            if path.is_file() and not path.name.startswith("torch_"):
                sizes[path.stat().st_ino] = path.stat().st_blocks * 512 / MB
    return sizes


_GREW: Final = {
    "main": "making your dataset took {mb} in main. That is fine where the archive fits into "
    "memory, since forked workers share it; this one does not.",
    "worker": "each worker grew by {mb} in three epochs, as much as {recordings} of the 64 "
    "recordings. Who still refers to a recording when its sample is done, and what bounds their "
    "number?",
    "others": "the workers stay small, and what else your code started grew by {mb}. The "
    "recordings have moved to another process. What bounds them there?",
    "files": "the workers stay small, and new files in `/dev/shm` take {mb}. What lies there lies "
    "in memory. What bounds it?",
}


def judge(ran: Ran) -> Result:
    """Correct if all samples came, from any number of workers, and nothing grew."""
    for workers, end in ran.ends.items():
        ended_well(end, where(workers), died="Which of your lines ends a process?")
        for came in ran.epochs[workers]:
            _every_sample_came(came, ran.expected, where(workers))
    for what, text in _GREW.items():
        mb = ran.grew[what]
        if mb > LIMIT:
            not_yet(text.format(mb=f"{mb:.0f} MB", recordings=f"{mb / _EACH:.0f}"))
    return correct(
        f"All {_RECORDINGS} samples are right in each of {EPOCHS} epochs with two workers, without "
        f"workers, and with four. No worker grew by more than {LIMIT} MB, and nothing else did."
    )


def _every_sample_came(came: list[float], expected: list[float], where: str) -> None:
    if len(came) != len(expected):
        not_yet(f"{where}, {len(came)} of {len(expected)} samples came in an epoch.")
    right = np.isclose(sorted(came), sorted(expected), rtol=1e-4)
    if not right.all():
        not_yet(
            f"{where}, {int((~right).sum())} of {len(expected)} samples are not the loudness of "
            "their recording. What does `load` return for each index?"
        )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_class, starter=CachedRecordings),
    runs=f"{EPOCHS} epochs of {_RECORDINGS} fresh recordings with two workers, one without and one "
    "with four",
    at_most=_MAKING + _WITHIN + 2 * _BRIEFLY + 4,
)
