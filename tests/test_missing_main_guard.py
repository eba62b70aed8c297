"""A script that is run again by each of its workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dltutor.failures import missing_main_guard
from dltutor.failures.missing_main_guard import FAILURE, GUARDED, UNGUARDED, script, started_as
from dltutor.observation import observe

REASON = "RuntimeError: An attempt has been made to start a new process before"


def run(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=90)


@pytest.mark.thorough  # three interpreters with torch
def test_the_script_itself_says_the_same() -> None:
    ran = run(script(UNGUARDED, "spawn"))
    assert ran.returncode == 1
    assert REASON in " ".join(ran.stderr.split())
    assert "exited unexpectedly" in ran.stderr
    assert not ran.stdout


@pytest.mark.thorough  # three interpreters with torch
def test_the_script_with_a_guard_gives_its_four_batches() -> None:
    ran = run(script(GUARDED, "spawn"))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("tensor") == 4


def test_the_script_without_one_runs_under_fork() -> None:
    ran = run(script(UNGUARDED, "fork"))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("tensor") == 4


def test_the_reason_is_on_stderr_and_not_in_main() -> None:
    case = missing_main_guard.broken(workers=1, start_method="spawn")
    observation = observe(case.loader, consume=case.consume)
    assert observation.end == "worker died"
    assert REASON in " ".join(observation.stderr.split())
    assert "An attempt" not in str(observation.chain)


def test_main_is_itself_again_afterwards() -> None:
    ours = sys.modules["__main__"]
    with pytest.raises(KeyError), started_as(script(UNGUARDED, "spawn")):
        assert sys.modules["__main__"] is not ours
        raise KeyError
    assert sys.modules["__main__"] is ours
    assert FAILURE.start_methods == ("spawn", "forkserver")
