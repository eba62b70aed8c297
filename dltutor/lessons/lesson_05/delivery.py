"""What "05.fix" and "05.transfer" ask alike: each sample is the one that was asked for, in workers
and in main. And the race for a position, in slow motion.
"""

from __future__ import annotations

import mmap
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, get_worker_info

from dltutor.lessons.kit.endings import Ending, run_loader
from dltutor.lessons.kit.forms import shown
from dltutor.lessons.kit.outcomes import Rejected
from dltutor.lessons.kit.running import made

RUNS: Final = ((2, 2), (0, 2), (4, 1))  # workers, and epochs
LONG: Final = 15  # seconds for each thing that the answer does
_START: Final = 5.0  # seconds for all workers to begin
_WAIT: Final = 0.4  # seconds for another process to move a position
_PATIENCE: Final = 4  # waits of a worker in vain, and of main
_BEGAN: Final = 1  # a worker
_WAITS: Final = 2
#: Calls in which others may move a position.
_MAY_WAIT: Final = ("acquire", "poll", "select", "sleep", "wait")


@dataclass(frozen=True)
class Delivered:
    """What an answer delivered with some workers.

    Args:
        workers: How many.
        run: How it ended.
        samples: How many came.
        wrong: How many of them are not what was asked for.
        others: How many of those are what was asked for elsewhere.
        in_main: What main read wrong meanwhile or afterwards, or what it raised, or "".
    """

    workers: int
    run: Ending
    samples: int
    wrong: int = 0
    others: int = 0
    in_main: str = ""

    def is_right(self) -> bool:
        """Whether all came."""
        return self.run.end == "finished" and not self.wrong and not self.in_main


def read(dataset: Any, indices: Sequence[int], expected: dict[int, torch.Tensor]) -> str:
    """Read samples in main.

    Returns:
        What is wrong with the first that is, or what it raised; or "".
    """
    for index in indices:
        try:
            sample = made(dataset.__getitem__, index, call=f"dataset[{index}]", within=LONG)
        except Rejected as rejected:
            return f"`dataset[{index}]` fails: {rejected.result.text.rstrip('.')}"
        if not _is(sample, expected[index]):
            return (
                f"`dataset[{index}]` is {_told(sample)}, and the starter alone gets "
                f"{_told(expected[index])}"
            )
    return ""


def deliver(
    dataset: Any,
    expected: dict[int, torch.Tensor],
    order: list[int],
    workers: int,
    epochs: int,
    main: Callable[[int], str],
    **options: Any,
) -> Delivered:
    """Run an answer's dataset in a loader.

    Args:
        dataset: The dataset.
        expected: Index -> its sample.
        order: The indices, as they are asked for.
        workers: How many.
        epochs: How many.
        main: Reads in main the sample of an index, between two batches; what is wrong, or "".
        options: More arguments of the DataLoader.
    """
    came: list[Any] = []  # for each sample the index of the one that it is
    told: list[str] = []

    def collect(loader: DataLoader[Any]) -> None:
        for batch in loader:
            came.extend(
                next((index for index, each in expected.items() if _is(sample, each)), None)
                for sample in batch
            )
            told.append(main(order[len(came) % len(order)]))

    run = run_loader(
        dataset,
        collect,
        workers=workers,
        within=LONG,
        epochs=epochs,
        batch_size=4,
        sampler=order,
        persistent_workers=workers > 0 and epochs > 1,
        **options,
    )
    asked = order * epochs
    wrong = [it for it, index in zip(came, asked, strict=False) if it != index]
    missing = abs(len(asked) - len(came)) if run.end == "finished" else 0
    others = sum(it is not None for it in wrong)
    return Delivered(
        workers, run, len(came), len(wrong) + missing, others, next(filter(None, told), "")
    )


def _is(sample: Any, expected: torch.Tensor) -> bool:
    return (
        isinstance(sample, torch.Tensor)
        and sample.dtype == expected.dtype
        and torch.equal(sample, expected)
    )


