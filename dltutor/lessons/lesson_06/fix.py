"""Grade "06.fix": records of a file, for workers that are new interpreters and for forked ones.

Python tells an audit hook of every file that is opened, so openings are counted in main and in the
workers. The records that are read lie further apart than a buffer of an open file reaches: whoever
reads with `seek` and `read` moves the position of its descriptor each time, and main can see
whether a worker moved the one that it inherited.
"""

from __future__ import annotations

import os
import pickle
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch

from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.outcomes import Rejected, Result, correct, not_yet
from dltutor.lessons.kit.running import made, theirs
from dltutor.lessons.lesson_06.files import a_fixed_file, class_in, filled_in_main
from dltutor.lessons.lesson_06.material import SIZE, MyRecords
from dltutor.lessons.lesson_06.travel import (
    AT_MOST,
    IN_MAIN,
    RUNS,
    Epoch,
    Samples,
    Sent,
    arrived,
    epoch,
    one_by_one,
    sent,
    travels,
    wrong_of,
)
from dltutor.observation.time_limits import deadline

_RECORDS: Final = 60_000  # 480 KB; the buffer of an open file has 8 or, from Python 3.14, 128
_READ: Final = tuple(
    index for near in range(16) for index in (near, _RECORDS - 1 - near)
)  # from end to end each time, the first and the last among them


@dataclass(frozen=True)
class Reading:
    """What a dataset did in main.

    Args:
        wrong: How many records are not those of the file.
        opened: How many times the file was opened, from the making of the dataset on.
        error: The exception that it ended with, as a sentence, or "".
    """

    wrong: int = 0
    opened: int = 0
    error: str = ""


@dataclass(frozen=True)
class Evidence:
    """What is known of an answer.

    Args:
        length: What `len` says.
        fresh: The pickle of a dataset that was not used.
        alone: What a dataset reads in main.
        used: Its pickle after that.
        copy: What is read from this pickle when it is unpacked.
        again: What main's own dataset reads after it was pickled.
        epochs: With workers, up to the first that is not right.
        filled: What only main has filled, as a sentence, or "".
    """

    length: int
    fresh: Sent
    alone: Reading
    used: Sent
    copy: Reading
    again: Reading
    epochs: tuple[Epoch, ...] = ()
    filled: str = ""


@dataclass(frozen=True)
class _Opens:
    """Notes who opens a file: this process, its forks, and any whose `worker_init_fn` it is."""

    path: str
    log: str

    def __call__(self, worker_id: int) -> None:
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        real = os.path.realpath(self.path)

        def hear(event: str, arguments: tuple[Any, ...]) -> None:
            if event != "open" or not isinstance(arguments[0], (str, bytes, os.PathLike)):
                return
            if os.path.realpath(os.fsdecode(arguments[0])) == real:
                os.write(log, b"%d " % os.getpid())

        sys.addaudithook(hear)  # it cannot be taken back, and ends with the process

    def by_process(self) -> Counter[int]:
        """How many times each process has opened the file so far."""
        return Counter(map(int, Path(self.log).read_text().split()))

    def in_main(self) -> int:
        """How many times this process has."""
        return self.by_process()[os.getpid()]


def look(answer: Any) -> Path:
    """The answer, if it is a file with a class that is no longer the starter."""
    return a_fixed_file(answer, MyRecords)


def gather(file: Path) -> Evidence:
    """Use the class in main, send it, then run it with forked workers and in a new interpreter."""
    with deadline(IN_MAIN):
        answer = class_in(file, "MyRecords")
        path, expected = _fresh_file()
        opens = _Opens(path, f"{path}.log")
        opens(0)
        dataset, evidence = _in_main(answer, opens, expected)
    _judge_in_main(evidence)
    epochs: list[Epoch] = []
    for method, workers in RUNS:
        epochs.append(_epoch(dataset, opens, expected, method, workers))
        last = epochs[-1]
        if (
            last.run.end != "finished"
            or last.wrong
            or last.moved
            or max(last.opened, default=0) > 1
        ):
            break
    filled = filled_in_main(answer) if epochs[-1].method == "spawn" else ""
    return replace(evidence, epochs=tuple(epochs), filled=filled)


def _fresh_file() -> tuple[str, Samples]:
    contents = random.Random(6).randbytes(_RECORDS * SIZE)
    path = Path(tempfile.mkdtemp()) / "fresh.bin"
    path.write_bytes(contents)
    return str(path), [
        torch.tensor(list(contents[index * SIZE : (index + 1) * SIZE])) for index in _READ
    ]


def _in_main(answer: type, opens: _Opens, expected: Samples) -> tuple[Any, Evidence]:
    def make() -> Any:
        call = f"{answer.__name__}(path, count)"
        return made(answer, opens.path, _RECORDS, call=call, within=IN_MAIN)

    def reading(make: Callable[[], Any]) -> tuple[Any, Reading]:
        before = opens.in_main()
        dataset = make()
        with theirs():
            samples = one_by_one(dataset, _READ)
        return dataset, Reading(wrong_of(samples, expected), opens.in_main() - before)

    def reading_after_the_pickle(make: Callable[[], Any]) -> Reading:
        try:
            with theirs():
                return reading(make)[1]
        except Rejected as rejected:
            return Reading(error=rejected.result.text)

    _, fresh = sent(make())
    dataset, alone = reading(make)
    with theirs():
        length = len(dataset)
    pickled, used = sent(dataset)
    copy = reading_after_the_pickle(lambda: pickle.loads(pickled)) if pickled else Reading()
    again = reading_after_the_pickle(lambda: dataset)
    return dataset, Evidence(length, fresh, alone, used, copy, again)


