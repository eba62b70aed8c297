"""Check that conftest.py catches leftovers, and sets up the fork server and each test's home."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import pytest
from own_process import DEADLINE

LEFT = pytest.fail.Exception


def test_the_fork_server_has_torch_already_and_no_failure_mode_imports_matplotlib() -> None:
    # If the target were a function of this module, the child would import this module, too.
    script = "import sys; sys.exit({'torch', 'matplotlib'} & {*sys.modules} != {'torch'})"
    child = get_context("forkserver").Process(target=exec, args=(script,))
    child.start()
    child.join()
    assert child.exitcode == 0


def test_a_child_process_left_behind_is_named(nothing_left_behind: Callable[..., None]) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    with pytest.raises(LEFT, match=r"process .*time\.sleep\(60\)"):
        nothing_left_behind(grace=0.1)
    child.kill()
    child.wait()


def test_a_dead_child_that_nobody_waited_for_is_named(
    nothing_left_behind: Callable[..., None],
) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.read()  # until the child has ended
    child.stdout.close()
    with pytest.raises(LEFT, match="zombie"):
        nothing_left_behind(grace=0.5)
    child.wait()


def test_an_open_descriptor_is_named(
    nothing_left_behind: Callable[..., None], tmp_path: Path
) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(LEFT, match=rf"descriptor {descriptor} -> .*{tmp_path.name}"):
        nothing_left_behind(grace=0.1)
    os.close(descriptor)


def test_a_shared_memory_segment_is_named(nothing_left_behind: Callable[..., None]) -> None:
    segment = SharedMemory(create=True, size=1)
    with pytest.raises(LEFT, match=f"/dev/shm/{segment.name}"):
        nothing_left_behind(grace=0.1)
    segment.close()
    segment.unlink()


def test_a_segment_of_another_process_is_none_of_ours(
    nothing_left_behind: Callable[..., None],
) -> None:
    # A grandchild whose parent has exited isn't our descendant. It stands in for another program.
    other = (
        "import os, sys\n"
        "from multiprocessing.shared_memory import SharedMemory\n"
        "if os.fork(): os._exit(0)\n"
        "segment = SharedMemory(create=True, size=1)\n"
        "print(segment.name, flush=True)\n"
        "sys.stdin.read()\n"
        "segment.unlink()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", other], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        name = run.stdout.readline().strip()
        run.wait(timeout=DEADLINE)
        assert os.path.exists(f"/dev/shm/{name}")
        # The fixture reports only our two pipes to the process.
        with pytest.raises(LEFT) as left:
            nothing_left_behind(grace=0.1)
        assert name not in str(left.value)


def test_what_a_dead_process_of_ours_left_is_named(
    nothing_left_behind: Callable[..., None],
) -> None:
    script = "import os; open(f'/dev/shm/torch_{os.getpid()}_1_0', 'w').close(); os._exit(0)"
    child = get_context("fork").Process(target=exec, args=(script,))
    child.start()
    child.join()
    segment = Path(f"/dev/shm/torch_{child.pid}_1_0")
    try:
        with pytest.raises(LEFT, match=segment.name):
            nothing_left_behind(grace=0.1)
    finally:
        segment.unlink()


def test_what_is_older_than_the_last_process_with_its_pid_is_none_of_ours(
    nothing_left_behind: Callable[..., None],
) -> None:
    child = get_context("fork").Process(target=exec, args=("",))
    child.start()
    segment = Path(f"/dev/shm/torch_{child.pid}_1_0")
    child.join()
    child.close()
    segment.touch()
    try:
        os.utime(segment, (0, 0))
        nothing_left_behind(grace=0.1)
    finally:
        segment.unlink()


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_semaphore_of_a_dead_worker_is_named(
    method: str, nothing_left_behind: Callable[..., None]
) -> None:
    hear, say = get_context(method).Pipe()
    child = get_context(method).Process(target=exec, args=(SEMAPHORE, {"say": say}))
    child.start()
    say.close()
    left = Path("/dev/shm", f"sem.{hear.recv()[1:]}")
    child.join()
    hear.close()
    try:
        with pytest.raises(LEFT, match=left.name):
            nothing_left_behind(grace=0.1)
    finally:
        left.unlink()


SEMAPHORE = """
import os
from multiprocessing import resource_tracker, synchronize
resource_tracker.register = synchronize.register = lambda *_: None
import multiprocessing
lock = multiprocessing.get_context("spawn").Lock()
say.send(lock._semlock.name)
os._exit(0)
"""


def test_a_running_thread_is_named(nothing_left_behind: Callable[..., None]) -> None:
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="forgotten")
    thread.start()
    with pytest.raises(LEFT, match="thread forgotten"):
        nothing_left_behind(grace=0.1)
    release.set()
    thread.join()


def test_a_home_belongs_to_one_test_alone(own_home: Path) -> None:
    assert os.environ["DLTUTOR_HOME"] == str(own_home)
    assert not own_home.exists()
