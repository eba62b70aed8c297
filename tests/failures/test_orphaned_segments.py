"""Test that `torch_shm_manager` processes that survive a killed run remove its segments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time

import psutil
import pytest

from dltutor.failures.orphaned_segments import BATCHES, kill_all, of_run
from dltutor.system.processes import segments, segments_of, unlink_segments

RUN = "import dltutor.failures.orphaned_segments as run; run.train(2, 'fork', 'file_system')"
GRACE = 20  # the most seconds to wait for the managers


@pytest.mark.thorough  # starts an interpreter that imports torch
def test_managers_that_live_on_remove_the_segments() -> None:
    with (
        # The managers make sockets in this folder, and a socket's path has to be short.
        tempfile.TemporaryDirectory(prefix="c-", dir="/tmp") as folder,
        subprocess.Popen(
            [sys.executable, "-c", RUN],
            env=os.environ | {"TMPDIR": folder},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        ) as run,
    ):
        assert run.stdout is not None
        run.stdout.readline()
        held = {
            name: file for each in of_run(folder) for name, file in segments_of(each.pid).items()
        }
        managers = [each for each in of_run(folder) if each.name() == "torch_shm_manager"]
        assert len(held) == BATCHES and managers
        os.killpg(run.pid, signal.SIGKILL)
        assert all(manager.is_running() for manager in managers), "no member of the group"
        until = time.monotonic() + GRACE
        while held.keys() & segments() and time.monotonic() < until:
            time.sleep(0.05)
        left = held.keys() & segments()
        kill_all(folder)
        unlink_segments(held)
        psutil.wait_procs(managers, timeout=GRACE)
    assert not left