def _epoch(dataset: Any, opens: _Opens, expected: Samples, method: str, workers: int) -> Epoch:
    with theirs(), deadline(IN_MAIN):
        dataset[0]  # its end lies where no record that is read last ends
    before, stood = opens.by_process(), _positions(opens.path)
    init = opens if method == "spawn" else None  # a fork has main's hook
    ran = epoch(dataset, _READ, expected, method=method, workers=workers, init=init)
    opened = opens.by_process() - before
    by_worker = tuple(opened[pid] for pid in sorted(opened) if pid != os.getpid())
    return replace(ran, opened=by_worker, moved=_positions(opens.path) != stood)


def _positions(path: str) -> dict[int, int]:
    # Where each of this process's descriptors of the file stands.
    file, found = os.stat(path), {}
    for descriptor in map(int, os.listdir("/dev/fd")):
        try:
            if os.path.samestat(os.fstat(descriptor), file):
                found[descriptor] = os.lseek(descriptor, 0, os.SEEK_CUR)
        except OSError:  # the one that listed them is closed again
            continue
    return found


def judge(evidence: Evidence) -> Result:
    """Correct if the records arrive everywhere, and each process opens the file once at most."""
    _judge_in_main(evidence)
    for each in evidence.epochs:
        if each.method == "fork":
            _judge_forked(each)
        else:
            arrived(
                each, evidence.filled or "Which of what it reads did not travel with the dataset?"
            )
        if each.wrong:
            not_yet(
                f"{each.where}, {each.wrong} of {len(_READ)} records are not those of the file."
            )
        if max(each.opened, default=0) > 1:
            not_yet(
                f"{each.where}, the records are right, and one worker opened the file "
                f"{max(each.opened)} times. Once in each process is enough."
            )
    size = "a few hundred bytes" if evidence.used.size < 1024 else f"{evidence.used.size >> 10} KB"
    own = any(each.opened for each in evidence.epochs if each.method == "fork")
    return correct(
        f"{len(_READ)} of {len(_READ)} records arrive under fork and under spawn, also after main "
        f"has read some. The dataset travels as {size}. "
        + (
            "Each forked worker opens the file itself."
            if own
            else "Forked workers read what main has opened, and none of them moves its read "
            "position; `seek` and `read` would (lesson 05)."
        )
    )


def _judge_in_main(evidence: Evidence) -> None:
    question = "What belongs in the pickle, and what can be made on arrival?"
    travels(evidence.fresh, "a fresh dataset", question)
    if evidence.length != _RECORDS:
        not_yet(f"the file holds {_RECORDS} records, and `len(dataset)` is {evidence.length}.")
    if evidence.alone.wrong:
        not_yet(
            f"without any worker, {evidence.alone.wrong} of {len(_READ)} records are not those of "
            "the file. Compare one by hand."
        )
    size = max(evidence.fresh.size, evidence.used.size)
    if size > _RECORDS * SIZE * 3 // 4:
        not_yet(
            f"the pickle of your dataset has {size >> 10} KB, for a file of "
            f"{_RECORDS * SIZE >> 10} KB: the file itself goes to every worker. At work it has "
            "40 GB. What is the least that a worker needs in order to read it?"
        )
    if evidence.alone.opened > 1:
        not_yet(
            f"main made one dataset and read {len(_READ)} records, all of them right, and opened "
            f"the file {evidence.alone.opened} times. Once in each process is enough."
        )
    travels(
        evidence.used, "a fresh dataset travels. After `dataset[0]` in main the dataset", question
    )
    _judge_after_the_pickle(evidence.copy, evidence.again)


def _judge_after_the_pickle(copy: Reading, again: Reading) -> None:
    if copy.error:
        not_yet(
            f"it travels, and what arrives cannot read: {copy.error} `__init__` is not run where "
            "a pickle is unpacked. Who opens the file there?"
        )
    if copy.wrong:
        not_yet("what arrives delivers other records than what was sent.")
    if copy.opened > 1:
        not_yet(
            f"where the pickle is unpacked, the file is opened {copy.opened} times for one "
            "dataset. Once is enough: on arrival, or at the first sample."
        )
    changed = "Sending it has changed it. Which dict does your `__getstate__` change?"
    if again.error:
        not_yet(f"the copy reads, and main's own dataset no longer does: {again.error} {changed}")
    if again.wrong:
        not_yet(f"the copy reads, and main's own dataset delivers other records now. {changed}")
    if again.opened:
        not_yet(
            "the copy reads, and main, which had the file open, has to open it once more for the "
            f"next record. {changed}"
        )


def _judge_forked(epoch: Epoch) -> None:
    if epoch.moved:
        not_yet(
            f"{epoch.where}, the workers moved the read position of the file that main has open. "
            "They inherit that file, and its position is one for all: what one seeks, another "
            "reads, and the records come right by luck only. How can a worker tell that main "
            "has opened what it finds, or read without the position?"
        )
    arrived(epoch, "Read that line with more than one worker in mind.")


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=look,
    runs="reads a fresh file with your class, in main, in 2 and 4 forked workers and in one of "
    "spawn",
    at_most=AT_MOST,
)
