"""Processes are found and ended with all that descends from them, and what they left is removed."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from dltutor.system.process_memory import Proc, pss
from dltutor.system.processes import (
    adopt_orphans,
    descendants,
    end,
    end_descendants,
    is_alive,
    segments,
    unlink_segments,
)
from dltutor.system.psutil_reader import Psutil

pytestmark = [
    pytest.mark.usefixtures("nothing_left_behind"),
    pytest.mark.timeout(60, method="thread"),
]

NO_PROCESS = 2**22 + 1  # above the highest pid that Linux gives
ORPHAN = "sleep 600 >/dev/null 2>&1 & echo $!"


class Process(subprocess.Popen[str]):
    """One that somebody else may reap: that is no warning."""

    def __del__(self) -> None:
        self.wait(10)


def start(code: str, *words: str) -> tuple[Process, list[int]]:
    """Start Python code that prints pids on one line, and wait for that line."""
    process = Process([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as out:
        return process, [int(word) for word in out.readline().split()]


def until(condition: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def started_orphan() -> int:
    done = subprocess.run(["sh", "-c", ORPHAN], capture_output=True, text=True, check=True)
    return int(done.stdout)


# --- found


GRANDCHILD = """
import subprocess, time
child = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE,
                         start_new_session=True)
print(child.pid, child.stdout.readline().decode().strip(), flush=True)
time.sleep(600)
"""


def test_descendants_are_children_and_their_children_in_whatever_session() -> None:
    process, pids = start(GRANDCHILD)
    assert len(pids) == 2
    assert descendants(process.pid) == {*pids}
    assert {process.pid, *pids} <= descendants(os.getpid())
    assert end(process.pid) == {process.pid, *pids}
    assert not any(map(is_alive, [process.pid, *pids]))


def test_the_memory_of_a_process_is_told_and_that_of_none_is_nothing() -> None:
    assert pss(os.getpid()) > 1 << 20
    assert pss(NO_PROCESS) == 0


@pytest.mark.parametrize("reader", [Proc(), Psutil()])
def test_both_readers_find_the_same(reader: Proc | Psutil) -> None:
    process, pids = start(GRANDCHILD)
    assert reader.descendants([process.pid]) == {*pids}
    assert b"sleep 600 & echo" in reader.command(pids[0])
    assert reader.process(process.pid) is not None
    end(process.pid)
    assert reader.command(process.pid) == b""
    assert reader.process(process.pid) is None


# --- adopted


def test_orphans_are_adopted_while_that_is_on_and_by_others_afterwards() -> None:
    assert adopt_orphans(True) is False
    adopted = started_orphan()
    assert adopted in descendants(os.getpid())
    assert adopt_orphans(False) is True
    assert adopt_orphans(False) is False
    orphan = started_orphan()
    try:
        assert orphan not in descendants(os.getpid())
    finally:
        os.kill(orphan, signal.SIGKILL)
    end(adopted)


def test_a_process_dies_with_its_parent() -> None:
    code = """
import os, time
from dltutor.system.processes import die_with_parent
parent = os.getpid()
child = os.fork()
if child == 0:
    die_with_parent(parent)
    print(os.getpid(), flush=True)
time.sleep(600)
"""
    process, (child,) = start(code)
    process.kill()
    process.wait()
    until(lambda: not is_alive(child))


def test_a_process_whose_parent_is_dead_already_ends_at_once() -> None:
    code = f"from dltutor.system.processes import die_with_parent; die_with_parent({NO_PROCESS})"
    assert subprocess.run([sys.executable, "-c", code], timeout=30).returncode == 1


# --- ended


DEAF = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
print(os.getpid(), flush=True)
time.sleep(600)
"""


