"""Define right and wrong answers to the exercises of lesson 03."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from answers import RightAnswers, WrongFixes, delivering, like
from dltutor.failures.data import scans
from dltutor.failures.dead_worker import Frames, How, decode, exit_code_alone
from dltutor.observation.texts import fate

FORK = multiprocessing.get_context("fork")


class CatchesInTheWorker(Frames):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except Exception:
            return np.zeros(64, np.uint8)


class TriesInMain(Frames):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        self.quarantined: dict[str, str] = {}
        for path in paths:
            try:
                decode(path.read_bytes(), how)
            except BaseException as error:
                self.quarantined[path.name] = str(error)


class TriesInAPool(Frames):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        with FORK.Pool(2) as pool:
            pool.starmap(decode, [(path.read_bytes(), how) for path in paths])


class TriesInAnExecutor(Frames):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        self.quarantined: dict[str, str] = {}
        with ProcessPoolExecutor(1, mp_context=FORK) as pool:
            for path in paths:
                try:
                    pool.submit(decode, path.read_bytes(), how).result()
                except Exception as error:
                    self.quarantined[path.name] = type(error).__name__
        self.paths = [path for path in paths if path.name not in self.quarantined]


class TriesInTheWorker(Frames):
    def __getitem__(self, index: int) -> Any:
        if exit_code_alone(super().__getitem__, index):
            return np.zeros(64, np.uint8)
        return super().__getitem__(index)


class Tried(Frames):
    """A right answer to "03.fix", which tries each frame in a separate process.

    A frame that ends its process is called deadly, and goes into `quarantined`.
    """

    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        self.quarantined: Any = {}
        for path in paths:
            if code := self.end_of(path):
                self.quarantined[path.name] = self.reason(code)
        self.paths = [path for path in paths if path.name not in self.quarantined]

    def end_of(self, path: Path) -> int | None:
        return exit_code_alone(decode, path.read_bytes(), self.how)

    def reason(self, code: int) -> Any:
        return fate(code)


def saying(reason: Callable[[int], Any]) -> Any:
    """Make a subclass of `Tried` that quarantines each deadly frame with `reason(exit code)`."""
    return like(Tried, reason=lambda self, code: reason(code))


def keeping(change: Callable[[Tried, Sequence[Path]], Any]) -> Any:
    """Make a subclass of `Tried` whose `__init__` ends with `change(self, paths)`."""

    def make(self: Tried, paths: Sequence[Path], how: How) -> None:
        Tried.__init__(self, paths, how)
        change(self, paths)

    return like(Tried, __init__=make)


def put_in(instead: Callable[[Any, int], Any]) -> Any:
    """Make a subclass of `Tried` that returns `instead(self, index)` for deadly frames."""

    def get(self: Any, index: int) -> Any:
        if self.paths[index].name in self.quarantined:
            return instead(self, index)
        return Tried.__getitem__(self, index)

    def make(self: Any, paths: Sequence[Path], how: How) -> None:
        Tried.__init__(self, paths, how)
        self.paths = list(paths)

    return like(Tried, __init__=make, __getitem__=get)


def as_a_shell_reads_it(code: int) -> str:
    number = code - 128 if code > 128 else -code
    return signal.Signals(number).name if number in range(1, 32) else f"exit code {code}"


def whole_paths(self: Tried, paths: Sequence[Path]) -> None:
    path_of = {path.name: path for path in paths}
    self.quarantined = {str(path_of[name]): why for name, why in self.quarantined.items()}


def delete_the_files(self: Tried, paths: Sequence[Path]) -> None:
    for path in paths:
        if path.name in self.quarantined:
            path.unlink()


class SignalsOnly(Tried):
    """Wrong: ignores exit codes without a signal, so it keeps a frame on which `decode` exits."""

    def end_of(self, path: Path) -> int | None:
        code = super().end_of(path)
        return code if code and code < 0 else None


class ByFork(Tried):
    def end_of(self, path: Path) -> int | None:
        pid = os.fork()
        if not pid:
            decode(path.read_bytes(), self.how)
            self.end_child()
            return 0
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def end_child(self) -> None:
        os._exit(0)


class PicksFirst(scans.Scans):
    def __getitem__(self, index: int) -> Any:
        chosen = [scans.unpack(packed) for packed in scans.evenly(self.packed(index))]
        return np.stack(chosen)[:, ::16, ::16].copy()

    def packed(self, index: int) -> list[bytes]:
        return scans.read_scan(self.paths[index])


class OneAtATime(PicksFirst):
    def __getitem__(self, index: int) -> Any:
        thumbnails = [scans.unpack(packed)[::16, ::16].copy() for packed in self.packed(index)]
        return np.stack(scans.evenly(thumbnails))


class KeepsViews(PicksFirst):
    def __getitem__(self, index: int) -> Any:
        views = [scans.unpack(packed)[::16, ::16] for packed in self.packed(index)]
        return np.stack(scans.evenly(views))


class SetsAside(scans.Scans):
    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__([path for path in paths if len(scans.read_scan(path)) < 40])


class ViewsOfTheChosen(PicksFirst):
    def __getitem__(self, index: int) -> Any:
        chosen = [scans.unpack(packed) for packed in scans.evenly(self.packed(index))]
        return tuple(each[::16, ::16] for each in chosen)


WRONG_FIXES: WrongFixes = {
    "03.fix": {
        "try and except in the worker": (CatchesInTheWorker, "worker-died"),
        "tried in main": (TriesInMain, "process-ended"),
        "a multiprocessing.Pool": (TriesInAPool, "not-ready"),
        "one executor for all": (TriesInAnExecutor, "good-in-quarantine"),
        "tried in the worker": (TriesInTheWorker, "daemonic"),
        "signals only": (SignalsOnly, "worker-died"),
        "a blank frame": (put_in(lambda self, index: np.zeros(64, np.uint8)), "other-pixels"),
        "the next frame": (
            put_in(lambda self, index: self[(index + 1) % len(self)]),
            "not-each-once",
        ),
        "None": (put_in(lambda self, index: None), "other-form"),
        "dropped without a word": (keeping(lambda self, paths: self.quarantined.clear()), "lacks"),
        "no quarantined": (
            keeping(lambda self, paths: delattr(self, "quarantined")),
            "not-a-dict",
        ),
        "one reason for all": (saying(lambda code: "bad frame"), "reason-not-the-signal"),
        "the bare exit code": (saying(int), "reason-not-words"),
        "whole paths": (keeping(whole_paths), "no-such-file"),
        "files deleted": (keeping(delete_the_files), "files-changed"),
        "a forked child that goes on": (
            like(ByFork, end_child=lambda self: None),
            "child-goes-on",
        ),
        "128 + n as a signal": (saying(as_a_shell_reads_it), "reason-not-the-exit"),
    },
    "03.transfer": {
        "views of every slice": (KeepsViews, "too-large"),
        "the first four": (
            like(PicksFirst, packed=lambda self, index: PicksFirst.packed(self, index)[:4]),
            "other-thumbnails",
        ),
        "the long one set aside": (SetsAside, "missing"),
        "floats": (
            delivering(PicksFirst, lambda thumbnails: thumbnails.astype(np.float32)),
            "other-form",
        ),
    },
}

RIGHT_ANSWERS: RightAnswers = {
    "03.fix": {
        "in whole sentences": Tried,
        "by fork": ByFork,
        "as tensors": delivering(Tried, lambda pixels: torch.from_numpy(pixels.copy())),
    },
    "03.transfer": {
        "chosen first": PicksFirst,
        "one slice at a time": OneAtATime,
        "views of the chosen, in a tuple": ViewsOfTheChosen,
    },
}
