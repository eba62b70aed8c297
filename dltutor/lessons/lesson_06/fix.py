"""Grade "06.fix": records of a file, for forked workers and for a new interpreter.

An audit hook hears of every file that main or a forked worker opens. The records that are read lie
further apart than the buffer of an open file reaches: `seek` and `read` move the position of the
descriptor each time. A forked worker looks at those that it inherited after each call into C.
"""

from __future__ import annotations

import os
import pickle
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch

from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.outcomes import Rejected, Result, correct, error_in_your_code, not_yet
from dltutor.lessons.kit.running import theirs
from dltutor.lessons.lesson_06 import travel
from dltutor.lessons.lesson_06.material import SIZE, MyRecords
from dltutor.observation.time_limits import deadline

_KIND: Final = f"torch.int64, ({SIZE},)"  # of a record
_RECORDS: Final = 60_000  # 480 KB; the buffer of an open file has 8 or, from Python 3.14, 128
_READ: Final = tuple(i for near in range(16) for i in (near, _RECORDS - 1 - near))  # end to end
_FIRST: Final = _RECORDS // 2  # what main reads before the workers start: far from all of them


@dataclass(frozen=True)
class Reading:
    """What was read in main: wrong records, openings of the file, an exception as a sentence."""

    wrong: int = 0
    opened: int = 0
    error: str = ""


@dataclass(frozen=True)
class Epoch:
    """One with workers: the most openings by one of them, and whether one moved main's position."""

    samples: travel.Epoch
    opened: int = 0
    moved: bool = False


@dataclass(frozen=True)
class Evidence:
    """What is known of an answer."""

    alone: Reading  # by a new dataset, in main
    length: int = _RECORDS  # as `len` says it
    problem: str = ""  # why it cannot be pickled after that
    size: int = 0  # bytes of the pickle
    copy: Reading = Reading()  # by what is unpacked from it
    kept: bool = True  # the file is there as it was
    again: Reading = Reading()  # by main's own dataset then, while the file has another name
    epochs: tuple[Epoch, ...] = ()  # with workers, up to the first that is not right


class _File:
    """A file of records, and what this process and its forks do with it."""

    def __init__(self) -> None:
        contents = random.Random(6).randbytes(_RECORDS * SIZE)
        self.path = os.path.realpath(tempfile.mkdtemp()) + "/fresh.bin"
        Path(self.path).write_bytes(contents)
        self.stat = os.stat(self.path)
        self.records = [torch.tensor(list(contents[SIZE * i : SIZE * (i + 1)])) for i in _READ]
        self.counted, self.main, self.held = 0, os.getpid(), list[int]()
        self.log = os.open(f"{self.path}.log", os.O_RDWR | os.O_CREAT | os.O_APPEND)
        sys.addaudithook(self._hear)  # it cannot be taken back, and ends with the process

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        # A file has many names: a link, /proc/self/fd/3. A number is open already.
        if event == "open" and not isinstance(arguments[0], int):
            with suppress(OSError, ValueError):  # there is no such file
                if os.path.samestat(os.stat(arguments[0]), self.stat):
                    os.write(self.log, b"%d " % os.getpid())

    def opened(self) -> Counter[int]:
        """How often each process has opened it so far, by pid."""
        return Counter(map(int, os.pread(self.log, 1 << 20, 0).split()))

    def kept(self) -> bool:
        """Whether it is there, and nobody has written to it."""
        with suppress(OSError):
            now = os.stat(self.path)
            return os.path.samestat(now, self.stat) and now.st_mtime_ns == self.stat.st_mtime_ns
        return False

    def hold(self) -> None:
        """Keep a second descriptor of each that this process has of it: they share a position."""
        for descriptor in map(int, os.listdir("/dev/fd")):
            with suppress(OSError):  # the one that listed them is closed again
                if os.path.samestat(os.fstat(descriptor), self.stat):
                    self.held.append(os.dup(descriptor))

    def positions(self) -> list[int]:
        """Where those that are held stand."""
        return [os.lseek(descriptor, 0, os.SEEK_CUR) for descriptor in self.held]

    def read_from(self, make: Callable[[], Any]) -> Reading:
        """Read from what this makes; the openings are those since the last reading."""
        wrong, error, before = 0, "", self.counted
        try:
            with theirs():
                dataset = make()
            wrong = travel.wrong_of(travel.read(dataset, _READ, _KIND), self.records)
        except Rejected as rejected:
            error = rejected.result.text
        self.counted = self.opened()[os.getpid()]
        return Reading(wrong, self.counted - before, error)

    def epoch(self, dataset: Any, method: str, workers: int) -> Epoch:
        """Read with workers."""
        travel.read(dataset, [_FIRST], _KIND)  # to read anything else, its position has to move
        self.hold()
        before, stood = self.opened(), self.positions()

        def look(*_: object) -> None:
            if os.getpid() != self.main and self.positions() != stood:
                os.write(self.log, b"0 ")  # the pid of nobody
                sys.setprofile(None)

        sys.setprofile(look)  # forked workers inherit it
        samples = travel.epoch(dataset, _READ, self.records, method, workers)
        sys.setprofile(None)
        times = self.opened() - before
        moved = bool(times.pop(0, 0)) or self.positions() != stood
        del times[self.main]
        return Epoch(samples, max(times.values(), default=0), moved)


