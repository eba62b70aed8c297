"""Check that `scripts/binder_limits.py` measures how much memory a command takes."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from binder_limits import Run, run

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


def taken(tmp_path: Path, code: str) -> Run:
    environment = {**os.environ, "DLTUTOR_HOME": str(tmp_path)}
    command = [sys.executable, "-c", dedent(code)]
    return run(command, environment=environment, folder=tmp_path)


def test_the_most_that_its_processes_had_counts_and_shared_pages_once(tmp_path: Path) -> None:
    ended = taken(
        tmp_path,
        """
        import os, time
        held = b"x" * 200 * 2**20
        with open("/dev/shm/dltutor-limits-test", "wb") as file:
            file.write(b"x" * 20_000_000)
        child = os.fork()
        time.sleep(3)
        if child:
            os.wait()
            os.remove(file.name)
            del held
            time.sleep(1)
        """,
    )
    assert ended.code == 0, ended
    assert 200 < ended.pss < 300
    assert 19 < ended.shm < 22


def test_what_is_killed_has_no_numbers(tmp_path: Path) -> None:
    ended = taken(tmp_path, "import os; os.kill(os.getppid(), 9)")
    assert ended.code != 0
    assert math.isnan(ended.pss)
