"""A fresh interpreter for what must not depend on the tests that ran before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

TESTS = Path(__file__).parent


def run_fresh(
    script: str, *, seconds: float = 60, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a script that may import from tests/; it must end in time and without an error."""
    script = f"import sys; sys.path.insert(0, {str(TESTS)!r})\n" + dedent(script)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=seconds, **options
    )
    assert done.returncode == 0, done.stderr
    return done
