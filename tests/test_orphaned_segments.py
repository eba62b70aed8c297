"""What a killed run leaves in /dev/shm depends on who was killed with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from dltutor.failures.orphaned_segments import BATCHES, broken, fixed, kill_all

pytestmark = pytest.mark.timeout(60, method="thread")

RUN = "import dltutor.failures.orphaned_segments as run; run.train(2, 'fork', 'file_system')"
GRACE = 20  # seconds for the managers to notice


def segments_of(folder: Path) -> list[Path]:
    pids = {p.pid for p in psutil.process_iter() if tmpdir(p) == str(folder)}
    names = Path("/dev/shm").glob("torch_*")
    return [path for path in names if int(path.name.split("_")[1]) in pids]


def tmpdir(process: psutil.Process) -> str | None:
    try:
        return process.environ().get("TMPDIR")
    except psutil.Error:
        return None


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A temporary folder with a name that is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="c-", dir="/tmp") as name:
        yield Path(name)


@pytest.mark.thorough  # the mode itself is in the default tier
def test_nothing_is_left_here_afterwards(nothing_left_behind: Callable[..., None]) -> None:
    before = set(Path("/tmp").glob("torch-shm-dir-*"))
    for case, left in ((broken(), BATCHES), (fixed(), 0)):
        assert str(case.consume(case.loader)) == f"{left} of {BATCHES} segments left"
    assert set(Path("/tmp").glob("torch-shm-dir-*")) <= before


@pytest.mark.thorough  # an interpreter with torch
def test_managers_that_live_on_remove_the_segments(short_folder: Path) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", RUN],
        env=os.environ | {"TMPDIR": str(short_folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with run:
        run.stdout.readline()
        segments = segments_of(short_folder)
        managers = [p for p in psutil.process_iter() if p.name() == "torch_shm_manager"]
        managers = [p for p in managers if tmpdir(p) == str(short_folder)]
        assert len(segments) == BATCHES and managers
        os.killpg(run.pid, signal.SIGKILL)
        assert all(manager.is_running() for manager in managers), "no member of the group"
    until = time.monotonic() + GRACE
    while any(map(Path.exists, segments)) and time.monotonic() < until:
        time.sleep(0.05)
    left = [path for path in segments if path.exists()]
    kill_all(str(short_folder))
    for path in left:
        path.unlink()
    psutil.wait_procs(managers, timeout=GRACE)
    assert not left
