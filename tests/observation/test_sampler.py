"""Check the memory sampler in this process, with made-up and real readers, and as its own process.

The Recorder runs the sampler as its helper process.
"""

from __future__ import annotations

import marshal
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
from own_process import until

from dltutor.observation.memory import sampler
from dltutor.observation.memory.sampler import Sampler
from dltutor.system import process_memory
from dltutor.system.process_memory import DENIED, File, Proc, Psutil

NO_PROCESS = 2**22 + 1  # above the highest pid that Linux assigns
CHEAP = {"rss": 1, "faults": 2, "threads": 3, "fds": 4}
FULL = {"uss": 5, "pss": 6, "pss_shm": 7}


class Made:
    """A reader of made-up processes. `processes` has the time when each pid started."""

    source = "made"

    def __init__(self, processes: dict[int, int]) -> None:
        self.processes = processes
        self.before_memory: Callable[[], None] = lambda: None
        self.denied: set[int] = set()

    def descendants(self, pids: list[int]) -> set[int]:
        return set(self.processes) if pids else set()

    def process(self, pid: int) -> tuple[float, dict[str, int]] | None:
        return (self.processes[pid], CHEAP) if pid in self.processes else None

    def memory(self, pid: int) -> Mapping[str, int | None] | None:
        self.before_memory()
        if pid not in self.processes:
            return None
        return DENIED if pid in self.denied else FULL


def sampler_of(reader: Any, pid: int = 1, period: float = 1e6, budget: float = 1.0) -> Sampler:
    return Sampler(reader, pid, period, budget)


def test_a_worker_that_dies_between_two_reads_is_in_neither() -> None:
    reader = Made({1: 10, 2: 20})
    sampling = sampler_of(reader)
    reader.before_memory = lambda: reader.processes.pop(2, None) and None
    line = sampling.look(full=True)
    assert line["memory"] == {1: FULL}
    assert sampling.look()["gone"] == [2]


def test_a_process_that_denies_access_is_said_to_and_keeps_its_cheap_figures() -> None:
    reader = Made({1: 10, 2: 20})
    reader.denied = {2}
    line = sampler_of(reader).look(full=True)
    assert line["memory"] == {1: FULL, 2: DENIED}
    assert line["processes"][2] == CHEAP


def test_proc_tells_what_denies_access_from_what_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Proc().memory(NO_PROCESS) is None
    reader = Proc()

    def deny(path: str) -> FileIO:
        if path.endswith("smaps_rollup"):
            raise PermissionError(path)
        return FileIO(path)

    monkeypatch.setattr(process_memory, "File", deny)
    assert reader.memory(os.getpid()) == DENIED
    assert reader.process(os.getpid()) is not None


class Stopped(BaseException):
    """A stand-in for KeyboardInterrupt, which would end the tests if it escaped."""


class StoppedAtOnce(File):
    """A file that raises Stopped right after it has been opened."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        raise Stopped


def test_an_interrupt_while_a_file_is_opened_leaves_no_descriptor_and_warns_of_none(
    monkeypatch: pytest.MonkeyPatch, nothing_left_behind: Callable[..., None]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(process_memory, "File", StoppedAtOnce)
        with suppress(Stopped):
            Proc().process(os.getpid())
            pytest.fail("nothing was opened")
    nothing_left_behind()


def test_a_pid_used_again_is_another_process() -> None:
    reader = Made({1: 10, 2: 20})
    sampling = sampler_of(reader)
    sampling.look()
    reader.processes[2] = 99
    line = sampling.look()
    assert line["gone"] == [2]
    assert 2 in line["processes"]


def test_a_stranger_that_has_the_pid_of_a_dead_worker_is_left_out() -> None:
    class OnlyMain(Made):
        def descendants(self, pids: list[int]) -> set[int]:
            return {2} if self.processes[2] == 20 else set()

    reader = OnlyMain({1: 10, 2: 20})
    sampling = sampler_of(reader)
    assert 2 in sampling.look()["processes"]
    reader.processes[2] = 99
    line = sampling.look()
    assert line["gone"] == [2]
    assert 2 not in line["processes"]


def test_a_dead_pid_gives_no_process_and_no_error() -> None:
    line = sampler_of(Proc(), NO_PROCESS).look(full=True)
    assert line == {"processes": {}, "gone": [], "memory": {}}


class Clock:
    """A stand-in for the module `time`. Tests set its time, `now`, and its CPU time, `used`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.used = 0.0

    def monotonic(self) -> float:
        return self.now

    def process_time(self) -> float:
        return self.used


