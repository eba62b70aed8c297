"""Grade "05.fix": windows of recordings that are larger than memory, read by forked workers.

The race for a shared position is lost in every run: see `SlowMotion`.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import ConcatDataset

from dltutor.lessons.kit.endings import ended_well, where
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class
from dltutor.lessons.kit.outcomes import Result, correct, not_yet
from dltutor.lessons.kit.running import made
from dltutor.lessons.lesson_05.delivery import LONG, RUNS, Delivered, SlowMotion, deliver, read
from dltutor.lessons.lesson_05.material import WIDTH, Windows

_NUMBERS: Final = 2**28 - 9  # of each recording: 512 MB, and hardly any of it on the disk
_WINDOWS: Final = _NUMBERS - WIDTH + 1
_OPEN: Final = 4  # descriptors of a recording that a process may have


@dataclass(frozen=True)
class Epochs:
    """What an answer did with some workers.

    Args:
        samples: What it delivered.
        moved: Whether a position of main's moved while only workers read.
        opened: How many descriptors of one recording a process had.
        touched: What is new in the folder, gone, or was written to.
    """

    samples: Delivered
    moved: bool = False
    opened: int = 0
    touched: tuple[str, ...] = ()


class _Recordings:
    """Three, with numbers where windows are read, and holes between."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.paths = [self.folder / name for name in ("monday.bin", "tuesday.bin", "friday.bin")]
        self.expected: dict[int, torch.Tensor] = {}  # by the index in all three together
        self.order: list[int] = []  # one recording after the other: all workers read the same
        random = np.random.default_rng(55)
        for which, path in enumerate(self.paths):
            with path.open("wb") as file:
                file.truncate(2 * _NUMBERS)
                far = random.integers(WIDTH, _WINDOWS - WIDTH, 14)
                starts = random.permutation([0, *far, _WINDOWS - 1]).tolist()
                self.order += [which * _WINDOWS + start for start in starts]
                for start in starts:
                    numbers = random.integers(1, 30_000, WIDTH, dtype="<i2")
                    file.seek(2 * start)
                    file.write(numbers.tobytes())
                    self.expected[which * _WINDOWS + start] = torch.from_numpy(numbers)
        self._stats = [path.stat() for path in self.paths]
        self.motion = SlowMotion(self._stats)

    def touched(self) -> tuple[str, ...]:
        """What is new in the folder, gone, or was written to."""
        known = dict(zip((path.name for path in self.paths), self._stats, strict=True))
        found = {path.name: path.stat() for path in self.folder.iterdir()}
        return tuple(
            name
            for name in sorted(known.keys() | found.keys())
            if not (name in known and name in found)
            or known[name].st_mtime_ns != found[name].st_mtime_ns
        )


def gather(answer: type) -> tuple[Epochs, ...]:
    """Use the class in main, then run it with 2, 0 and 4 workers, up to what is not right."""
    files, runs = _Recordings(), list[Epochs]()
    call = f"{answer.__name__}(path)"
    datasets = [made(answer, path, call=call, within=LONG) for path in files.paths]
    for dataset in datasets:
        length = made(lambda dataset=dataset: len(dataset), call="len(dataset)", within=LONG)
        if length != _WINDOWS:
            not_yet(
                f"a recording of {_NUMBERS} numbers has {_WINDOWS} windows of {WIDTH}, and "
                f"`len(dataset)` is {length}. Where does the last one begin?"
            )
    for which, dataset in enumerate(datasets):
        first = which * _WINDOWS
        part = range(first, first + _WINDOWS)
        expected = {it - first: each for it, each in files.expected.items() if it in part}
        if wrong := read(dataset, sorted(expected), expected):
            not_yet(f"in main, before there are workers, {wrong}.")
    all_three: ConcatDataset[Any] = ConcatDataset(datasets)

    def main(index: int) -> str:
        with files.motion.main_reads():
            return read(all_three, [index], files.expected)

    opened: list[int] = []

    def join(samples: list[Any]) -> Any:
        count = files.motion.opened()
        if count > _OPEN:
            raise _TooMany(str(count))
        return torch.utils.data.default_collate(samples)

    for workers, epochs in RUNS:
        files.motion.begin(workers)
        samples = deliver(
            all_three, files.expected, files.order, workers, epochs, main, collate_fn=join
        )
        opened.append(files.motion.opened())
        if samples.run.kind == _TooMany.__name__:
            opened.append(int(samples.run.message.rpartition(" ")[2]))
        runs.append(Epochs(samples, files.motion.end(), max(opened), files.touched()))
        if not samples.is_right() or runs[-1].opened > _OPEN or runs[-1].touched:
            break
    return tuple(runs)


class _TooMany(Exception):
    """Raised in a process that has too many descriptors of one recording."""


def judge(runs: tuple[Epochs, ...]) -> Result:
    """Correct if every window came, in the workers and in main."""
    for epochs in runs:
        samples, lead = epochs.samples, where(epochs.samples.workers)
        if epochs.touched:
            not_yet(
                f"{lead}, `{epochs.touched[0]}` was written, added or removed in the folder of the "
                "recordings. A dataset only reads."
            )
        if epochs.opened > _OPEN:
            not_yet(
                f"{lead}, a process had {epochs.opened} descriptors of one recording; {_OPEN} are "
                "allowed. Who opens them, and who closes them?"
            )
        if samples.wrong or (epochs.moved and samples.run.end == "raised"):
            _wrong(epochs, lead)
        ended_well(samples.run, lead)
        if samples.in_main:
            not_yet(
                f"{lead}, main reads between the batches, and {samples.in_main}. Who else has what "
                "main reads from?"
            )
    return correct(
        f"{runs[-1].samples.samples} of {runs[-1].samples.samples} windows are right in every "
        "epoch, with 2 workers, with 0 and with 4, while main reads from the same three recordings."
    )


def _wrong(epochs: Epochs, lead: str) -> None:
    samples = epochs.samples
    parts = []
    if samples.wrong:
        parts.append(f"{samples.wrong} of {samples.samples} windows are wrong")
    if samples.others:
        parts[0] += f", and {samples.others} of these hold the numbers of another window"
    if samples.run.end == "raised":
        parts.append(f"it ends with {samples.run.error.rstrip('.')}")
    what = "; ".join(parts)
    if epochs.moved:
        not_yet(
            f"{lead}, {what}. Meanwhile the position of a file that main has open moved, and main "
            "did not read. In which process does your class open what a worker reads from?"
        )
    not_yet(
        f"{lead}, {what}. No worker was seen to move a position of main's. Does your class read "
        "the right place of the right recording, in every process?"
    )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(
        a_fixed_class,
        starter=Windows,
        without_workers="Without workers nobody shares a file: what do they share?",
    ),
    runs="uses your class in main, then runs epochs with 2, 0 and 4 workers on new recordings",
    at_most=60,
)
