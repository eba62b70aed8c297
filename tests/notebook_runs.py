"""Run one notebook under nbval, in its own pytest, and list the problems that this finds."""

from __future__ import annotations

import sys
from pathlib import Path

from binder_limits import DEADLINE, MOST_PSS, MOST_SHM, run

from notebooks import CELL_TIMEOUT, PYTHON, kernel_environment

TESTS = Path(__file__).resolve().parent

LEFTOVER_GRACE = 15
"""Seconds for workers to notice that their notebook kernel has ended. They check every 5 s."""


def validate(notebook: Path, *, solved: bool, limited: bool = False) -> list[str]:
    """Run a notebook from its own folder, and return the problems, or [] if there are none.

    Args:
        notebook: The path of the notebook.
        solved: Whether the notebook is a solved twin, whose outputs must match the saved ones
            (`--nbval`). If not, it's a learner's file, which must run unchanged and solve nothing
            (`--nbval-lax`). If the saved outputs are from a different Python version, nbval
            doesn't compare them, but each check must still be Correct.
        limited: Whether to run within Binder's limits (default False).
    """
    # Turn off buffering, so that the output of a run that's too slow shows which cell it reached.
    command = [sys.executable, "-u", "-m", "pytest", str(notebook)]
    command += ["--nbval" if solved and sys.version_info[:2] == PYTHON else "--nbval-lax"]
    command += ["--nbval-current-env", f"--nbval-cell-timeout={CELL_TIMEOUT}"]
    command += [f"--nbval-kernel-startup-timeout={CELL_TIMEOUT}"]
    command += [f"--nbval-sanitize-with={TESTS / 'nbval_sanitize.cfg'}"]
    # Ignore this project's pytest settings and conftest.py, and name the plugins to load.
    command += ["-c", "/dev/null", f"--rootdir={notebook.parent}", "--noconftest"]
    command += ["-p", "no_address_grammars", "-p", "nbval.plugin", "-p", "nbval_kernels"]
    command += ["-p", "no:cacheprovider"]
    command += ["-v", "--color=no", "--no-header", "--tb=short", "-rN"]
    before = set(notebook.parent.iterdir())
    with kernel_environment(strict=solved) as environment:
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        problems = _run(command, environment, limited=limited)
    made = set(notebook.parent.iterdir()) - before
    return problems + [f"it left {path.name} in {path.parent.name}/" for path in sorted(made)]


def _run(command: list[str], environment: dict[str, str], *, limited: bool) -> list[str]:
    # Run in tests/, where `-m pytest` finds our plugins. Kernels start in the notebook's folder.
    ended = run(
        command,
        environment=environment,
        folder=TESTS,
        limited=limited,
        measured=limited,
        deadline=DEADLINE,
        grace=LEFTOVER_GRACE,
    )
    problems = [f"it left a process: {process}" for process in ended.left]
    if ended.code is None:
        problems.append(f"it took longer than {DEADLINE} s and was ended")
    if limited and ended.pss > MOST_PSS:
        problems.append(f"it used {ended.pss:.0f} MB, and may use at most {MOST_PSS}")
    if limited and ended.shm > MOST_SHM:
        problems.append(f"it used {ended.shm:.0f} MB of /dev/shm, and may use at most {MOST_SHM}")
    return [*problems, ended.output] if ended.code != 0 else problems