class Simulated:
    """A sampler that looks four times a second, on a fake clock, at main and a test's processes.

    Args:
        monkeypatch: The test's fixture, which replaces the sampler's clock.
        cheap: CPU seconds that a look takes.
        full: CPU seconds that a look takes in addition if it reads memory.
        waits: Seconds on the clock for each CPU second of reading memory (default 0).
        options: More arguments for the Sampler. The defaults are a `memory_period` of 1 s and a
            `memory_budget` of 0.01.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        cheap: float,
        full: float,
        waits: float = 0.0,
        **options: Any,
    ) -> None:
        self.clock, self.cheap, self.full, self.waits = Clock(), cheap, full, waits
        monkeypatch.setattr(sampler, "time", self.clock)
        self.reader = Made({1: 10})
        self.reader.before_memory = self._read
        rates = {"memory_period": 1.0, "memory_budget": 0.01, **options}
        self.sampling = Sampler(self.reader, 1, **rates)  # type: ignore[arg-type]

    def _read(self) -> None:
        share = self.full / len(self.reader.processes)
        self.clock.used += share
        self.clock.now += self.waits * share

    def look(self) -> bool:
        """Look a quarter of a second later, and return whether that read memory."""
        self.clock.now += 0.25
        self.clock.used += self.cheap
        return self.sampling.look()["memory"] is not None

    def for_minutes(self, minutes: float) -> int:
        """Look for this many minutes, and return how often that read memory."""
        return sum(self.look() for _ in range(int(240 * minutes)))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Simulated]:
    return partial(Simulated, monkeypatch)


@pytest.mark.parametrize("full", [0.02, 0.5, 4.0])
def test_all_samples_together_cost_what_the_budget_gives(
    made: Callable[..., Simulated], full: float
) -> None:
    costly = made(cheap=0.0005, full=full)
    costly.for_minutes(60)
    assert costly.clock.used / costly.clock.now == pytest.approx(0.01, rel=0.2)


def test_cheap_samples_that_use_the_budget_up_leave_half_of_it_to_memory(
    made: Callable[..., Simulated],
) -> None:
    costly = made(cheap=0.01, full=0.2)
    read = costly.for_minutes(60)
    assert read * costly.full / costly.clock.now == pytest.approx(0.005, rel=0.2)


def test_workers_are_read_at_second_sight_where_main_was_cheap_to_read(
    made: Callable[..., Simulated],
) -> None:
    costly = made(cheap=0.0005, full=0.01)
    assert costly.look()
    costly.reader.processes[2] = 20
    assert [costly.look(), costly.look()] == [False, True]


def test_where_main_was_costly_to_read_its_workers_wait_until_it_is_paid_for(
    made: Callable[..., Simulated],
) -> None:
    costly = made(cheap=0.0, full=0.1)
    assert costly.look()
    costly.reader.processes[2] = 20
    waited = 1
    while not costly.look():
        waited += 1
    assert waited * 0.25 == pytest.approx((0.1 - sampler._AT_ONCE) / sampler._EARLY_BUDGET, abs=0.5)


@pytest.fixture
def family() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start a child that waits for a line, and yield this child and the pid of its own child."""
    script = "sleep 60 & echo $!; read line"
    child = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None and child.stdout is not None
    grandchild = int(child.stdout.readline())
    yield child, grandchild
    child.kill()
    child.wait()
    child.stdin.close()
    child.stdout.close()
    with suppress(ProcessLookupError):
        os.kill(grandchild, signal.SIGKILL)


