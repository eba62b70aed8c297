"""The usual wrong answers to the exercises of lesson 03."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from answers import WrongFixes
from dltutor.failures.dead_worker import (
    Frames,
    How,
    VerifiedFrames,
    decode,
    exit_code_alone,
)

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


class StopsAtTheFirst(VerifiedFrames):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        Frames.__init__(self, paths, how)
        self.quarantined = {}
        for path in paths:
            if code := exit_code_alone(decode, path.read_bytes(), how):
                self.quarantined[path.name] = f"exit code {code}"
                break
        self.paths = [path for path in paths if path.name not in self.quarantined]


class SignalsOnly(VerifiedFrames):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        if how == "exit":  # its code is not below 0
            self.paths, self.quarantined = list(paths), {}


class Placeholder(VerifiedFrames):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        self.paths = list(paths)

    def __getitem__(self, index: int) -> Any:
        if self.paths[index].name in self.quarantined:
            return np.zeros(64, np.uint8)
        return super().__getitem__(index)


class TheNextOne(Placeholder):
    def __getitem__(self, index: int) -> Any:
        if self.paths[index].name in self.quarantined:
            return self[(index + 1) % len(self)]
        return super().__getitem__(index)


class NoneInItsPlace(Placeholder):
    def __getitem__(self, index: int) -> Any:
        if self.paths[index].name in self.quarantined:
            return None
        return super().__getitem__(index)


class WithoutAWord(VerifiedFrames):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        self.quarantined = {}


class NoQuarantine(VerifiedFrames):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        del self.quarantined


class SaysBad(VerifiedFrames):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        self.quarantined = dict.fromkeys(self.quarantined, "bad frame")


class BareExitCodes(VerifiedFrames):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        codes = {"segfault": -signal.SIGSEGV, "exit": 3}
        self.quarantined = dict.fromkeys(self.quarantined, codes[how])  # type: ignore[arg-type]


class NumbersOfExits(VerifiedFrames):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        if how == "exit":
            self.quarantined = dict.fromkeys(self.quarantined, 3)  # type: ignore[arg-type]


class SignalsThemselves(VerifiedFrames):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        kept = dict.fromkeys(self.quarantined, signal.SIGSEGV)
        self.quarantined = kept  # type: ignore[assignment]


class AlwaysSaysTheSame(VerifiedFrames):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        self.quarantined = dict.fromkeys(self.quarantined, "SIGSEGV")


class ReadsTheHeader(Frames):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        self.quarantined: dict[str, str] = {}
        for path in paths:
            data = path.read_bytes()
            if int.from_bytes(data[:4], "little") > len(data) - 4:
                self.quarantined[path.name] = "header promises too much"
        self.paths = [path for path in paths if path.name not in self.quarantined]


class NothingLeft(VerifiedFrames):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        self.paths = []


class WithoutWorkers(DataLoader[Any]):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(Frames(paths, how), batch_size=2, num_workers=0)


class FailsAtOnce(VerifiedFrames):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(pahts, how)  # type: ignore[name-defined] # noqa: F821


class ExitsAtOnce(VerifiedFrames):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        sys.exit("no film")


Shards = list[DataLoader[Any]]


def keeps_texts(shards: Shards) -> list[str]:
    failed = []
    for loader in shards:
        try:
            for _ in loader:
                pass
        except ValueError as error:
            failed.append(str(error))
    return failed


def deletes_the_error(shards: Shards) -> list[Any]:
    failed = []
    for loader in shards:
        try:
            for _ in loader:
                pass
        except ValueError as error:
            failed.append(error)
            del error
            del loader
    return failed


def collects(shards: Shards) -> list[str]:
    failed = []
    for loader in shards:
        try:
            for _ in loader:
                pass
        except ValueError as error:
            failed.append(str(error))
        gc.collect()
    return failed


def passes(shards: Shards) -> list[str]:
    for loader in shards:
        try:
            for _ in loader:
                pass
        except Exception as error:
            error.with_traceback(None)
    return []


def stops(shards: Shards) -> list[str]:
    for loader in shards:
        try:
            for _ in loader:
                pass
        except ValueError as error:
            return [str(error.with_traceback(None))]
    return []


def catches_nothing(shards: Shards) -> list[str]:
    for loader in shards:
        for _ in loader:
            pass
    return []


def no_workers(shards: Shards) -> list[str]:
    for loader in shards:
        loader.num_workers = 0
        loader.multiprocessing_context = None
    return keeps_texts(shards)


def other_loaders(shards: Shards) -> list[str]:
    return keeps_texts([DataLoader(loader.dataset, num_workers=0) for loader in shards])


def with_a_timeout(shards: Shards) -> list[str]:
    for loader in shards:
        loader.timeout = 5
    return keeps_texts(shards)


def terminates(shards: Shards) -> list[str]:
    failed = []
    for loader in shards:
        try:
            for _ in loader:
                pass
        except ValueError as error:
            failed.append(str(error))
            for child in multiprocessing.active_children():
                child.terminate()
                child.join()
    return failed


def returns_nothing(shards: Shards) -> None:
    for loader in shards:
        try:
            for _ in loader:
                pass
        except ValueError as error:
            error.with_traceback(None)


def misspells(shards: Shards) -> list[str]:
    return [str(loaders) for loader in shards]  # type: ignore[name-defined] # noqa: F821


WRONG_FIXES: WrongFixes = {
    "03.predict": {
        "a traceback": (lambda: "a", "cannot send a traceback"),
        "another worker": (lambda: "c", "Nobody starts another one"),
        "it waits": (lambda: "d", "did not wait for ever"),
        "no option": (lambda: "e", "none of the options"),
    },
    "03.diagnose": {
        "the number of the batch": (lambda: 4, "is the number of the batch"),
        "its neighbour": (lambda: 8, "You have the right batch"),
        "counted from 1": (lambda: 10, "count from 0"),
        "a frame of W1": (lambda: 2, "W1 did not die"),
        "a healthy frame of W0": (lambda: 12, "Try every frame in a process of its own"),
        "a file name": (lambda: "09.frame", "A `str` is no index"),
        "a path": (lambda: PurePosixPath("/tmp/09.frame"), "A `PurePosixPath` is no index"),
        "out of range": (lambda: 16, "run from 0 to 15"),
    },
    "03.fix": {
        "try and except in the worker": (lambda: CatchesInTheWorker, "nothing was raised here"),
        "tried in main": (lambda: TriesInMain, "ended the process that made it"),
        "a multiprocessing.Pool": (lambda: TriesInAPool, "a `multiprocessing.Pool` waits"),
        "one executor for all": (lambda: TriesInAnExecutor, "that can be decoded, and only"),
        "tried in the worker": (lambda: TriesInTheWorker, "may not start processes"),
        "until the first death": (lambda: StopsAtTheFirst, "go on after the first death"),
        "signals only": (lambda: SignalsOnly, "Which exit codes mean that all went well"),
        "a blank frame": (lambda: Placeholder, "3 of 20 frames are blank"),
        "the next frame": (lambda: TheNextOne, "came 3 times"),
        "None": (lambda: NoneInItsPlace, "3 samples are None"),
        "dropped without a word": (lambda: WithoutAWord, "vanish without a word"),
        "no quarantined": (lambda: NoQuarantine, "has no `quarantined`"),
        "one reason for all": (lambda: SaysBad, "the reason is `bad frame`"),
        "the bare exit code": (lambda: BareExitCodes, "`signal.Signals(11).name`"),
        "a bare exit code above 0": (lambda: NumbersOfExits, 'words: "exit code 3"'),
        "a member of an enum": (lambda: SignalsThemselves, "its name, `.name`: SIGSEGV"),
        "the same signal for all": (
            lambda: AlwaysSaysTheSame,
            "Under a decoder that exits, the right frames are set aside, and the reason is `SIG",
        ),
        "the decoder's source read": (lambda: ReadsTheHeader, "`header promises too much`"),
        "an empty dataset": (lambda: NothingLeft, "No frame arrives"),
        "num_workers=0": (lambda: WithoutWorkers, "keeps its workers"),
        "an error in __init__": (lambda: FailsAtOnce, "name 'pahts' is not defined"),
        "an exit in __init__": (lambda: ExitsAtOnce, "no film"),
        "a function": (lambda: lambda paths, how: None, "the check takes a class"),
    },
    "03.transfer": {
        "text in place of the error": (lambda: keeps_texts, "The report does not hold them"),
        "del error": (lambda: deletes_the_error, "Your report holds exceptions"),
        "gc.collect()": (lambda: collects, "in vain for W0"),
        "except and pass": (lambda: passes, "The report has 0 entries"),
        "stops at the first": (lambda: stops, "Shard 3 was never read"),
        "no try": (lambda: catches_nothing, "ended the whole run"),
        "num_workers=0": (lambda: no_workers, "have 0 now"),
        "loaders of its own": (lambda: other_loaders, "Shard 1 was never read"),
        "timeout=": (lambda: with_a_timeout, "`timeout=` is for a batch"),
        "terminate": (lambda: terminates, "belongs to none of the shards"),
        "no report": (lambda: returns_nothing, "returns a NoneType"),
        "a slip": (lambda: misspells, "name 'loaders' is not defined"),
        "no function": (lambda: 3, "takes the function itself"),
    },
}
