"""Record the incidents of lesson 14: run each job, and write its `train.log` and `monitor.txt`.

`python scripts/incidents.py text table` records only these two incidents. Each job really runs, on
the files that the learner gets, so the written files show real pids and times.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import Any

import psutil

from dltutor.lessons.lesson_14.helpers import INCIDENTS
from dltutor.lessons.lesson_14.scene import REPOS, Incident

_FIRST, _LAST = 17, 20  # how many of the first and last lines of output the log keeps
_EVERY = 0.1  # seconds between two readings of memory and open files
_ROWS = 36  # the most rows in `monitor.txt`
_DEADLINE = 150  # the most seconds that a job may run
_TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
# Match consecutive frames of a traceback that are outside the incident's own files.
_FRAME = r"  File \"(?!\./)[^\n]*\n(?:(?:\[rank\d\]:)?    [^\n]*\n)*"
_LIBRARY = re.compile(rf"^((?:\[rank\d\]: )?)(?:(?:\[rank\d\]: )?{_FRAME})+", re.M)


def record(incident: Incident) -> None:
    """Run an incident's job, and write its `train.log` and `monitor.txt` in `REPOS`."""
    folder = Path(tempfile.mkdtemp()) / incident.name
    incident.lay_out(folder)
    launcher = _TORCHRUN if incident.name == "ranks" else []
    with open(folder / "printed", "w") as printed:
        job = psutil.Popen(
            [sys.executable, "-u", *launcher, "train.py"],
            cwd=folder,
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
    began, ticks, seen = time.monotonic(), list[list[str]](), set[psutil.Process]()
    while job.poll() is None and time.monotonic() - began < _DEADLINE:
        with suppress(psutil.Error):
            children = job.children(recursive=True)
            seen |= {*children}
            if seen:  # skip the first seconds, when main imports torch
                ticks.append(_rows(time.monotonic() - began, [job, *children]))
        time.sleep(_EVERY)
    for process in [*seen, job]:
        with suppress(psutil.Error):
            process.kill()
    text = (folder / "printed").read_text().replace(str(folder), ".")
    text = text.replace("\0", "")  # torch's signal handler writes a NUL, which terminals don't show
    text = re.sub(r"/\S*/\.venv/", "venv/", text).replace(sys.base_prefix, "python")
    text = _LIBRARY.sub(r"\1  ...\n", re.sub(r"/\S*/pymp-\w+", "pymp-...", text))
    lines = text.strip().splitlines()
    few = len(lines) <= _FIRST + _LAST
    shown = lines if few else [*lines[:_FIRST], "...", *lines[-_LAST:]]
    end = f"(exit code {job.wait()})\n"
    (REPOS / incident.name / "train.log").write_text("\n".join([*shown, end]))
    # If main runs on alone at the end, keep only three of those readings.
    while len(ticks) > 4 and all(len(each) == 1 for each in ticks[-4:]):
        ticks.pop()
    head = "seconds  process  pid  PSS MB  open files"
    kept = next(few for n in count(1) if sum(map(len, few := ticks[::n])) <= _ROWS)
    (REPOS / incident.name / "monitor.txt").write_text("\n".join([head, *chain(*kept)]) + "\n")
    print(incident.name, len(lines), "lines,", len(ticks), "ticks")


def _rows(now: float, processes: list[Any]) -> list[str]:
    found = []
    for process in processes:
        with suppress(psutil.Error, PermissionError):
            name = "worker" if process.name().startswith("pt_data_worker") else process.name()
            pss = process.memory_full_info().pss / 2**20
            found.append(f"{now:7.1f}  {name:7}  {process.pid}  {pss:6.0f}  {process.num_fds():10}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="incidents (default: all)")
    asked = parser.parse_args().names
    for each in INCIDENTS:
        if not asked or each.name in asked:
            record(each)
