"""Run one notebook under nbval, in a pytest of its own, and say what went wrong."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil

from notebooks import CELL_TIMEOUT, kernel_environment

TESTS = Path(__file__).resolve().parent

DEADLINE = 240
"""Seconds for a whole notebook. A lesson takes less than 60, a hanging cell CELL_TIMEOUT."""

LEFTOVER_GRACE = 15
"""Seconds for workers to notice that their kernel is gone; torch's look every 5."""


def validate(notebook: Path, *, solved: bool) -> list[str]:
    """Run a notebook from its own folder and return what is wrong with it: [] where all is well.

    solved: a solved twin, whose outputs are compared with the saved ones (`--nbval`); otherwise a
    learner's file, which must run untouched and solve nothing (`--nbval-lax`).
    """
    # Unbuffered: where the run is ended, what it has said by then shows which cell it was at.
    command = [sys.executable, "-u", "-m", "pytest", str(notebook)]
    command += ["--nbval" if solved else "--nbval-lax"]
    command += ["--nbval-current-env", f"--nbval-cell-timeout={CELL_TIMEOUT}"]
    command += [f"--nbval-sanitize-with={TESTS / 'nbval_sanitize.cfg'}"]
    # None of the project's own pytest settings, none of the machine's plugins.
    command += ["-c", "/dev/null", f"--rootdir={notebook.parent}", "--noconftest"]
    command += ["-p", "nbval.plugin", "-p", "nbval_kernels", "-p", "no:cacheprovider"]
    command += ["-v", "--color=no", "--no-header", "--tb=short", "-rN"]
    before = set(notebook.parent.iterdir())
    with kernel_environment(strict=solved) as environment:
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        problems = _run(command, environment)
        problems += _leftover_processes(environment["DLTUTOR_HOME"])
    made = set(notebook.parent.iterdir()) - before
    return problems + [f"it left {path.name} in {path.parent.name}/" for path in sorted(made)]


def _run(command: list[str], environment: dict[str, str]) -> list[str]:
    # The working folder is where `-m pytest` finds the plugin; kernels start in the notebook's own.
    with subprocess.Popen(
        command,
        cwd=TESTS,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as run:
        try:
            said, _ = run.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            for process in [*psutil.Process(run.pid).children(recursive=True), run]:
                process.kill()
            said, _ = run.communicate()
            return [f"it took longer than {DEADLINE} s and was ended", said]
    return [said] if run.returncode else []


def _leftover_processes(home: str) -> list[str]:
    """Processes of this run that outlived it, ended now: the run's home is in their environment."""
    deadline = time.monotonic() + LEFTOVER_GRACE
    while (left := _processes_of(home)) and time.monotonic() < deadline:
        time.sleep(0.2)
    for process in left:
        process.kill()
    return [f"it left a process: {' '.join(process.info['cmdline'])}" for process in left]


def _processes_of(home: str) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["environ", "cmdline", "status"])
        if (process.info["environ"] or {}).get("DLTUTOR_HOME") == home
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]
