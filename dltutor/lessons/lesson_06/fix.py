"""Grade "06.fix" with two of the answer's datasets in one loader, each with its own file.

Once each worker has delivered a batch, the check renames the files' folder. A worker can still read
an open file, but a class that opens the file again doesn't find it. In each file, the loaders
alternate between both ends, which are farther apart than an open file's buffer is long, so each
`seek` and `read` moves the descriptor's position.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import torch
from torch.utils.data import ConcatDataset

from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.outcomes import correct, not_yet
from dltutor.lessons.engine.running import theirs
from dltutor.lessons.lesson_05.fix import Positions
from dltutor.lessons.lesson_06 import travel
from dltutor.lessons.lesson_06.helpers import SIZE, MyRecords
from dltutor.observation.time_limits import deadline

_KIND: Final = f"torch.int64, ({SIZE},)"  # a record's dtype and shape
_RECORDS: Final = 60_000  # 480 KB. An open file's buffer is 8 KB, or 128 KB since Python 3.14.
_FIRST: Final = range(_RECORDS // 2, _RECORDS // 2 + 2000)  # what main reads, far from _READ
_READ: Final = tuple(  # indices for the loaders, alternating between both ends of both files
    start + index
    for near in range(16)
    for index in (near, _RECORDS - 1 - near)
    for start in (0, _RECORDS)
)


@dataclass(frozen=True)
class Epoch:
    """A record of an epoch with both datasets.

    Args:
        samples: How the run ended, and how many samples were wrong.
        size: The size of a pickled dataset, in bytes.
        renamed: Whether the check got as far as renaming the folder.
        moved: Whether a worker moved main's position in a file.
    """

    samples: travel.Epoch
    size: int
    renamed: bool = False
    moved: bool = False


def run(path: Path) -> Iterator[Epoch]:
    """Read two datasets and pickle one in main, then run both in loaders and yield the epochs."""
    answer = travel.class_in(path, MyRecords)
    folder = Path(tempfile.mkdtemp()) / "fresh"
    folder.mkdir()
    halves = [random.Random(seed).randbytes(_RECORDS * SIZE) for seed in (6, 7)]
    paths = [folder / "one.bin", folder / "two.bin"]
    for file, half in zip(paths, halves, strict=True):
        file.write_bytes(half)
    records = torch.tensor(list(b"".join(halves))).reshape(-1, SIZE)
    with deadline(travel.IN_MAIN):
        with theirs():
            datasets = [answer(file, _RECORDS) for file in paths]
            length = len(datasets[0])
        if length != _RECORDS:
            not_yet("other-length", records=_RECORDS, length=length)
        wrong = 0
        for dataset, held in zip(datasets, records.split(_RECORDS), strict=True):
            read = travel.read(dataset, _FIRST, _KIND)
            wrong += travel.wrong_of(read, list(held[[*_FIRST]]))
        if wrong:
            counts = {"wrong": wrong, "records": 2 * len(_FIRST)}
            not_yet("wrong-records", where="without workers", **counts)
        size = len(travel.sent(datasets[0]))
    if size > _RECORDS * SIZE * 3 // 4:
        not_yet("heavy-pickle", read=len(_FIRST), size=size, file=_RECORDS * SIZE)
    positions, elsewhere = Positions(paths), folder.with_name("elsewhere")
    for method, workers in (("fork", 0), ("fork", 2), ("fork", 4), ("spawn", 1)):
        for dataset in datasets if workers else ():
            travel.read(dataset, _FIRST[:1], _KIND)  # so that main has both files open
        positions.begin()
        samples = travel.epoch(
            ConcatDataset(datasets),
            _READ,
            list(records[[*_READ]]),
            method,
            workers,
            lambda: folder.rename(elsewhere),
            worker_init_fn=positions.watch if method == "fork" else None,
        )
        if renamed := elsewhere.exists():
            elsewhere.rename(folder)
        yield Epoch(samples, size, renamed, positions.moved)


def judge(epoch: Epoch) -> None:
    """Raise `Rejected` unless the run finished, and all records arrived and are right.

    A worker must not move main's position in a file, either. An exception has its own code
    if the check had renamed the folder by then.
    """
    where, run, wrong = epoch.samples.where, epoch.samples.run, epoch.samples.wrong
    if epoch.moved:
        not_yet("moved-position", where=where)
    if epoch.renamed and run.end == "raised":
        not_yet("raised-once-renamed", where=where, error=run.error)
    travel.arrived(epoch.samples)
    if wrong:
        not_yet("wrong-records", where=where, wrong=wrong, records=len(_READ))


GRADER: Final = by_runs(
    run,
    judge,
    result=lambda epochs: correct(records=len(_READ), size=epochs[-1].size),
    look=partial(travel.a_file, name="MyRecords"),
    at_most=travel.AT_MOST,
)
