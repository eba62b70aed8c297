"""Test which scripts need a main guard, and that `started_as` restores `__main__`."""

from __future__ import annotations

import subprocess
import sys

import pytest
from own_process import DEADLINE

from dltutor.failures.missing_main_guard import GUARDED, UNGUARDED, script, started_as


@pytest.mark.thorough  # starts one to three interpreters that import torch
@pytest.mark.parametrize(
    ("text", "start_method", "works"),
    [
        (UNGUARDED, "spawn", False),
        (GUARDED, "spawn", True),
        (UNGUARDED, "fork", True),
    ],
)
def test_the_script_itself_fails_without_a_guard_where_workers_are_new_interpreters(
    text: str, start_method: str, works: bool
) -> None:
    command = [sys.executable, str(script(text, start_method))]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert (ran.returncode, ran.stdout.count("tensor")) == ((0, 4) if works else (1, 0))
    told = "An attempt has been made to start a new process before"
    assert (told in " ".join(ran.stderr.split())) == (not works)


def test_main_is_itself_again_afterwards() -> None:
    ours = sys.modules["__main__"]
    with pytest.raises(KeyError), started_as(script(UNGUARDED, "spawn")):
        assert sys.modules["__main__"] is not ours
        raise KeyError
    assert sys.modules["__main__"] is ours
