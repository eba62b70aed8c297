"""Check that processes are ended with their descendants, and that what they left is removed."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from own_process import DEADLINE, until

from dltutor.system import marks
from dltutor.system.process_memory import Proc, Psutil, pss
from dltutor.system.processes import (
    adopt_orphans,
    descendants,
    end,
    has_name,
    held_segments,
    is_alive,
    known,
    segments,
    segments_of,
    unlink_segments,
)

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

NO_PROCESS = 2**22 + 1  # above the highest pid that Linux allows
ORPHAN = "sleep 600 >/dev/null 2>&1 & echo $!"


class Process(subprocess.Popen[str]):
    """A process that other code may reap. `Popen.__del__` would warn that it's still running."""

    def __del__(self) -> None:
        self.wait(10)


def start(code: str, *words: str) -> tuple[Process, list[int]]:
    """Start Python code that prints pids on one line, and return the process and these pids."""
    process = Process([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as out:
        return process, [int(word) for word in out.readline().split()]


def gone(pid: int) -> set[int]:
    """End a process and its descendants, and return the pids that `end` reports."""
    return {each.pid for each in end(known(pid))}


def started_orphan() -> int:
    done = subprocess.run(["sh", "-c", ORPHAN], capture_output=True, text=True, check=True)
    return int(done.stdout)


# --- finding processes


GRANDCHILD = """
import subprocess, time
child = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE,
                         start_new_session=True)
print(child.pid, child.stdout.readline().decode().strip(), flush=True)
time.sleep(600)
"""


def test_descendants_are_children_and_their_children_in_whatever_session() -> None:
    process, pids = start(GRANDCHILD)
    for reader in (Proc(), Psutil()):
        assert reader.descendants([process.pid]) == {*pids} and len(pids) == 2
        assert b"sleep 600 & echo" in reader.command(pids[0])
        assert reader.process(process.pid) is not None
    assert {process.pid, *pids} <= descendants(os.getpid())
    assert gone(process.pid) == {process.pid, *pids}
    assert not any(map(is_alive, [process.pid, *pids]))
    for reader in (Proc(), Psutil()):
        assert reader.command(process.pid) == b"" and reader.process(process.pid) is None


def test_what_is_not_there_is_no_trouble() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert gone(child.pid) == {child.pid}
    assert gone(NO_PROCESS) == {NO_PROCESS}
    assert (pss(NO_PROCESS), pss(os.getpid()) > 1 << 20) == (0, True)
    assert marks.carriers(0) == set() and not marks.carries(os.getpid(), 0)
    assert end() == set()


# --- adopting orphans, and dying with a parent


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
    end(known(adopted))


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
    assert subprocess.run([sys.executable, "-c", code], timeout=DEADLINE).returncode == 1


# --- ending processes


DEAF = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
print(os.getpid(), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("permitted", [True, False])
def test_a_process_that_is_deaf_to_signals_is_ended_and_reaped(
    permitted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(pid: int) -> int:
        raise PermissionError

    if not permitted:  # as in some containers
        monkeypatch.setattr(os, "pidfd_open", forbidden)
    process, (pid,) = start(DEAF)
    assert gone(pid) == {process.pid}
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("adopting", [False, True])
def test_processes_that_keep_starting_others_are_all_ended(adopting: bool, tmp_path: Path) -> None:
    # Each loop has its own session, and writes down its pid and those of its sleeps, which outlive
    # the loop.
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
        end(*(known(each.pid) for each in loops))
        adopt_orphans(before)
    time.sleep(0.05)
    pids = {int(pid) for pid in (tmp_path / "pids").read_text().split()}
    assert not [pid for pid in pids if is_alive(pid)]


def test_what_descends_is_ended_and_the_process_itself_lives() -> None:
    code = """
import subprocess, sys
from dltutor.system.processes import end_descendants
children = [subprocess.Popen(["sleep", "600"], start_new_session=bool(own)) for own in (0, 1)]
assert {each.pid for each in end_descendants()} == {child.pid for child in children}
assert end_descendants() == set()
print(*(child.pid for child in children))
"""
    process, pids = start(code)
    assert process.wait(30) == 0
    assert len(pids) == 2 and not any(map(is_alive, pids))


def test_who_is_spared_is_not_ended_and_its_children_are() -> None:
    process, (child, grandchild) = start(GRANDCHILD)
    # Before the grandchild runs `sleep`, it has its parent's command line, so it would be spared.
    until(lambda: has_name(grandchild, b"sleep\0"))
    ended = {each.pid for each in end(known(process.pid), spare=[b"sh\0-c\0sleep"])}
    assert ended == {process.pid, grandchild}
    end(known(child))  # the shell may be gone, because it has nothing left to wait for


def make_semaphores() -> None:
    while True:
        multiprocessing.get_context("fork").Lock()


def test_a_process_that_makes_semaphores_leaves_no_name_behind() -> None:
    # The fixture `nothing_left_behind` looks for the names.
    for _ in range(30):
        maker = multiprocessing.get_context("fork").Process(target=make_semaphores)
        maker.start()
        time.sleep(0.02)
        process = known(maker.pid or 0)
        assert end(process) == {process}
        maker.join()


def test_a_pid_that_is_another_process_by_now_is_left_alone() -> None:
    child = subprocess.Popen(["sleep", "600"])
    earlier = known(child.pid)._replace(start=known(child.pid).start - 1)
    assert end(earlier) == {earlier}
    assert child.poll() is None
    assert gone(child.pid) == {child.pid}
    child.wait()


# --- ending marked processes, and those that tidy up first


ORPHANS = """
import os, subprocess, sys
from dltutor.system import marks
outer = marks.new()
marks.put(outer)
inner = marks.new()
print(outer, inner, marks.new() == 0, flush=True)
def forget(mark):
    if os.fork() == 0:
        marks.put(mark)
        # Without an environment, in a session of its own, as an orphan.
        subprocess.Popen(["sleep", "600"], env={}, start_new_session=True,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os._exit(0)
    os.wait()
forget(0)
forget(inner)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="marks are Linux's")
def test_a_mark_finds_what_has_lost_its_parent_its_session_and_its_environment() -> None:
    done = subprocess.run([sys.executable, "-c", ORPHANS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    outer, inner, _ = map(int, done.stdout.replace("False", "0").replace("True", "1").split())
    both, one = marks.carriers(outer), marks.carriers(inner)
    assert len(both) == 2 and len(one) == 1 and one < both
    assert {each.pid for each in end(mark=inner)} == one
    assert {pid for pid in both if is_alive(pid)} == both - one
    assert {each.pid for each in end(mark=outer)} >= both - one
    assert not any(map(is_alive, both))


def test_a_process_of_multiprocessing_is_known_to_it_as_killed() -> None:
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    process.start()
    assert process.pid is not None
    end(known(process.pid))
    assert process.exitcode == -signal.SIGKILL


TIDIER = """
import os, sys, time
path = sys.argv[1]
print(os.getpid(), flush=True)
time.sleep(float(sys.argv[2]))
open(path, "w").close()
"""


@pytest.mark.parametrize(
    ("name", "takes", "tidied"),
    [
        ("multiprocessing.resource_tracker", 1.5, True),
        ("torch_shm_manager", 600, False),
        ("another", 0.5, False),
    ],
)
def test_those_that_tidy_up_get_four_seconds_and_no_more(
    name: str, takes: float, tidied: bool, tmp_path: Path
) -> None:
    process, _ = start(TIDIER, str(tmp_path / "tidied"), str(takes), name)
    started = time.monotonic()
    assert gone(process.pid) == {process.pid}
    assert (tmp_path / "tidied").exists() == tidied
    assert time.monotonic() - started < 8


def test_one_that_has_no_command_line_yet_may_be_about_to_tidy_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, _ = start(TIDIER, str(tmp_path / "tidied"), "0.5")
    monkeypatch.setattr(Proc, "command", lambda self, pid: b"")
    assert gone(process.pid) == {process.pid}
    assert (tmp_path / "tidied").exists()


# --- shared memory


HOLDER = """
import mmap, os, sys, time
kept = []
for how in ("open", "mapped"):
    path = f"/dev/shm/torch_{os.getpid()}_{how}"
    file = open(path, "w+b")
    file.truncate(4096)
    kept.append(mmap.mmap(file.fileno(), 0) if how == "mapped" else file)
open(f"/dev/shm/torch_{os.getpid()}_closed", "w").close()
print(os.getpid(), flush=True)
time.sleep(600)
"""


def test_segments_that_a_process_has_in_hand_go_with_it_and_no_others() -> None:
    process, _ = start(HOLDER)
    pid = process.pid
    names = {f"torch_{pid}_{how}" for how in ("open", "mapped", "closed")}
    assert names <= segments()
    try:
        # A pid in a segment's name doesn't make the segment the process's own, because with `docker
        # --ipc=host`, the pid may belong to another container.
        assert segments_of(pid).keys() == names - {f"torch_{pid}_closed"}
        end(known(pid))
        assert names & segments() == {f"torch_{pid}_closed"}
    finally:
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(f"/dev/shm/{name}")


def test_a_segment_that_is_mapped_here_or_whose_name_is_another_file_by_now_stays() -> None:
    path = Path("/dev/shm/torch_4190002_1_0")
    path.write_bytes(bytes(mmap.PAGESIZE))
    try:
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0):
            owned = segments_of(os.getpid())
            assert path.name in owned
            unlink_segments(owned)
            assert path.exists()
            path.unlink()
            path.touch()
        unlink_segments(owned)
        assert path.exists()
        with path.open() as file:
            owned = segments_of(os.getpid())
        unlink_segments({path.name: owned[path.name]})
        assert not path.exists()
    finally:
        path.unlink(missing_ok=True)


def test_a_batch_without_a_name_counts_for_who_has_it_open_and_for_nobody_else() -> None:
    if not os.path.isdir("/dev/shm"):
        pytest.skip("there is no /dev/shm here")
    before = held_segments([os.getpid()])
    path = Path(f"/dev/shm/torch_test_{os.getpid()}")
    with path.open("w+b") as file:
        path.unlink()
        file.write(bytes(1 << 20))
        file.flush()
        again = os.dup(file.fileno())  # the same file, counted once
        after = held_segments([os.getpid()])
        os.close(again)
        new = after.keys() - before.keys()
        assert [after[segment] for segment in new] == [1 << 20]
        assert not new & held_segments([os.getppid()]).keys()
    assert not new & held_segments([os.getpid()]).keys()