def _told(sample: Any) -> str:
    if not isinstance(sample, torch.Tensor):
        return f"`{shown(sample)}`, of the type {type(sample).__name__}"
    more = ", ..." if sample.numel() > 4 else ""
    first = ", ".join(map(str, sample.flatten()[:4].tolist()))
    return f"`[{first}{more}]` of {sample.dtype} and shape {tuple(sample.shape)}"


class SlowMotion:
    """Makes a race for a read position certain, in forked workers.

    After each call into C that moved a position that main has too, a worker waits until another
    process has moved it as well; and main does not read before such a worker waits. Nothing moves
    it where a lock or a file of one's own is right: after some waits in vain all go on.

    Args:
        files: The files that this is about.
    """

    def __init__(self, files: list[os.stat_result]) -> None:
        self._files, self._main = files, os.getpid()
        self._held: list[int] = []
        self._shared = mmap.mmap(-1, 64)  # main's turns; whether one moved; main waits; the workers

    def begin(self, workers: int) -> None:
        """Hold what main has open now. It is for workers that are forked from now on."""
        while self._held:
            os.close(self._held.pop())
        for descriptor, stat in _descriptors():
            if any(os.path.samestat(stat, each) for each in self._files):
                self._held.append(os.dup(descriptor))  # the same position
        self._shared[1:] = bytes(63)
        self._workers, self._patience = workers, _PATIENCE
        self._turn, self._before = -1, self._positions()
        sys.setprofile(self._look)

    def end(self) -> bool:
        """End it; whether a worker moved a position of main's."""
        sys.setprofile(None)
        return bool(self._shared[1])

    @contextmanager
    def main_reads(self) -> Iterator[None]:
        """A block in which main reads."""
        if self._shared[1] and self._patience:
            self._patience -= 1
            self._shared[2] = 1
            self._wait(3 * _WAIT, lambda: _WAITS in self._shared[3:])
            self._shared[2] = 0
        self._shared[0] = (self._shared[0] + 1) % 256
        yield
        self._shared[0] = (self._shared[0] + 1) % 256

    def opened(self) -> int:
        """How many descriptors of one file this process has, besides those that are held."""
        found = [stat for each, stat in _descriptors() if each not in self._held]
        return max(sum(os.path.samestat(stat, each) for stat in found) for each in self._files)

    def _positions(self) -> list[int]:
        return [os.lseek(descriptor, 0, os.SEEK_CUR) for descriptor in self._held]

    def _look(self, frame: object, event: str, called: Any) -> None:
        worker = get_worker_info()
        if os.getpid() == self._main or worker is None:
            return
        self._shared[3 + worker.id] = _BEGAN
        now, turn = self._positions(), self._shared[0]
        if event == "c_call":
            self._before, self._turn = now, turn
        elif event == "c_return" and getattr(called, "__name__", "") not in _MAY_WAIT:
            mine = [i for i, at in enumerate(now) if at != self._before[i]]
            if mine and turn == self._turn and turn % 2 == 0:
                self._shared[1] = 1
                if not self._patience and not self._shared[2]:
                    return
                self._wait(_START, lambda: all(self._shared[3 : 3 + self._workers]))
                self._shared[3 + worker.id] = _WAITS
                if not self._wait(_WAIT, lambda: any(self._positions()[i] != now[i] for i in mine)):
                    self._patience = max(0, self._patience - 1)
                self._shared[3 + worker.id] = _BEGAN

    def _wait(self, seconds: float, until: Callable[[], bool]) -> bool:
        end = time.monotonic() + seconds
        while not (done := until()) and time.monotonic() < end:
            time.sleep(0.0005)
        return done


def _descriptors() -> list[tuple[int, os.stat_result]]:
    found = []
    for descriptor in map(int, os.listdir("/dev/fd")):
        with suppress(OSError):  # the one that listed them is closed again
            found.append((descriptor, os.fstat(descriptor)))
    return found