def test_a_process_that_is_deaf_to_signals_is_ended_and_reaped() -> None:
    process, (pid,) = start(DEAF)
    assert end(pid) == {process.pid}
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("adopting", [False, True])
def test_processes_that_keep_starting_others_are_all_ended(adopting: bool, tmp_path: Path) -> None:
    # Each appends its pid; a loop in another session, whose sleeps outlive it.
    loop = f"echo $$ >> {tmp_path}/pids; while :; do sleep 600 & echo $! >> {tmp_path}/pids; " + (
        "sleep 0.002; done"
    )
    (tmp_path / "pids").touch()
    before = adopt_orphans(adopting)
    loops = [
        Process(["sh", "-c", loop], start_new_session=True, stdout=subprocess.DEVNULL) for _ in "12"
    ]
    try:
        until(lambda: len((tmp_path / "pids").read_text().split()) > 20)
    finally:
        end(*(each.pid for each in loops))
        adopt_orphans(before)
    time.sleep(0.05)
    pids = {int(pid) for pid in (tmp_path / "pids").read_text().split()}
    assert not [pid for pid in pids if is_alive(pid)]


def test_what_descends_is_ended_and_the_process_itself_lives() -> None:
    process, pids = start(GRANDCHILD)
    assert end_descendants(process.pid) == {*pids}
    assert is_alive(process.pid)
    assert not any(map(is_alive, pids))
    end(process.pid)


def test_who_is_spared_lives_and_its_children_do_not() -> None:
    process, (child, grandchild) = start(GRANDCHILD)
    assert end_descendants(process.pid, spare=[child]) == {grandchild}
    assert is_alive(process.pid)
    end(process.pid)


def test_what_is_gone_already_is_no_trouble() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert end(child.pid, NO_PROCESS) == {child.pid, NO_PROCESS}
    assert end_descendants(NO_PROCESS) == set()


def test_a_process_of_multiprocessing_is_known_to_it_as_killed() -> None:
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    process.start()
    assert process.pid is not None
    end(process.pid)
    assert process.exitcode == -signal.SIGKILL


TIDIER = """
import os, sys, time
path = sys.argv[1]
print(os.getpid(), flush=True)
time.sleep(float(sys.argv[2]))
open(path, "w").close()
"""


@pytest.mark.parametrize(("takes", "tidied"), [(1.5, True), (600, False)])
@pytest.mark.parametrize("name", ["multiprocessing.resource_tracker", "torch_shm_manager"])
def test_those_that_tidy_up_get_four_seconds_and_no_more(
    name: str, takes: float, tidied: bool, tmp_path: Path
) -> None:
    process, _ = start(TIDIER, str(tmp_path / "tidied"), str(takes), name)
    started = time.monotonic()
    assert end(process.pid) == {process.pid}
    assert (tmp_path / "tidied").exists() == tidied
    assert time.monotonic() - started < 8


@pytest.mark.parametrize("has_command", [False, True])
def test_one_that_has_no_command_line_yet_may_be_about_to_tidy_up(
    has_command: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, _ = start(TIDIER, str(tmp_path / "tidied"), "0.5")
    if not has_command:
        monkeypatch.setattr(Proc, "command", lambda self, pid: b"")
    assert end(process.pid) == {process.pid}
    assert (tmp_path / "tidied").exists() != has_command


# --- shared memory


def test_segments_of_the_named_processes_are_removed_and_no_others() -> None:
    names = {"torch_4190001_1_0": False, "torch_4190002_1_0": True, "mine_4190001": True}
    try:
        for name in names:
            Path(f"/dev/shm/{name}").touch()
        unlink_segments([4190001, NO_PROCESS])
        assert {name: name in segments() for name in names} == names
    finally:
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(f"/dev/shm/{name}")


def test_a_segment_that_is_mapped_here_stays() -> None:
    path = Path("/dev/shm/torch_4190003_1_0")
    path.write_bytes(bytes(mmap.PAGESIZE))
    try:
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0):
            unlink_segments([4190003])
            assert path.exists()
        unlink_segments([4190003])
        assert not path.exists()
    finally:
        path.unlink(missing_ok=True)
