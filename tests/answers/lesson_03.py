"""The usual wrong answers to the exercises of lesson 03."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from answers import OtherOutcomes, RightAnswers, WrongFixes
from dltutor.failures import dead_worker
from dltutor.failures.dead_worker import (
    Frames,
    How,
    VerifiedFrames,
    decode,
    exit_code_alone,
)
from dltutor.lessons.lesson_03.material import train
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
        return abs(code) if code == -11 else "died"


class NamesEverySignal(Tried):
    def reason(self, code: int) -> Any:
        return "SIGKILL, SIGSEGV, SIGABRT or an exit code"


class WholePaths(Tried):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        path_of = {path.name: path for path in paths}
        self.quarantined = {str(path_of[name]): why for name, why in self.quarantined.items()}


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


class ByAFreshPython(Tried):
    def end_of(self, path: Path) -> int | None:
        return subprocess.run([sys.executable, "-c", DECODER, path, self.how]).returncode


# The decoder as a program, without torch: this answer would take half a minute with it.
SOURCE = Path(dead_worker.__file__).read_text()
DECODER = (
    "import ctypes, os, signal, struct, sys\nfrom pathlib import Path\nimport numpy as np\n"
    "from typing import Final, Literal\nfrom collections.abc import Callable\n"
    f"{SOURCE[SOURCE.index('How = ') : SOURCE.index('class Frames')]}\n"
    "decode(Path(sys.argv[1]).read_bytes(), sys.argv[2])\n"
)


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


def reads_a_batch_of_each(shards: Shards) -> list[str]:
    failed = []
    for loader in shards:
        batches = iter(loader)
        try:
            next(batches)
            next(batches)
            next(batches)
        except ValueError as error:
            failed.append(str(error))
            error.with_traceback(None)
        del batches
    return failed


def lets_go(shards: Shards) -> list[str]:
    failed = []
    for loader in shards:
        try:
            for _ in loader:
                pass
        except ValueError as error:
            failed.append(str(error))
            error.with_traceback(None)
    return failed


def keeps_what_is_left_of_the_error(shards: Shards) -> list[ValueError]:
    failed = []
    for loader in shards:
        try:
            for _ in loader:
                pass
        except ValueError as error:
            failed.append(error.with_traceback(None))
    return failed


def clears_the_frames(shards: Shards) -> list[ValueError]:
    failed = []
    for loader in shards:
        try:
            for _ in loader:
                pass
        except ValueError as error:
            traceback.clear_frames(error.__traceback__)
            failed.append(error.with_traceback(None))
    return failed


def shuts_the_iterator_down(shards: Shards) -> list[str]:
    failed = []
    for loader in shards:
        batches: Any = iter(loader)
        try:
            for _ in batches:
                pass
        except ValueError as error:
            failed.append(str(error))
        finally:
            batches._shutdown_workers()
    return failed


def a_process_for_each_shard(shards: Shards) -> list[str]:
    failed = []
    for loader in shards:
        hear, say = FORK.Pipe(duplex=False)
        process = FORK.Process(target=reads_one, args=(loader, say))
        process.start()
        if error := hear.recv():
            failed.append(error)
        process.join()
    return failed


def reads_one(loader: DataLoader[Any], say: Any) -> None:
    try:
        for _ in loader:
            pass
    except ValueError as error:
        say.send(str(error))
    else:
        say.send("")


def exits(shards: Shards) -> list[str]:
    sys.exit("enough")


def kills_itself(shards: Shards) -> list[str]:
    os.kill(os.getpid(), signal.SIGKILL)
    return []


def waits(shards: Shards) -> list[str]:
    time.sleep(60)
    return []


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
        "a file name": (lambda: "09.frame", "A `str` is not an index"),
        "a path": (lambda: PurePosixPath("/tmp/09.frame"), "A `PurePosixPath` is not an index"),
        "out of range": (lambda: 16, "run from 0 to 15"),
        "a truth": (lambda: True, "A `bool` is not an index"),
    },
    "03.fix": {
        "try and except in the worker": (lambda: CatchesInTheWorker, "nothing was raised here"),
        "tried in main": (lambda: TriesInMain, "Where could a deadly frame do no harm?"),
        "a multiprocessing.Pool": (lambda: TriesInAPool, "A `multiprocessing.Pool` waits"),
        "one executor for all": (lambda: TriesInAnExecutor, "that can be decoded, and only"),
        "tried in the worker": (lambda: TriesInTheWorker, "may not start processes"),
        "until the first death": (lambda: StopsAtTheFirst, "go on after the first death"),
        "signals only": (lambda: SignalsOnly, "Which exit codes mean that all went well"),
        "a blank frame": (lambda: Placeholder, "2 of 4 frames are blank"),
        "the next frame": (lambda: TheNextOne, "came 3 times"),
        "None": (lambda: NoneInItsPlace, "2 samples are None"),
        "dropped without a word": (lambda: WithoutAWord, "vanish without a word"),
        "no quarantined": (lambda: NoQuarantine, "has no `quarantined`"),
        "one reason for all": (lambda: SaysBad, "the reason is `bad frame`"),
        "the bare exit code": (lambda: BareExitCodes, "`signal.Signals(11).name`"),
        "the exit code as a text": (lambda: CodesAsTexts, "the reason is `-9`"),
        "every signal there is": (lambda: NamesEverySignal, "is killed by SIGSEGV (exit code -11)"),
        "whole paths": (lambda: WholePaths, "the name of the file alone"),
        "guessed from the header": (lambda: GuessesFromTheHeader, "Was each frame tried"),
        "an end of its own": (lambda: EndsItself, "ended with exit code 7. No frame does that"),
        "a signal to itself": (lambda: TerminatesItself, "was killed by SIGTERM"),
        "decoded without workers": (lambda: DecodesAhead, "read it with 0 workers, was killed by"),
        "a wait": (lambda: Waits, "`Waits(paths, how)` was not ready after 24 s"),
        "a bare exit code above 0": (lambda: NumbersOfExits, 'words: "exit code '),
        "a signal's number": (lambda: SignalsThemselves, "the reason is `11`"),
        "the same signal for all": (
            lambda: AlwaysSaysTheSame,
            'With `how="exit"`: the right frames are set aside, and the reason is `SIGSEGV`. A',
        ),
        "the header read": (lambda: ReadsTheHeader, "`header promises too much`"),
        "an empty dataset": (lambda: NothingLeft, "no frame arrives, and 2 of 4"),
        "num_workers=0": (lambda: WithoutWorkers, "keeps its workers"),
        "an error in __init__": (lambda: FailsAtOnce, "name 'pahts' is not defined"),
        "an exit in __init__": (lambda: ExitsAtOnce, "no film"),
        "a function": (lambda: lambda paths, how: None, "the check takes a class"),
    },
    "03.transfer": {
        "text in place of the error": (lambda: keeps_texts, "The report does not hold them"),
        "del error": (lambda: deletes_the_error, "Your report holds exceptions"),
        "gc.collect()": (lambda: collects, "in vain for a worker"),
        "a few batches": (lambda: reads_a_batch_of_each, "Of shard 1, 3 of 4 batches were read"),
        "an exit": (lambda: exits, "SystemExit: enough"),
        "a kill": (lambda: kills_itself, "that ran it was killed by SIGKILL"),
        "a wait": (lambda: waits, "did not come back within 20 s"),
        "a class": (lambda: VerifiedFrames, "takes the function itself, got <class"),
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

RIGHT_ANSWERS: RightAnswers = {
    "03.predict": {"b": lambda: "b", "'b'": lambda: "'b'"},
    "03.diagnose": {"an int": lambda: 9, "from numpy": lambda: np.int64(9)},
    "03.fix": {
        "names of signals": lambda: NamesOfSignals,
        "in whole sentences": lambda: Tried,
        "by fork": lambda: ByFork,
        "as the system says it": lambda: AsTheSystemSaysIt,
        "as a shell says it": lambda: AsAShellSaysIt,
        "a fresh Python for each frame": lambda: ByAFreshPython,
    },
    "03.transfer": {
        "the text kept": lambda: lets_go,
        "what is left of the error kept": lambda: keeps_what_is_left_of_the_error,
        "the frames cleared": lambda: clears_the_frames,
        "the iterator shut down": lambda: shuts_the_iterator_down,
        "a process for each shard": lambda: a_process_for_each_shard,
    },
}

OTHER_OUTCOMES: OtherOutcomes = {
    "03.predict": {"nothing": (lambda: ..., "Not attempted", "one of 'a', 'b', 'c', 'd'")},
    "03.diagnose": {"nothing": (lambda: None, "Not attempted", "set `culprit`")},
    "03.fix": {"the starter": (lambda: Frames, "Not attempted", "is still the broken one")},
    "03.transfer": {"the starter": (lambda: train, "Not attempted", "is still the one from above")},
}
