"""The exercise "06.fix": records of a file, for workers that are new interpreters."""

from __future__ import annotations

import os
import pickle
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils.data import Dataset

from dltutor.lessons.kit.answers import a_mended_class, failed_in_main, wrong
from dltutor.lessons.kit.outcome import Result, correct
from dltutor.lessons.lesson_06.files import grade_file
from dltutor.lessons.lesson_06.filled_in_main import filled_in_main
from dltutor.lessons.lesson_06.opens import CountOpens
from dltutor.lessons.lesson_06.travel import (
    Samples,
    ended_well,
    epoch,
    one_by_one,
    packed,
    same,
    without_pickle,
)

SIZE: Final = 8  # bytes of a record

_RECORDS: Final = 32
_AHEAD: Final = 1 << 18  # bytes in the file behind the records: nobody should send those
_LARGEST: Final = 1 << 14  # bytes of a pickle that holds a path and a few numbers


class MyRecords(Dataset[torch.Tensor]):
    """The starter: records of 8 bytes each, read from one large file."""

    def __init__(self, path: str | Path, count: int) -> None:
        self.path = path
        self.count = count
        self.handle = open(self.path, "rb")  # noqa: SIM115 - that is its fault

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(list(os.pread(self.handle.fileno(), SIZE, index * SIZE)))


def grade(answer: Any) -> Result:
    """Grade the file with `MyRecords`."""
    with tempfile.TemporaryDirectory(prefix="dltutor-") as folder:
        return grade_file(answer, "MyRecords", partial(_grade, Path(folder)))


def _grade(folder: Path, mine: type) -> Result:
    mine = a_mended_class(mine, MyRecords)
    path, expected = _fresh(folder)
    _travels(mine(path, _RECORDS), "a fresh dataset")
    dataset = mine(path, _RECORDS)
    if not same(one_by_one(dataset), expected):
        wrong("without any worker the records are not those of the file. Compare one by hand.")
    pickled = _travels(dataset, "a fresh dataset travels. After `dataset[0]` in main it")
    if len(pickled) > _LARGEST:
        wrong(
            f"the pickle of your dataset has {len(pickled) >> 10} KB, for a file of "
            f"{os.path.getsize(path) >> 10} KB: the file itself goes to every worker. At work it "
            "has 40 GB. What is the least that a worker needs in order to read it?"
        )
    _copy_reads(pickled, dataset, expected)
    opened = _forked(dataset, path, expected, folder)
    _spawned(mine, dataset, expected)
    return correct(
        f"{_RECORDS} of {_RECORDS} records arrive under fork and under spawn, also after main has "
        f"read some. The dataset travels as {_rough(len(pickled))}. "
        + (
            "Each forked worker opens the file itself."
            if opened
            else "Forked workers read from main's open file: `os.pread` brings its own position, "
            "`seek` and `read` would not (lesson 05)."
        )
    )


def _fresh(folder: Path) -> tuple[str, Samples]:
    path = folder / "fresh.bin"
    records = [
        bytes((number * 37 + place * 11) % 256 for place in range(SIZE))
        for number in range(_RECORDS)
    ]
    path.write_bytes(b"".join(records) + bytes(_AHEAD))
    return str(path), [torch.tensor(list(record)) for record in records]


def _travels(dataset: Any, what: str) -> bytes:
    pickled, reason = packed(dataset)
    if reason:
        names = " and ".join(f"`{name}`" for name in without_pickle(dataset))
        wrong(
            f"{what} has no pickle: `{reason}`."
            + (f" It is in {names}. " if names else " ")
            + "What belongs in the pickle, and what can be made on arrival?"
        )
    return pickled


def _copy_reads(pickled: bytes, dataset: Any, expected: Samples) -> None:
    try:
        arrived = one_by_one(pickle.loads(pickled))
    except Exception as error:
        wrong(
            f"it travels, and what arrives cannot read: {failed_in_main(error).text} `__init__` "
            "is not run where a pickle is unpacked. Who opens the file there?"
        )
    if not same(arrived, expected):
        wrong("what arrives delivers other records than what was sent.")
    try:
        one_by_one(dataset)
    except Exception as error:
        wrong(
            f"the copy reads, and main's own dataset no longer does: {failed_in_main(error).text} "
            "Sending it has changed it. Which dict does your `__getstate__` change?"
        )


def _forked(dataset: Any, path: str, expected: Samples, folder: Path) -> int:
    count = CountOpens(path, tempfile.mkdtemp(dir=folder))
    seen, arrived = epoch(dataset, method="fork", workers=2, init=count)
    ended_well(seen, "Under fork, with 2 workers,", "Read that line with two workers in mind.")
    if not same(arrived, expected):
        wrong("under fork, with 2 workers, the records are not those of the file.")
    opened = [log.stat().st_size for log in sorted(Path(count.folder).iterdir())]
    if max(opened) > 1:
        each = " and ".join(f"W{number} {times}" for number, times in enumerate(opened))
        wrong(
            f"the records are right, and the file is opened for each of them: {each} times for "
            f"{_RECORDS // 2} records each. Once in each process is enough."
        )
    return sum(opened)


def _spawned(mine: type, dataset: Any, expected: Samples) -> None:
    look = filled_in_main(mine) or "Which of what it reads did not travel with the dataset?"
    seen, arrived = epoch(dataset, method="spawn", workers=1)
    ended_well(seen, "All is well under fork. In a new interpreter (spawn)", look)
    if not same(arrived, expected):
        wrong("in a new interpreter (spawn) the records are not those of the file.")


def _rough(size: int) -> str:
    return "a few hundred bytes" if size < 1000 else "a few kilobytes"
