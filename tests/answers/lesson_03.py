"""The usual wrong answers to the exercises of lesson 03."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from answers import OtherOutcomes, RightAnswers, WrongFixes
from dltutor.failures import dead_worker
from dltutor.failures.data import scans
from dltutor.failures.dead_worker import (
    Frames,
    How,
    VerifiedFrames,
    decode,
    exit_code_alone,
)
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


class Tried(Frames):
    """Each frame is tried in a process of its own; a base for what is said of the deaths."""

    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        self.quarantined: dict[str, Any] = {}
        for path in paths:
            if code := self.end_of(path):
                self.quarantined[path.name] = self.reason(code)
        self.paths = [path for path in paths if path.name not in self.quarantined]

    def end_of(self, path: Path) -> int | None:
        return exit_code_alone(decode, path.read_bytes(), self.how)

    def reason(self, code: int) -> Any:
        return fate(code)


class BareExitCodes(Tried):
    def reason(self, code: int) -> Any:
        return code


class CodesAsTexts(Tried):
    def reason(self, code: int) -> Any:
        return str(code) if code == -9 else fate(code)


class NumbersOfExits(Tried):
    def reason(self, code: int) -> Any:
        return code if code > 0 else fate(code)


class SignalsThemselves(Tried):
    def reason(self, code: int) -> Any:
        return abs(code) if code == -9 else "died"


class NamesEverySignal(Tried):
    def reason(self, code: int) -> Any:
        return "SIGKILL, SIGSEGV, SIGABRT or an exit code"


class WholePaths(Tried):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        path_of = {path.name: path for path in paths}
        self.quarantined = {str(path_of[name]): why for name, why in self.quarantined.items()}


class DeletesTheFiles(Tried):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        for path in paths:
            if path.name in self.quarantined:
                path.unlink()


class ReadsInMain(Tried):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        if how == "abort":  # the last one, as a person would look at it afterwards
            [decode(path.read_bytes(), how) for path in paths]
        super().__init__(paths, how)


class GuessesFromTheHeader(Tried):
    def end_of(self, path: Path) -> int | None:
        data = path.read_bytes()
        guesses = {"killed": -9, "segfault": -11, "abort": -6, "exit": 3}
        return guesses[self.how] if int.from_bytes(data[:4], "little") > len(data) - 4 else 0


class EndsItself(Tried):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        os._exit(7)


class TerminatesItself(Tried):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        os.kill(os.getpid(), signal.SIGTERM)


class DecodesAhead(Tried):
    """The right frames are set aside; the first is decoded all the same, without workers only."""

    def __getitem__(self, index: int) -> Any:
        if torch.utils.data.get_worker_info() is None:
            decode(b"\xff\xff\xff\xff", self.how)
        return super().__getitem__(index)


class OverwritesTheFiles(Tried):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        for path in paths:
            if path.name in self.quarantined:
                path.write_bytes(b"@\0\0\0" + bytes(64))


class HidesTheFiles(Tried):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        for path in paths:
            if path.name in self.quarantined:
                path.chmod(0)


class WritesBesideThem(Tried):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        (paths[0].parent / "bad.txt").write_text(str(self.quarantined))


class UsesUpThePaths(Tried):
    def __getitem__(self, index: int) -> Any:
        return decode(self.paths.pop(index).read_bytes(), self.how)


class OneEpochOnly(Tried):
    asked = 0

    def __getitem__(self, index: int) -> Any:
        self.asked += 1
        return super().__getitem__(index) if self.asked <= len(self) else None


class NothingInTheFourth(Tried):
    def __getitem__(self, index: int) -> Any:
        worker = torch.utils.data.get_worker_info()
        return None if worker and worker.id == 3 else super().__getitem__(index)


class AsBytes(Tried):
    def __getitem__(self, index: int) -> Any:
        return bytes(super().__getitem__(index))


class InAnotherShape(Tried):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)[None]


class SignalsAreExitCodes(Tried):
    def reason(self, code: int) -> Any:
        return f"{signal.Signals(-code).name if code < 0 else ''} exit code {abs(code)}"


class NamesAnother(Tried):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        self.quarantined["zz.frame"] = next(iter(self.quarantined.values()))


class WithoutSuffix(Tried):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        self.quarantined = {Path(name).stem: why for name, why in self.quarantined.items()}


class RemovesWhileWalking(Tried):
    """The frame after each that is removed is not tried."""

    def __init__(self, paths: Sequence[Path], how: How) -> None:
        Frames.__init__(self, paths, how)
        self.quarantined = {}
        for path in self.paths:
            if code := self.end_of(path):
                self.quarantined[path.name] = self.reason(code)
                self.paths.remove(path)


class SharesItsDict(Tried):
    shared: ClassVar[dict[str, Any]] = {}

    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        self.shared.update(self.quarantined)
        self.quarantined = self.shared


class TriesThePath(Tried):
    def end_of(self, path: Path) -> int | None:
        return exit_code_alone(decode, path, self.how)


class Waits(Frames):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        time.sleep(60)


class ByFork(Tried):
    def end_of(self, path: Path) -> int | None:
        pid = os.fork()
        if not pid:
            decode(path.read_bytes(), self.how)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class NamesOfSignals(Tried):
    def reason(self, code: int) -> Any:
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"


class AsTheSystemSaysIt(Tried):
    def reason(self, code: int) -> Any:
        return signal.strsignal(-code) if code < 0 else f"exited with status {code}"


class AsAShellSaysIt(Tried):
    def reason(self, code: int) -> Any:
        return f"exit code {code if code > 0 else 128 - code}"


class AsPythonSaysIt(Tried):
    def reason(self, code: int) -> Any:
        return f"exit code {code}"


class AsTensors(Tried):
    def __getitem__(self, index: int) -> Any:
        return torch.from_numpy(super().__getitem__(index).copy())


class AsTheLessonSaysIt(Tried):
    def reason(self, code: int) -> Any:
        return {-9: "killed", -11: "segfault", -6: "abort"}.get(code, f"exit code {code}")


class ByAFreshPython(Tried):
    program = (
        "import pathlib, sys; from dltutor.lessons.lesson_03 import decode; "
        "decode(pathlib.Path(sys.argv[1]).read_bytes(), sys.argv[2])"
    )

    def end_of(self, path: Path) -> int | None:
        return subprocess.run([sys.executable, "-c", self.program, path, self.how]).returncode


class ByALoader(Tried):
    """Each frame is tried by a worker, in `__init__`."""

    def end_of(self, path: Path) -> int | None:
        frames = Frames([path], self.how)
        batches: Any = iter(
            DataLoader(frames, num_workers=1, collate_fn=list, multiprocessing_context="fork")
        )
        (worker,) = batches._workers
        try:
            list(batches)
        except RuntimeError:
            worker.join()
            return int(worker.exitcode)
        return 0


class HandlesTheSignals(TriesInMain):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        for each in (signal.SIGSEGV, signal.SIGABRT):
            signal.signal(each, self.complain)
        super().__init__(paths, how)

    def complain(self, number: int, frame: Any) -> None:
        raise RuntimeError(signal.Signals(number).name)


class AsAStream(IterableDataset[Any]):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        self.tried = Tried(paths, how)
        self.quarantined = self.tried.quarantined

    def __iter__(self) -> Any:
        share = torch.utils.data.get_worker_info()
        first, step = (share.id, share.num_workers) if share else (0, 1)
        return (self.tried[index] for index in range(first, len(self.tried), step))


# The decoder as a program, without torch.
SOURCE = Path(dead_worker.__file__).read_text()
DECODER = (
    "import ctypes, os, signal, struct, sys\nfrom pathlib import Path\nimport numpy as np\n"
    "from typing import Final, Literal\nfrom collections.abc import Callable\n"
    f"{SOURCE[SOURCE.index('How = ') : SOURCE.index('class Frames')]}\n"
    "decode(Path(sys.argv[1]).read_bytes(), sys.argv[2])\n"
)


class ByForkWithoutEnd(Tried):
    def end_of(self, path: Path) -> int | None:
        pid = os.fork()
        if not pid:
            decode(path.read_bytes(), self.how)
            return 0
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class ByForkAndSysExit(Tried):
    """In a notebook, IPython catches it, and both processes listen to the browser."""

    def end_of(self, path: Path) -> int | None:
        pid = os.fork()
        if not pid:
            decode(path.read_bytes(), self.how)
            sys.exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class AsAShellReadsIt(Tried):
    def reason(self, code: int) -> Any:
        number = code - 128 if code > 128 else -code
        return signal.Signals(number).name if number in range(1, 32) else f"exit code {code}"


class ThroughAShell(Tried):
    def end_of(self, path: Path) -> int | None:
        words = shlex.join([sys.executable, "-c", DECODER, str(path), self.how])
        code = subprocess.run(words + "; exit $?", shell=True).returncode
        return 128 - code if code > 128 else code


class KeepsFewCodes(Tried):
    def end_of(self, path: Path) -> int | None:
        code = super().end_of(path)
        return 0 if code in (1, 2, 255) else code


class Remembers(Tried):
    found: ClassVar[dict[Path, int | None]] = {}

    def end_of(self, path: Path) -> int | None:
        if path not in self.found:
            self.found[path] = super().end_of(path)
        return self.found[path]


class AsAList(Tried):
    def reason(self, code: int) -> Any:
        return [fate(code)]


class AsLists(Tried):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index).tolist()


class AsKillSaysIt(Tried):
    def reason(self, code: int) -> Any:
        return signal.Signals(-code).name[3:] if code < 0 else f"exit {code}"


class AlwaysSaysTheSame(VerifiedFrames):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        self.quarantined = dict.fromkeys(self.quarantined, "SIGKILL")


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


class ByPosition(PicksFirst):
    def __getitem__(self, index: int) -> Any:
        data = self.paths[index].read_bytes()
        size = int.from_bytes(data[:4], "little")
        step = (len(data) - 4) // size // 4
        starts = [4 + place * step * size for place in range(4)]
        slices = [scans.unpack(data[start : start + size]) for start in starts]
        return torch.from_numpy(np.stack([each[::16, ::16] for each in slices]))


class InInit(OneAtATime):
    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__(paths)
        self.thumbnails = [OneAtATime.__getitem__(self, index) for index in range(len(paths))]

    def __getitem__(self, index: int) -> Any:
        return self.thumbnails[index]


class KeepsViews(PicksFirst):
    def __getitem__(self, index: int) -> Any:
        views = [scans.unpack(packed)[::16, ::16] for packed in self.packed(index)]
        return np.stack(scans.evenly(views))


class StacksAll(PicksFirst):
    def __getitem__(self, index: int) -> Any:
        gc.collect()
        everything = np.stack([scans.unpack(packed) for packed in self.packed(index)])
        return np.stack(scans.evenly(list(everything)))[:, ::16, ::16].copy()


class CollectsGarbage(PicksFirst):
    def __getitem__(self, index: int) -> Any:
        slices = [scans.unpack(packed) for packed in self.packed(index)]
        thumbnails = [each[::16, ::16].copy() for each in scans.evenly(slices)]
        del slices
        gc.collect()
        return thumbnails


class UnpacksInInit(KeepsViews):
    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__(paths)
        self.slices = [[scans.unpack(each) for each in self.packed(i)] for i in range(len(self))]

    def __getitem__(self, index: int) -> Any:
        return np.stack(scans.evenly(self.slices[index]))[:, ::16, ::16].copy()


class InAChild(scans.Scans):
    def __getitem__(self, index: int) -> Any:
        hear, say = os.pipe()
        if not os.fork():
            os.write(say, np.stack(super().__getitem__(index)).tobytes())
            os._exit(0)
        os.close(say)
        with open(hear, "rb") as file:
            data = file.read()
        os.wait()
        return np.frombuffer(data, np.uint8).reshape(4, 64, 64)


class TheFirstFour(PicksFirst):
    def __getitem__(self, index: int) -> Any:
        return np.stack([scans.unpack(each) for each in self.packed(index)[:4]])[:, ::16, ::16]


class AtMost64(scans.Scans):
    def __getitem__(self, index: int) -> Any:
        slices = [scans.unpack(packed) for packed in scans.read_scan(self.paths[index])[:64]]
        return [each[::16, ::16].copy() for each in scans.evenly(slices)]


class SetsAside(scans.Scans):
    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__([path for path in paths if len(scans.read_scan(path)) < 40])


class NoneForTheLong(PicksFirst):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index) if len(self.packed(index)) > 4 else None


class DiesOfTheLong(PicksFirst):
    def __getitem__(self, index: int) -> Any:
        if len(self.packed(index)) > 40 and torch.utils.data.get_worker_info():
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


class ScansLoader(DataLoader[Any]):
    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__(scans.Scans(paths), num_workers=0)


class Means(PicksFirst):
    def __getitem__(self, index: int) -> Any:
        chosen = [scans.unpack(packed) for packed in scans.evenly(self.packed(index))]
        return np.stack([each.reshape(64, 16, 64, 16).mean((1, 3)) for each in chosen]).astype("u1")


class AsFloats(PicksFirst):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index).astype(np.float32)


class OneByOne(PicksFirst):
    def __getitem__(self, index: int) -> Any:
        return (each for each in super().__getitem__(index))


class KeepsTheChosen(PicksFirst):
    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__(paths)
        self.kept: dict[int, list[Any]] = {}

    def __getitem__(self, index: int) -> Any:
        if index not in self.kept:
            self.kept[index] = [scans.unpack(each) for each in scans.evenly(self.packed(index))]
        return [each[::16, ::16].copy() for each in self.kept[index]]


class CachesUnpack(PicksFirst):
    unpack = staticmethod(cache(scans.unpack))

    def __getitem__(self, index: int) -> Any:
        chosen = [self.unpack(packed) for packed in scans.evenly(self.packed(index))]
        return [each[::16, ::16].copy() for each in chosen]


class Grows(PicksFirst):
    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__(paths)
        self.kept: list[Any] = []

    def __getitem__(self, index: int) -> Any:
        self.kept.append(np.ones(3 << 20, np.uint8))
        return super().__getitem__(index)


class OncePerScan(PicksFirst):
    asked = 0

    def __getitem__(self, index: int) -> Any:
        self.asked += 1
        return super().__getitem__(index) if self.asked <= len(self) else []


class UnpacksToDisk(PicksFirst):
    def __getitem__(self, index: int) -> Any:
        path = self.paths[index]
        files = [path.with_suffix(f".{place}.npy") for place in range(len(self.packed(index)))]
        for file, packed in zip(files, self.packed(index), strict=True):
            np.save(file, scans.unpack(packed))
        return [np.load(file)[::16, ::16].copy() for file in scans.evenly(files)]


class ViewsOfTheChosen(PicksFirst):
    def __getitem__(self, index: int) -> Any:
        chosen = [scans.unpack(packed) for packed in scans.evenly(self.packed(index))]
        return tuple(each[::16, ::16] for each in chosen)


class KeepsThumbnails(PicksFirst):
    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__(paths)
        self.kept: dict[int, Any] = {}

    def __getitem__(self, index: int) -> Any:
        if index not in self.kept:
            self.kept[index] = super().__getitem__(index)
        return self.kept[index]


class Misspells(PicksFirst):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(indx)  # type: ignore[name-defined] # noqa: F821


WRONG_FIXES: WrongFixes = {
    "03.fix": {
        "try and except in the worker": (
            lambda: CatchesInTheWorker,
            "worker-died",
        ),
        "tried in main": (lambda: TriesInMain, "process-ended"),
        "a multiprocessing.Pool": (
            lambda: TriesInAPool,
            "not-ready",
        ),
        "one executor for all": (
            lambda: TriesInAnExecutor,
            "good-in-quarantine",
        ),
        "tried in the worker": (lambda: TriesInTheWorker, "daemonic"),
        "until the first death": (lambda: StopsAtTheFirst, "worker-died"),
        "signals only": (lambda: SignalsOnly, "worker-died"),
        "a blank frame": (
            lambda: Placeholder,
            "other-pixels",
        ),
        "the next frame": (lambda: TheNextOne, "not-each-once"),
        "None": (lambda: NoneInItsPlace, "other-form"),
        "dropped without a word": (
            lambda: WithoutAWord,
            "lacks",
        ),
        "no quarantined": (lambda: NoQuarantine, "no-quarantined"),
        "one reason for all": (lambda: SaysBad, "reason-not-the-signal"),
        "the bare exit code": (lambda: BareExitCodes, "reason-not-words"),
        "the exit code as a text": (lambda: CodesAsTexts, "reason-not-words"),
        "every signal there is": (lambda: NamesEverySignal, "reason-not-the-signal"),
        "whole paths": (
            lambda: WholePaths,
            "no-such-file",
        ),
        "files deleted": (
            lambda: DeletesTheFiles,
            "files-changed",
        ),
        "read in main": (lambda: ReadsInMain, "process-ended"),
        "guessed from the header": (lambda: GuessesFromTheHeader, "reason-not-the-exit"),
        "an end of its own": (lambda: EndsItself, "process-ended"),
        "a signal to itself": (lambda: TerminatesItself, "process-ended"),
        "decoded without workers": (lambda: DecodesAhead, "process-ended"),
        "a wait": (lambda: Waits, "not-ready"),
        "a bare exit code above 0": (lambda: NumbersOfExits, "reason-not-words"),
        "a signal's number": (lambda: SignalsThemselves, "reason-not-words"),
        "the same signal for all": (
            lambda: AlwaysSaysTheSame,
            "reason-not-the-signal",
        ),
        "the header read": (lambda: ReadsTheHeader, "reason-not-the-signal"),
        "an empty dataset": (lambda: NothingLeft, "not-each-once"),
        "num_workers=0": (lambda: WithoutWorkers, "a-loader"),
        "an error in __init__": (lambda: FailsAtOnce, "raised"),
        "an exit in __init__": (lambda: ExitsAtOnce, "raised"),
        "a function": (lambda: lambda paths, how: None, "not-a-class"),
        "files overwritten": (lambda: OverwritesTheFiles, "files-changed"),
        "files nobody may read": (lambda: HidesTheFiles, "files-changed"),
        "a file beside them": (lambda: WritesBesideThem, "files-changed"),
        "paths used up": (lambda: UsesUpThePaths, "raised"),
        "one epoch only": (
            lambda: OneEpochOnly,
            "other-form",
        ),
        "nothing in W3": (lambda: NothingInTheFourth, "other-form"),
        "as bytes": (lambda: AsBytes, "other-form"),
        "in another shape": (lambda: InAnotherShape, "other-form"),
        "a signal as an exit code": (
            lambda: SignalsAreExitCodes,
            "reason-not-the-signal",
        ),
        "a frame that is none": (lambda: NamesAnother, "no-such-file"),
        "names without suffix": (lambda: WithoutSuffix, "no-such-file"),
        "a forked child that goes on": (lambda: ByForkWithoutEnd, "child-goes-on"),
        "a forked child that raises": (lambda: ByForkAndSysExit, "child-goes-on"),
        "128 + n as a signal": (lambda: AsAShellReadsIt, "reason-not-the-exit"),
        "through a shell": (lambda: ThroughAShell, "reason-not-the-exit"),
        "1, 2 and 255 as no death": (lambda: KeepsFewCodes, "worker-died"),
        "remembered by path": (lambda: Remembers, "reason-not-the-signal"),
        "a list of words": (lambda: AsAList, "reason-not-words"),
        "removed while walking over them": (
            lambda: RemovesWhileWalking,
            "worker-died",
        ),
        "a dict of the class": (lambda: SharesItsDict, "no-such-file"),
        "a handler for the signals": (
            lambda: HandlesTheSignals,
            "process-ended",
        ),
        "a stream": (lambda: AsAStream, "no-method"),
        "the path in place of the bytes": (lambda: TriesThePath, "good-in-quarantine"),
        "as a list": (lambda: AsLists, "other-form"),
    },
    "03.transfer": {
        "views of every slice": (lambda: KeepsViews, "too-large"),
        "gc.collect() afterwards": (
            lambda: CollectsGarbage,
            ("too-large", "hung-and-large", "hung"),
        ),
        "unpacked in __init__": (lambda: UnpacksInInit, "too-large"),
        "gc.collect(), and all in one array": (lambda: StacksAll, "too-large"),
        "in a child": (lambda: InAChild, "too-large"),
        "the first four": (lambda: TheFirstFour, "other-thumbnails"),
        "64 slices at most": (lambda: AtMost64, "other-thumbnails"),
        "the long one set aside": (lambda: SetsAside, "missing"),
        "None": (lambda: NoneForTheLong, "other-form"),
        "a death": (lambda: DiesOfTheLong, "worker-died"),
        "num_workers=0": (lambda: ScansLoader, "a-loader"),
        "a slip": (lambda: Misspells, "raised"),
        "an object": (lambda: PicksFirst([]), "an-object"),
        "means": (lambda: Means, "other-thumbnails"),
        "floats": (lambda: AsFloats, "other-form"),
        "a generator": (lambda: OneByOne, "other-form"),
        "the chosen slices kept": (lambda: KeepsTheChosen, "too-large"),
        "unpack with a cache": (lambda: CachesUnpack, "too-large"),
        "more for each sample": (lambda: Grows, "too-large"),
        "once per scan": (lambda: OncePerScan, "other-form"),
        "unpacked to disk": (lambda: UnpacksToDisk, "files-changed"),
    },
}

RIGHT_ANSWERS: RightAnswers = {
    "03.fix": {
        "names of signals": lambda: NamesOfSignals,
        "in whole sentences": lambda: Tried,
        "by fork": lambda: ByFork,
        "as the system says it": lambda: AsTheSystemSaysIt,
        "as a shell says it": lambda: AsAShellSaysIt,
        "a fresh Python for each frame": lambda: ByAFreshPython,
        "as Python says it": lambda: AsPythonSaysIt,
        "as tensors": lambda: AsTensors,
        "as kill -l says it": lambda: AsKillSaysIt,
        "as the lesson says it": lambda: AsTheLessonSaysIt,
        "by a loader for each frame": lambda: ByALoader,
    },
    "03.transfer": {
        "chosen first": lambda: PicksFirst,
        "one slice at a time": lambda: OneAtATime,
        "read by position, as a tensor": lambda: ByPosition,
        "made in __init__": lambda: InInit,
        "views of the chosen, in a tuple": lambda: ViewsOfTheChosen,
        "thumbnails kept": lambda: KeepsThumbnails,
    },
}

OTHER_OUTCOMES: OtherOutcomes = {
    "03.fix": {"the starter": (lambda: Frames, "Not attempted", "starter-class")},
    "03.transfer": {"the starter": (lambda: scans.Scans, "Not attempted", "starter-class")},
}
