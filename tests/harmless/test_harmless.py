"""Check that instruments end only their own processes, and leave nothing if main is killed.

The instruments are `observe`, `diagnose`, `confine`, `watch`, and the checks of exercises.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import torch
from own_exercise import own_exercise
from own_process import DEADLINE, until
from torch.utils.data import DataLoader, Dataset, get_worker_info

from dltutor import confine, diagnose, observe, watch
from dltutor.lessons.engine.checking import check
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.outcomes import Outcome, correct
from dltutor.lessons.engine.running import theirs
from dltutor.lessons.lesson_12.helpers import torchrun
from dltutor.observation import sandbox
from dltutor.system import marks
from dltutor.system.processes import end, is_alive, segments

METHODS = (
    "fork",
    pytest.param("spawn", marks=pytest.mark.thorough),  # spawned workers have to import torch
    pytest.param("forkserver", marks=pytest.mark.thorough),
)
SAMPLES = 8


def wait_for(path: Path) -> None:
    until(path.exists)


class Waits(Dataset[int]):
    """A dataset of numbers that touches the file `begun`, and then waits for the file `awaited`."""

    def __init__(self, begun: Path, awaited: Path) -> None:
        self.begun = begun
        self.awaited = awaited

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> int:
        self.begun.touch()
        wait_for(self.awaited)
        return index


def make_loader(folder: Path, method: str) -> DataLoader[int]:
    """Make the loader that instruments run. Its samples wait until the neighbors have started."""
    dataset = Waits(folder / "begun", folder / "up")
    return DataLoader(dataset, 2, num_workers=2, multiprocessing_context=method)


@dataclass
class Neighbors:
    """Processes and a second loader that this process runs next to an instrument.

    Args:
        folder: Where to put the files by which the neighbors and the loaders wait for each other.
        method: The start method of the second loader's workers.
        arrived: The samples that the second loader has delivered.
        trouble: The exceptions that the threads have raised.
    """

    folder: Path
    method: str
    arrived: list[int] = field(default_factory=list)
    trouble: list[BaseException] = field(default_factory=list)

    def __enter__(self) -> Neighbors:
        script = f"while [ ! -e {self.folder}/begun ]; do sleep 0.02; done; sleep 600 & "
        script += f"echo $! > {self.folder}/child; touch {self.folder}/helped; wait"
        self.helper = subprocess.Popen(["sh", "-c", script])
        self.threads = [
            threading.Thread(target=self._start_processes),
            threading.Thread(target=self._load),
        ]
        for thread in self.threads:
            thread.start()
        return self

    def _start_processes(self) -> None:
        with self._noted():
            wait_for(self.folder / "begun")
            script = f"while [ ! -e {self.folder}/over ]; do sleep 0.02; done; exit 3"
            self.three = subprocess.Popen(["sh", "-c", script])
            self.server = subprocess.Popen(["sleep", "600"], start_new_session=True)
            # Now the second loader may fork its workers. A worker forked earlier could inherit
            # Popen's pipe, and Popen would wait until that worker exits.
            (self.folder / "started").touch()
            wait_for(self.folder / "helped")
            wait_for(self.folder / "loading")
            (self.folder / "up").touch()

    def _load(self) -> None:
        with self._noted():
            wait_for(self.folder / "started")
            dataset = Waits(self.folder / "loading", self.folder / "over")
            loader = DataLoader(dataset, 2, num_workers=2, multiprocessing_context=self.method)
            for batch in loader:
                self.arrived += batch.tolist()

    @contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.trouble.append(error)

    def assert_unharmed(self) -> None:
        (self.folder / "over").touch()
        assert self.three.wait(DEADLINE) == 3
        for thread in self.threads:
            thread.join(DEADLINE)
            assert not thread.is_alive()
        assert not self.trouble and sorted(self.arrived) == [*range(SAMPLES)]
        assert self.helper.poll() is None and self.server.poll() is None
        assert is_alive(int((self.folder / "child").read_text()))

    def __exit__(self, *raised: object) -> None:
        for name in ("begun", "started", "helped", "loading", "up", "over"):
            (self.folder / name).touch()
        for thread in self.threads:
            thread.join(DEADLINE)
        with suppress(OSError, ValueError):
            os.kill(int((self.folder / "child").read_text()), signal.SIGKILL)
        for process in (self.helper, getattr(self, "server", None), getattr(self, "three", None)):
            if process is not None:
                process.kill()
                process.wait()


def observed(folder: Path, method: str) -> None:
    assert observe(make_loader(folder, method), deadline=DEADLINE).end == "finished"


def diagnosed(folder: Path, method: str) -> None:
    found = diagnose(make_loader(folder, method), deadline=20 if method == "fork" else 60)
    assert found.tried


def checked(folder: Path, method: str) -> None:
    assert check("00.own", lambda: list(make_loader(folder, method))).outcome is Outcome.CORRECT


def confined(folder: Path, method: str) -> None:
    seen = confine(make_loader, open_files=200, deadline=DEADLINE, folder=folder, method=method)
    assert seen.end == "finished"


def watched(folder: Path, method: str) -> None:
    with watch():
        assert len(list(make_loader(folder, method))) == SAMPLES // 2


@pytest.fixture
def calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def gather(answer: Callable[[], object]) -> object:
        with theirs():
            return len(answer())  # type: ignore[arg-type]

    own_exercise(monkeypatch, Grader(gather, lambda _: correct(), at_most=DEADLINE))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("run", [observed, diagnosed, checked, confined, watched])
def test_whatever_somebody_else_started_meanwhile_lives_on(
    run: Callable[[Path, str], None],
    method: str,
    tmp_path: Path,
    calls_it: None,
    nothing_left_behind: Callable[..., None],
) -> None:
    with Neighbors(tmp_path, method) as neighbors:
        run(tmp_path, method)
        neighbors.assert_unharmed()


KILLED = """
import sys
from functools import partial
from pathlib import Path
import test_harmless as given

