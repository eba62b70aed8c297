"""Run the solved notebooks within Binder's limits: one core, 2 GB, and a /dev/shm of 64 MB.

`python scripts/binder_limits.py` runs each notebook with and without these limits, and writes the
times and memory to `benchmarks/notebooks.md`. `python scripts/binder_limits.py 01 03` only prints
the times and memory for these two lessons. The tests also run notebooks through `run`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from inside_limits import watch

import dltutor
from dltutor.observation.confinement.confining import CannotConfine
from notebooks import CELL_TIMEOUT, kernel_environment, twins

HERE: Final = Path(__file__).resolve().parent
TABLE: Final = HERE.parent / "benchmarks" / "notebooks.md"

MEMORY: Final = "2G"
SHM: Final = "64M"

MOST_PSS: Final = 1200
MOST_SHM: Final = 48
"""The most MB that a notebook may use, in PSS of all its processes and in /dev/shm."""

DEADLINE: Final = 240
"""The most seconds that a notebook may take. The slowest took 203 (see TABLE)."""

GRACE: Final = 15
"""The most seconds for workers, which check every 5 s, to notice that their kernel has ended."""


@dataclass(frozen=True)
class Run:
    """The results of a command that has ended.

    Args:
        code: The command's exit code. If None, `run` ended the command at the deadline.
        output: What the command wrote to stdout and stderr. Under limits, the last 64,000 bytes.
        seconds: How long the command took.
        pss: The most memory that the command's processes used together, in MB of PSS. If Linux
            killed the measurement together with the command, `pss` and `shm` are NaN.
        shm: The most that /dev/shm grew by during the run, in MB.
        left: The command lines of the processes that outlived the command, which `run` then ended.
        limits: The limits that the command ran under, and how each is enforced (default none).
    """

    code: int | None
    output: str
    seconds: float
    pss: float
    shm: float
    left: Sequence[str]
    limits: tuple[str, ...] = ()


def run(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    limited: bool = True,
    measured: bool = True,
    deadline: float = DEADLINE,
    grace: float = GRACE,
) -> Run:
    """Run a command within Binder's limits, as far as this machine allows them.

    Args:
        command: The program and its arguments.
        environment: The whole environment, whose DLTUTOR_HOME identifies the command's processes.
        folder: The command's working folder.
        limited: Whether to set limits (default True).
        measured: Whether to measure `pss` (default True), which costs a tenth of the CPU. If not,
            `pss` is 0.
        deadline: Seconds until `run` ends the command (default 240).
        grace: The most seconds for the command's processes to exit after the command (default 15).
    """
    request = {
        "command": list(command),
        "environment": dict(environment),
        "folder": str(folder),
        "grace": grace,
        "measured": measured,
    }
    with tempfile.TemporaryDirectory(prefix="dltutor-limits-", dir="/tmp") as name:
        if limited:
            return _within_limits(request, Path(name), deadline)
        output = Path(name, "output")
        found = watch(**request, group=None, output=str(output), deadline=deadline)
        return Run(output=output.read_text(errors="replace"), **found)


def _within_limits(request: dict[str, Any], folder: Path, deadline: float) -> Run:
    script, report = folder / "run.py", folder / "report"
    with _one_core() as group:
        request |= {"group": str(group) if group else None, "output": None, "deadline": deadline}
        script.write_text(
            f"import json, sys\nsys.path.insert(0, {str(HERE)!r})\n"
            f"import inside_limits\nfound = inside_limits.watch(**{request!r})\n"
            f"open({str(report)!r}, 'w').write(json.dumps(found))\n"
        )
        # `watch` enforces the deadline, and then needs time to end all processes.
        last = deadline + request["grace"] + 15
        confined = partial(dltutor.confine, script, deadline=last, memory=MEMORY)
        try:
            seen = confined(shm=SHM)
        except CannotConfine as refusal:
            print(f"Running without a /dev/shm of its own: {refusal}", file=sys.stderr)
            seen = confined()
    cores = ("one core: enforced by the kernel, with a cgroup",) if group else ()
    limits = (*cores, *(seen.confinement.limits if seen.confinement else ()))
    killed = {"code": -9, "seconds": seen.seconds, "pss": math.nan, "shm": math.nan, "left": []}
    found = json.loads(report.read_text()) if report.exists() else killed
    return Run(output=seen.stderr, limits=limits, **found)


@contextmanager
def _one_core() -> Iterator[Path | None]:
    """Make a cgroup (version 1) with the CPU time of one core, or yield None if that's impossible.

    Like Binder, the cgroup limits CPU time, not the number of cores, so torch sees all cores.
    """
    group = Path(f"/sys/fs/cgroup/cpu/dltutor-{os.getpid()}")
    try:
        group.mkdir()
        period = (group / "cpu.cfs_period_us").read_text()
        (group / "cpu.cfs_quota_us").write_text(period)
    except OSError as error:
        print(f"Running with all cores: {error}", file=sys.stderr)
        yield None
        return
    try:
        yield group
    finally:
        while group.exists():  # rmdir fails until the last killed process has ended
            with suppress(OSError):
                group.rmdir()
            time.sleep(0.01)


def main() -> int:
    """Measure the named notebooks, or all. Return 0 if all succeed within MOST_PSS and MOST_SHM."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    help_text = "lesson numbers, such as 01 (default: all, and write benchmarks/notebooks.md)"
    parser.add_argument("lessons", nargs="*", help=help_text)
    lessons = parser.parse_args().lessons
    rows = []
    limits: tuple[str, ...] = ()
    ok = True
    for twin in twins():
        if lessons and twin.name[:2] not in lessons:
            continue
        free, bound = (_notebook(twin, limited=limited) for limited in (False, True))
        ok &= all(map(_fits, (free, bound)))
        limits = bound.limits
        rows.append(f"| {twin.stem} | {_cells(free)} | {_cells(bound)} |")
        print(rows[-1], flush=True)
    if not lessons:
        TABLE.write_text(_PAGE.format(limits="; ".join(limits), rows="\n".join(rows)))
    return 0 if ok else 1


def _notebook(twin: Path, *, limited: bool) -> Run:
    with kernel_environment(strict=True) as environment:
        command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", str(twin)]
        command += [f"--ExecutePreprocessor.timeout={CELL_TIMEOUT}"]
        command += [f"--output-dir={environment['TMPDIR']}"]
        ended = run(command, environment=environment, folder=twin.parent, limited=limited)
    if ended.code != 0:
        print(twin.name, ended.code, ended.output, sep="\n", file=sys.stderr)
    return ended


def _fits(ended: Run) -> bool:
    return ended.code == 0 and ended.pss < MOST_PSS and not ended.shm >= MOST_SHM


def _cells(ended: Run) -> str:
    seconds = f"{ended.seconds:.0f}" if ended.code == 0 else f"exit code {ended.code}"
    return f"{seconds} | {ended.pss:.0f} | {ended.shm:.0f}"


_PAGE: Final = """\
# Time and memory of each notebook

Made by `python scripts/binder_limits.py` on the machine that the other benchmarks ran on. Each
solved notebook ran twice: without limits, and within Binder's limits ({limits}). Times are in
seconds, and memory is in MB. Memory is the highest sum of PSS over all processes, read twice a
second, including nbconvert (about 90 MB), which runs the notebook. Cells that set their own limits
with `confine` have their own /dev/shm.

| notebook | s | PSS | /dev/shm | s, limited | PSS, limited | /dev/shm, limited |
| --- | --- | --- | --- | --- | --- | --- |
{rows}
"""


if __name__ == "__main__":
    sys.exit(main())