def gather(path: Path) -> Evidence:
    """Use the class in main, send it, then run it with forked workers and with a spawned one."""
    with deadline(travel.IN_MAIN):
        answer, file = travel.class_in(path, "MyRecords"), _File()
        with theirs():
            dataset = answer(file.path, _RECORDS)
            length = len(dataset)
        alone = file.read_from(lambda: dataset)
        pickled, problem = travel.sent(dataset)
        copy = file.read_from(lambda: pickle.loads(pickled)) if pickled else Reading()
        evidence = Evidence(alone, length, problem, len(pickled), copy, file.kept())
        judge(evidence)
        os.rename(file.path, other := f"{file.path}.other")  # who opens it anew finds nothing
        evidence = replace(evidence, again=file.read_from(lambda: dataset))
        os.rename(other, file.path)
    judge(evidence)
    for method, workers in (("fork", 2), ("fork", 4), ("spawn", 1)):
        epoch = file.epoch(dataset, method, workers)
        evidence = replace(evidence, epochs=(*evidence.epochs, epoch), kept=file.kept())
        judge(evidence)  # ends here where it is not right
    return evidence


def judge(evidence: Evidence) -> Result:
    """Correct if the records arrive everywhere, and each process opens the file once at most."""
    _judge_in_main(evidence)
    for each in evidence.epochs:
        where = each.samples.where
        if each.moved:
            not_yet(
                f"{where}, the workers moved the read position of the file that main has open. "
                "They inherit that file, and its position is one for all: the records come right "
                "by luck only. How can a worker tell that another process has opened a file?"
            )
        travel.arrived(each.samples, "Which of what it uses is not there in that process?")
        if each.samples.wrong:
            not_yet(f"{where}, {each.samples.wrong} of {len(_READ)} records are wrong.")
        if each.opened > 1:
            times = f"one worker opened the file {each.opened} times"
            not_yet(f"{where}, {times}. Once in each process is enough.")
    return correct(
        f"{len(_READ)} of {len(_READ)} records arrive with 0, 2 and 4 workers under fork and with "
        f"1 under spawn, after main has read some. The pickle has {evidence.size} bytes, and no "
        "forked worker was seen to move a read position of main's."
    )


def _judge_in_main(evidence: Evidence) -> None:
    if evidence.alone.error:
        error_in_your_code(evidence.alone.error)
    if not evidence.kept:
        not_yet(
            "the file of records is gone, or was written to. Others read it as well. Which of your "
            "lines does more than read?"
        )
    if evidence.length != _RECORDS:
        not_yet(f"the file holds {_RECORDS} records, and `len(dataset)` is {evidence.length}.")
    if evidence.problem:
        not_yet(
            f"after `dataset[0]` in main, the dataset cannot be pickled: {evidence.problem} What "
            "does a worker need to be sent, and what can it make itself?"
        )
    if evidence.size > _RECORDS * SIZE * 3 // 4:
        not_yet(
            f"the pickle of your dataset has {evidence.size} bytes, for a file of "
            f"{_RECORDS * SIZE}: the file itself goes to every worker. What is the least that a "
            "worker needs in order to read it?"
        )
    _judge_reading("without workers, your dataset", evidence.alone, 1, "Try it by hand.")
    question = "`__init__` is not run where a pickle is unpacked. Who opens the file there?"
    _judge_reading("what arrives", evidence.copy, 1, question)
    what = "the file gets another name: main's own dataset, which was pickled,"
    question = (
        "An open file can be read under any name. Does it open the file for each record, or does "
        "your `__getstate__` change main's own dict?"
    )
    _judge_reading(what, evidence.again, 0, question)


def _judge_reading(what: str, reading: Reading, most: int, question: str) -> None:
    if reading.error:
        not_yet(f"{what} cannot read: {reading.error} {question}")
    if reading.wrong:
        not_yet(f"{what} delivers {reading.wrong} of {len(_READ)} records wrong. {question}")
    if reading.opened > most:
        times = "once more" if reading.opened == 1 else f"{reading.opened} times"
        not_yet(f"{what} opened the file {times} to read {len(_READ)} records. {question}")


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=lambda answer: travel.a_fixed_file(answer, MyRecords),
    runs="reads a fresh file with your class, in main, in 2 and 4 forked workers and a spawned one",
    at_most=travel.AT_MOST,
)