if __name__ == "__main__":
    how, method, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    given.interrupted(how, method, folder)
"""
GONE = 10  # seconds after which everything must be gone


class Holds(Dataset[torch.Tensor]):
    """A dataset whose second sample, in a worker, starts an orphan process and then sleeps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 1 and get_worker_info() is not None:
            subprocess.run(["sh", "-c", "sleep 600 >/dev/null 2>&1 &"], check=True)
            (self.folder / "busy").touch()
            time.sleep(600)
        return torch.zeros(1000)


def hold(folder: Path, method: str) -> DataLoader[torch.Tensor]:
    return DataLoader(Holds(folder), 2, num_workers=2, multiprocessing_context=method)


def interrupted(how: str, method: str, folder: Path) -> None:
    """Run an instrument on a loader that doesn't finish.

    `how` names the instrument. "check" stands for the sandbox in which checks run answers.
    """
    if how == "observe":
        observe(hold(folder, method), deadline=600)
    elif how == "diagnose":
        diagnose(lambda: hold(folder, method), deadline=600)
    elif how == "diagnose in a new interpreter":
        torch.cuda.is_initialized = lambda: True  # so that the doctor doesn't rely on forks
        diagnose(lambda: hold(folder, method), deadline=600)
    elif how == "confine":
        confine(hold, open_files=200, deadline=600, folder=folder, method=method)
    else:
        sandbox.run(lambda begin: (begin(), [*hold(folder, method)])[0], at_most=600)


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, marks=pytest.mark.thorough), signal.SIGKILL]
)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "how", ["observe", "diagnose", "diagnose in a new interpreter", "confine", "check"]
)
def test_nothing_is_left_of_a_run_whose_process_is_killed(
    how: str, method: str, number: int
) -> None:
    with tempfile.TemporaryDirectory(prefix="k-", dir="/tmp") as name:
        temporary = Path(name) / "t"
        temporary.mkdir()
        script = Path(name) / "killed.py"
        script.write_text(KILLED)
        words = [sys.executable, str(script), how, method, name]
        environment = {"TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(sys.path)}
        mark = marks.new()
        run = subprocess.Popen(
            words,
            env=os.environ | environment,
            stdout=subprocess.DEVNULL,
            preexec_fn=lambda: marks.put(mark),
        )
        try:
            wait_for(Path(name) / "busy")
            started = {pid for pid in marks.carriers(mark) if is_alive(pid)}
            assert len(started) > 4  # the run's process, a helper, two workers, and an orphan
            run.send_signal(number)
            run.wait()
            end_of_wait = time.monotonic() + GONE
            while left := _left(mark, started, temporary):
                assert time.monotonic() < end_of_wait, left
                time.sleep(0.05)
        finally:
            run.kill()
            run.wait()
            end(mark=mark)


def _left(mark: int, started: set[int], temporary: Path) -> list[str]:
    found = []
    for each in marks.carriers(mark):
        with suppress(psutil.Error):  # the process is gone or a zombie
            found.append(" ".join(psutil.Process(each).cmdline()))
    owners = {f"_{pid}_" for pid in started}
    found += [name for name in segments() if any(owner in name for owner in owners)]
    for folder, folders, files in os.walk(temporary):  # some may disappear during the walk
        found += [os.path.join(folder, name) for name in (*folders, *files)]
    return found


@pytest.mark.thorough  # it runs until its deadline of 10 s
def test_a_job_of_torchrun_leaves_no_folder(short_folder: Path) -> None:
    torchrun(deadline=10)  # torchrun makes a folder right away, and another one for each attempt
    assert os.listdir(short_folder) == []
