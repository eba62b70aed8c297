"""Define datasets, and functions that make them fail, in a module that workers can import."""

from __future__ import annotations

import ctypes
import inspect
import multiprocessing
import os
import signal
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.util import Finalize
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from own_process import until
from torch.utils.data import DataLoader, Dataset, IterableDataset

FOR_EVER = 1000  # seconds, longer than any test may take
BAD = 9  # the index of the bad sample, in W0's third batch with 2 workers and batches of 2


class Numbers(Dataset[torch.Tensor]):
    """A dataset of 0, 1, 2, and so on. It calls `trouble()` before it returns sample `at`."""

    def __init__(
        self, trouble: Callable[[], object] | None = None, *, at: int = BAD, length: int = 16
    ) -> None:
        self.trouble = trouble
        self.at = at
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.at and self.trouble is not None:
            self.trouble()
        return torch.tensor([float(index)])


class Stream(IterableDataset[torch.Tensor]):
    """A stream that yields the same numbers in every worker."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (torch.tensor([float(i)]) for i in range(self.length))


class MeasuredStream(Stream):
    """A stream that reports the length `told`, which may be wrong."""

    def __init__(self, length: int, told: int) -> None:
        super().__init__(length)
        self.told = told

    def __len__(self) -> int:
        return self.told


def load(dataset: Any, start_method: str = "fork", **options: Any) -> DataLoader[Any]:
    """Make a loader with 2 workers and batches of 2, unless `options` say otherwise."""
    options = {"batch_size": 2, "num_workers": 2} | options
    return DataLoader(
        dataset, multiprocessing_context=start_method if options["num_workers"] else None, **options
    )


class TwoParts(Exception):
    """An exception with two arguments, which torch can't rebuild from a single string."""

    def __init__(self, part: str, whole: str) -> None:
        super().__init__(f"{part} of {whole}")


class Unsayable(Exception):
    """An exception whose `__str__` raises another exception."""

    def __str__(self) -> str:
        raise RuntimeError("no words for it")


def raise_error() -> None:
    raise ValueError("nine is bad")


def raise_two_parts() -> None:
    raise TwoParts("a wheel", "a cart")


def raise_unsayable() -> None:
    raise Unsayable


def all_is_sent() -> None:
    """Wait until this worker has nothing left to send.

    While the worker sends a tensor, the tensor has a name in /dev/shm for a moment. If the worker
    ended right then, the name would stay.
    """
    until(lambda: not any(map(_sends, sys._current_frames().values())))


def _sends(frame: FrameType) -> bool:
    # Return whether `frame` is in a queue's feeder thread that has something left to send.
    caller = frame.f_back
    if caller is not None and caller.f_code.co_name == "_feed" and frame.f_code.co_name == "wait":
        return bool(caller.f_locals["buffer"])
    return any(each.f_code.co_name == "_feed" for each, _ in traceback.walk_stack(frame))


def killed() -> None:
    all_is_sent()
    os.kill(os.getpid(), signal.SIGKILL)


def segfault() -> None:
    all_is_sent()
    ctypes.string_at(0)


def leave() -> None:
    sys.exit(3)


def leave_at_once() -> None:
    all_is_sent()
    os._exit(0)


def deadline_passes() -> int:
    """Make main's deadline pass in a moment, and return how many seconds to sleep in the meantime.

    The run itself triggers the deadline, so no test has to guess how long a run takes to get here.
    """
    main = multiprocessing.parent_process()
    if main is None:  # this is main, which runs the dataset or the loop
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    else:
        # Wait 0.5 s, so that this worker is asleep by then, and main and other workers are idle.
        subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -ALRM {main.pid}"])
    return FOR_EVER


def sleep() -> None:
    time.sleep(deadline_passes())


def sleep_on() -> None:
    time.sleep(FOR_EVER)


def write_much() -> None:
    for _ in range(64):
        os.write(2, b"all is well so far\n" * 3000)
    os.write(2, b"the last words\n")


def die_in_a_transfer() -> None:
    """Send main the beginning of a batch, and kill this worker, so that main waits for the rest."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != "_worker_loop":
        frame = frame.f_back
    assert frame is not None
    pipe = frame.f_locals["data_queue"]._writer.fileno()
    os.write(pipe, struct.pack("!i", 1000) + b"the first of a thousand bytes")
    time.sleep(0.3)  # so that main reads these bytes first
    killed()


def say_hello() -> None:
    os.write(2, b"hello from descriptor 2\n")
    print("hello from sys.stderr", file=sys.stderr)


def write_in_color() -> None:
    os.write(2, b"\x1b[1;35mValueError\x1b[0m: \x1b[35mred\x1b[0m\n")


def have_a_child(pid_file: Path) -> None:
    pid_file.write_text(str(subprocess.Popen(["sleep", str(FOR_EVER)]).pid))


def have_a_child_and_die(pid_file: Path) -> None:
    have_a_child(pid_file)
    killed()


def note_a_termination(path: Path) -> None:
    """Sleep until torch sends SIGTERM to this slow worker, and then touch a file and exit."""

    def note(*_: object) -> None:
        path.touch()
        os._exit(1)

    signal.signal(signal.SIGTERM, note)
    time.sleep(FOR_EVER)


def interrupt_main_and_sleep() -> None:
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(FOR_EVER)


def interrupt_main_on_leaving() -> None:
    """When this worker exits, send main SIGINT, and keep main waiting for another 0.3 s."""
    Finalize(None, _interrupt_main_slowly, exitpriority=100)


def _interrupt_main_slowly() -> None:
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(0.3)


class Unpicklable(Numbers):
    """A dataset that can't be sent to a spawned worker."""

    def __init__(self) -> None:
        super().__init__()
        self.double = lambda number: 2 * number


class NoWayBack(Numbers):
    """A dataset that can be pickled, but not unpickled."""

    def __setstate__(self, state: object) -> None:
        raise RuntimeError("cannot be rebuilt")


class PicklesWith(Numbers):
    """A dataset that calls `trouble()` in main when it's pickled for the second time."""

    pickled = 0

    def __getstate__(self) -> dict[str, object]:
        self.pickled += 1
        if self.pickled == 2 and self.trouble is not None:
            self.trouble()
        return {**self.__dict__, "trouble": None}


def collate_badly(samples: list[Any]) -> Any:
    raise KeyError("label")


def as_list(samples: list[Any]) -> list[Any]:
    return samples


class SlowToLoad:
    """An object that takes a minute to unpickle."""

    def __getstate__(self) -> str:
        return "asleep"

    def __setstate__(self, state: str) -> None:
        time.sleep(60)


class NeverStarted(Numbers):
    """A dataset that main is still writing to a stuck worker when the deadline passes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = SlowToLoad()
        self.rest = bytes(4_000_000)  # more than a pipe holds
