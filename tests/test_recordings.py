"""Recordings are files of known content that go when the process does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from dltutor.failures.data.readings import shared_recordings


def test_recordings_are_made_once_and_differ_from_each_other() -> None:
    paths = shared_recordings(3, 100)
    assert shared_recordings(3, 100) is paths
    loaded = [np.load(path) for path in paths]
    assert [(each.dtype, each.shape) for each in loaded] == [(np.dtype("int16"), (100,))] * 3
    assert len({each.tobytes() for each in loaded}) == 3


def test_recordings_are_removed_at_the_end_of_the_process() -> None:
    script = "from dltutor.failures.data.readings import *; print(shared_recordings(1, 10)[0])"
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    path = Path(run.stdout.strip())
    assert path.parent.name.startswith("dltutor-")
    assert not path.parent.exists()
