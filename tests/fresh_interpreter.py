"""Run code in a fresh interpreter, so that it doesn't depend on the tests that ran before."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

from own_process import DEADLINE

TESTS = Path(__file__).parent
# scripts/ and the tests' folders aren't packages, so they have to be on sys.path for imports.
FOLDERS = sorted(path.parent for path in TESTS.glob("*/test_*.py"))
PATHS = tuple(dict.fromkeys(map(str, (TESTS, *FOLDERS, TESTS.parent / "scripts"))))


def run_fresh(
    script: str, *, seconds: float = DEADLINE, before: Sequence[str] = (), **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a script that may import from tests/ and scripts/, and check that it exits with code 0.

    Args:
        script: The script, which may be indented.
        seconds: How long the script may take before subprocess raises TimeoutExpired.
        before: A command that starts the interpreter, such as ["unshare", "--mount"].
        options: More arguments for `subprocess.run`.

    Returns:
        The finished process, with its stdout and stderr as strings.
    """
    script = f"import sys; sys.path[:0] = {PATHS}\n" + dedent(script)
    done = subprocess.run(
        [*before, sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=seconds,
        **options,
    )
    assert done.returncode == 0, done.stderr
    return done