def test_a_grandchild_is_sampled_as_a_worker_of_a_forkserver_is(
    family: tuple[subprocess.Popen[bytes], int],
) -> None:
    child, grandchild = family
    line = sampler_of(Proc(), os.getpid()).look(full=True)
    assert {os.getpid(), child.pid, grandchild} <= line["processes"].keys()
    memory = line["memory"][grandchild]
    rss = line["processes"][grandchild]["rss"]
    assert 0 < memory["uss"] <= memory["pss"] <= rss + (1 << 20)


def test_a_worker_that_loses_its_parent_is_sampled_until_it_ends(
    family: tuple[subprocess.Popen[bytes], int],
) -> None:
    child, grandchild = family
    sampling = sampler_of(Proc(), os.getpid())
    sampling.look()
    child.kill()
    child.wait()
    line = sampling.look()
    assert line["gone"] == [child.pid]
    assert grandchild in line["processes"]
    os.kill(grandchild, signal.SIGKILL)
    assert grandchild in until(lambda: sampling.look()["gone"])


def test_where_the_kernel_lists_no_children_every_process_is_asked(
    family: tuple[subprocess.Popen[bytes], int],
) -> None:
    child, grandchild = family
    reader = Proc()
    listed = reader.descendants([child.pid])
    reader._lists_children = False
    assert reader.descendants([child.pid]) == listed == {grandchild}


IDLE = """
import threading, time
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print(flush=True)
input()
"""


def test_psutil_and_proc_agree() -> None:
    command = [sys.executable, "-I", "-S", "-c", IDLE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as idle:
        assert idle.stdout is not None
        idle.stdout.readline()
        ours, theirs = Proc().process(idle.pid), Psutil().process(idle.pid)
        ours_full, theirs_full = Proc().memory(idle.pid), Psutil().memory(idle.pid)
        idle.communicate(b"\n")
    assert ours is not None and theirs is not None
    assert theirs[1]["rss"] == pytest.approx(ours[1]["rss"], rel=0.05)
    assert theirs[1]["threads"] == ours[1]["threads"] == 2
    assert ours_full is not None and theirs_full is not None
    assert theirs_full["uss"] == pytest.approx(ours_full["uss"], rel=0.05)
    assert theirs_full == {**DENIED, "uss": theirs_full["uss"]}


class Program:
    """The sampler as a process, started as the Recorder starts it."""

    def __init__(self, **options: Any) -> None:
        given = {
            "pid": os.getpid(),
            "parent": os.getpid(),
            "origin": time.monotonic(),
            "period": 0.02,
            "memory_period": 1.0,
            "memory_budget": 0.01,
            "often": True,
            "proc": "/proc",
            "path": sys.path,
            **options,
        }
        command = [sys.executable, "-I", "-S", sampler.__file__, marshal.dumps(given).hex()]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line: dict[str, Any] = marshal.loads(bytes.fromhex(self.process.stdout.readline().decode()))
        return line

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n".encode())
        self.process.stdin.flush()

    def leave(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


def test_the_program_goes_on_when_the_learner_presses_stop_until_it_is_told_to_end() -> None:
    with Program() as program:
        assert program.line()["limits"]["machine"] > 0
        first = program.line()
        program.process.send_signal(signal.SIGINT)
        program.line()
        program.say("end")
        while not (last := program.line())["last"]:
            pass
        assert first["memory"] and last["memory"]
        assert program.process.wait(5) == 0


def test_a_parent_that_does_not_read_neither_blocks_nor_busies_the_program() -> None:
    with Program(period=0.001) as program:
        time.sleep(1.0)  # the program fills the pipe
        before = cpu_seconds(program.process.pid)
        time.sleep(0.5)
        assert cpu_seconds(program.process.pid) - before < 0.25
        program.leave()
        assert program.process.wait(2) == 0


def cpu_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def test_the_program_ends_when_its_parent_is_gone_though_others_hold_its_input() -> None:
    with Program(parent=NO_PROCESS) as program:
        assert program.process.wait(5) == 0


def test_an_error_of_the_program_is_told_to_its_parent() -> None:
    with Program(period="soon") as program:
        lines = [program.line()]
        while select.select([program.process.stdout], [], [], 5)[0] and "error" not in lines[-1]:
            lines.append(program.line())
        assert "TypeError" in lines[-1]["error"]
