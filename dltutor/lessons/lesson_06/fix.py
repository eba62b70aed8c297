"""Grade "06.fix": two datasets in one loader, each with its own file.

Once each worker has delivered a batch, the check renames the files. An open file can still be read,
but a class that opens the file again doesn't find it. The records are further apart than the buffer
of an open file, so `seek` and `read` move the position of the descriptor each time. After each call
into C, a forked worker looks at the positions of the descriptors that it inherited.
"""

from __future__ import annotations

import mmap
import os
import random
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils.data import ConcatDataset

from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.outcomes import Fault, Result, correct, not_yet, reject
from dltutor.lessons.engine.running import changed, contents, theirs
from dltutor.lessons.lesson_06 import travel
from dltutor.lessons.lesson_06.material import SIZE, MyRecords
from dltutor.observation.time_limits import deadline

_KIND: Final = f"torch.int64, ({SIZE},)"  # of a record
_RECORDS: Final = 60_000  # 480 KB; the buffer of an open file has 8 or, from Python 3.14, 128
_FIRST: Final = range(_RECORDS // 2, _RECORDS // 2 + 2000)  # what main reads: far from all below
_READ: Final = tuple(  # near one end of each file, then near the other
    start + index
    for near in range(16)
    for index in (near, _RECORDS - 1 - near)
    for start in (0, _RECORDS)
)


@dataclass(frozen=True)
class Epoch:
    """One with both datasets."""

    samples: travel.Epoch
    renamed: bool = False  # did it get as far as that?
    moved: bool = False  # did a worker move the position of main's file?


@dataclass(frozen=True)
class Evidence:
    """What is known of an answer."""

    length: int  # as `len` says it
    wrong: int = 0  # of what main reads first
    touched: str = ""  # files that are new, gone or no longer as they were
    problem: Fault | None = None  # why the dataset can't be pickled after that
    size: int = 0  # bytes of the pickle
    epochs: tuple[Epoch, ...] = ()  # up to the first that is not right


class _Files:
    """Two files of records, and what this process and its forks do with them."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp()) / "fresh"
        self.folder.mkdir()
        halves = [random.Random(seed).randbytes(_RECORDS * SIZE) for seed in (6, 7)]
        self.paths = [self.folder / name for name in ("one.bin", "two.bin")]
        for path, half in zip(self.paths, halves, strict=True):
            path.write_bytes(half)
        self.records = torch.tensor(list(b"".join(halves))).reshape(-1, SIZE)
        self.contents = contents(self.folder)
        self.stats = [os.stat(path) for path in self.paths]
        self.main, self.held = os.getpid(), list[int]()
        self.moved = mmap.mmap(-1, 1)  # shared with all forks

    def touched(self) -> str:
        """Which of them the answer changed or removed, and which files it added."""
        return ", ".join(f"`{name}`" for name in changed(self.contents, self.folder))

    def _hold(self) -> None:
        # A second descriptor of each that this process has of them: they share a position.
        while self.held:
            os.close(self.held.pop())
        for descriptor in map(int, os.listdir("/dev/fd")):
            with suppress(OSError):  # the one that listed them is closed again
                found = os.fstat(descriptor)
                if any(os.path.samestat(found, each) for each in self.stats):
                    self.held.append(os.dup(descriptor))

    def _positions(self) -> list[int]:
        return [os.lseek(descriptor, 0, os.SEEK_CUR) for descriptor in self.held]

    def epoch(self, datasets: list[Any], method: str, workers: int) -> Epoch:
        """Read from both; main has just pickled one, or reads from both before."""
        for dataset in datasets if workers else ():
            travel.read(dataset, _FIRST[:1], _KIND)  # all else is far from there
        self._hold()
        stood, elsewhere = self._positions(), self.folder.with_name("elsewhere")

        def look(_: object, event: str, __: object) -> None:
            if event == "c_return" and os.getpid() != self.main and self._positions() != stood:
                self.moved[0] = 1
                sys.setprofile(None)

        sys.setprofile(look)  # forked workers inherit it
        samples = travel.epoch(
            ConcatDataset(datasets),
            _READ,
            list(self.records[[*_READ]]),
            method,
            workers,
            lambda: self.folder.rename(elsewhere),
        )
        sys.setprofile(None)
        if renamed := elsewhere.exists():
            elsewhere.rename(self.folder)
        return Epoch(samples, renamed, workers > 0 and bool(self.moved[0]))


def gather(path: Path) -> Evidence:
    """Use the class in main, send it, then run it without workers, with forked and spawned ones."""
    with deadline(travel.IN_MAIN):
        answer, files = travel.class_in(path, "MyRecords"), _Files()
        with theirs():
            datasets = [answer(path, _RECORDS) for path in files.paths]
            evidence = Evidence(len(datasets[0]))
        judge(evidence)
        for dataset, records in zip(datasets, files.records.split(_RECORDS), strict=True):
            samples = travel.read(dataset, _FIRST, _KIND)
            wrong = evidence.wrong + travel.wrong_of(samples, list(records[[*_FIRST]]))
            evidence = replace(evidence, wrong=wrong)
        pickled, problem = travel.sent(datasets[0])
        evidence = replace(evidence, problem=problem, size=len(pickled), touched=files.touched())
    judge(evidence)
    for method, workers in (("fork", 0), ("fork", 2), ("fork", 4), ("spawn", 1)):
        epoch = files.epoch(datasets, method, workers)
        epochs, touched = (*evidence.epochs, epoch), files.touched()
        evidence = replace(evidence, epochs=epochs, touched=touched)
        judge(evidence)  # ends here where it is not right
    return evidence


def judge(evidence: Evidence) -> Result:
    """Correct if the records arrive everywhere, and no process opens a file for each of them."""
    if evidence.length != _RECORDS:
        not_yet("other-length", records=_RECORDS, length=evidence.length)
    if evidence.touched:
        not_yet("changed-files", files=evidence.touched)
    if evidence.wrong:
        wrong_in_main = {"wrong": evidence.wrong, "records": 2 * len(_FIRST)}
        not_yet("wrong-records", where="without workers", **wrong_in_main)
    if evidence.problem:
        reject(evidence.problem)
    if evidence.size > _RECORDS * SIZE * 3 // 4:
        not_yet("heavy-pickle", read=len(_FIRST), size=evidence.size, file=_RECORDS * SIZE)
    for epoch in evidence.epochs:
        _judge_epoch(epoch)
    return correct(records=len(_READ), size=evidence.size)


def _judge_epoch(epoch: Epoch) -> None:
    where, run, wrong = epoch.samples.where, epoch.samples.run, epoch.samples.wrong
    if epoch.moved:
        not_yet("moved-position", where=where)
    if epoch.renamed and run.end == "raised":
        not_yet("raised-once-renamed", where=where, error=run.error)
    travel.arrived(epoch.samples)
    if wrong:
        not_yet("wrong-records", where=where, wrong=wrong, records=len(_READ))


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=lambda answer: travel.a_fixed_file(answer, MyRecords),
    at_most=travel.AT_MOST,
)
