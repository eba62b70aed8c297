"""Run the solved notebooks within what Binder gives: one core, 2 GB, a /dev/shm of 64 MB.

`python scripts/binder_limits.py` runs each as it is and within these limits, and writes how long
it took and how much memory to `benchmarks/notebooks.md`; `python scripts/binder_limits.py 01 03`
prints it for these lessons. The tests run the notebooks through `run` as well.
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
from dltutor.tables import MB
from notebooks import CELL_TIMEOUT, kernel_environment, twins

HERE: Final = Path(__file__).resolve().parent
TABLE: Final = HERE.parent / "benchmarks" / "notebooks.md"

MEMORY: Final = "2G"
SHM: Final = "64M"

MOST_PSS: Final = 1200
MOST_SHM: Final = 48
"""MB that a notebook may take: PSS of all its processes, and /dev/shm."""

DEADLINE: Final = 240
"""Seconds for a whole notebook. A lesson takes less than 60."""

GRACE: Final = 15
"""Seconds for workers to notice that their kernel is gone; torch's look every 5."""


@dataclass(frozen=True)
class Run:
    """A command that has ended.

    Args:
        code: Its exit code; None if its deadline ended it.
        output: What it wrote, to both descriptors.
        seconds: How long it took.
        pss: The most memory of all its processes together, in MB.
        shm: The most that lay in /dev/shm, in MB.
        left: The processes that outlived it, each as its command line. They are ended.
        limits: What bounded it, as sentences.
    """

    code: int | None
    output: str
    seconds: float
    pss: float
    shm: float
    left: tuple[str, ...]
    limits: tuple[str, ...]


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
    """Run a command within Binder's limits, as far as this machine permits them.

    Args:
        command: The program and its arguments.
        environment: All of its environment. What it starts is known by the DLTUTOR_HOME in it.
        folder: Where it runs.
        limited: False for no limits.
        measured: False where nobody asks for `pss`, which costs a tenth of the CPU: it is 0 then.
        deadline: In seconds.
        grace: Seconds for what it started to end.
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
        return _run(found, output.read_text(errors="replace"), ())


def _within_limits(request: dict[str, Any], folder: Path, deadline: float) -> Run:
    script, report = folder / "run.py", folder / "report"
    with _one_core() as group:
        request |= {"group": str(group) if group else None, "output": None, "deadline": deadline}
        script.write_text(
            f"import json, sys\nsys.path.insert(0, {str(HERE)!r})\n"
            f"import inside_limits\nfound = inside_limits.watch(**{request!r})\n"
            f"open({str(report)!r}, 'w').write(json.dumps(found))\n"
        )
        # `watch` keeps the deadline; what comes after it is for the end of all processes.
        last = deadline + request["grace"] + 15
        confined = partial(dltutor.confine, script, deadline=last, memory=MEMORY)
        try:
            seen = confined(shm=SHM)
        except CannotConfine as refusal:
            print(f"Without a /dev/shm of its own: {refusal}", file=sys.stderr)
            seen = confined()
    cores = ("one core: enforced by the kernel, with a cgroup",) if group else ()
    limits = (*cores, *(seen.confinement.limits if seen.confinement else ()))
    killed = {"code": -9, "seconds": seen.seconds, "pss": math.nan, "shm": math.nan, "left": []}
    found = json.loads(report.read_text()) if report.exists() else killed
    return _run(found, seen.stderr, limits)


def _run(found: dict[str, Any], output: str, limits: tuple[str, ...]) -> Run:
    return Run(
        code=found["code"],
        output=output,
        seconds=found["seconds"],
        pss=found["pss"] / MB,
        shm=found["shm"] / MB,
        left=tuple(found["left"]),
        limits=limits,
    )


@contextmanager
def _one_core() -> Iterator[Path | None]:
    """A cgroup (version 1) with the time of one core, or None where none can be made.

    Binder, too, limits the time and not the number of cores: torch sees all of them.
    """
    group = Path(f"/sys/fs/cgroup/cpu/dltutor-{os.getpid()}")
    try:
        group.mkdir()
        period = (group / "cpu.cfs_period_us").read_text()
        (group / "cpu.cfs_quota_us").write_text(period)
    except OSError as error:
        print(f"With all cores: {error}", file=sys.stderr)
        yield None
        return
    try:
        yield group
    finally:
        while group.exists():  # busy until the last process that was killed in it is gone
            with suppress(OSError):
                group.rmdir()
            time.sleep(0.01)


def main() -> int:
    """Measure the notebooks that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("lessons", nargs="*", help="numbers, such as 01 (default: all, to a file)")
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
# What each notebook takes

Made by `python scripts/binder_limits.py` on the machine that the other benchmarks ran on. Each
solved notebook ran twice, as it is and within Binder's limits ({limits}). Seconds and MB; memory is
the highest sum of PSS over all processes, read twice a second, that of nbconvert (some 90 MB),
which runs the notebook, included. Cells that set limits of their own, with `confine`, have their
own /dev/shm.

| notebook | s | PSS | /dev/shm | s, limited | PSS, limited | /dev/shm, limited |
| --- | --- | --- | --- | --- | --- | --- |
{rows}
"""


if __name__ == "__main__":
    sys.exit(main())
