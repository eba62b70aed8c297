"""Measure the claims for lesson 03: workers that die."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from typing import Any

from dltutor.failures import dead_worker, misleading_exit
from dltutor.failures.data import scans
from dltutor.observation import confine, observe
from measured_claims import CannotMeasure, Facts, observed, python


def _died_without_workers(*accidents: str) -> int:
    ends = [confine(dead_worker.broken, workers=0, how=how).end for how in accidents]
    return ends.count("main died")


def without_workers() -> Facts:
    died = _died_without_workers("killed", "segfault", "abort")
    said = confine(misleading_exit.broken, workers=0)
    return {"died": died, "named": bool(said.chain) and "009.json" in said.chain[0][1]}


def gone() -> Facts:
    return {"died": _died_without_workers("killed", "segfault")}


def kernels_line() -> Facts:
    limits = confine(scans.broken, memory="400M").confinement
    if limits is None or limits.stand_in or limits.kernel_log is None:
        raise CannotMeasure("This machine doesn't let us make a cgroup, or read Linux's log.")
    line = re.sub(r"\).*", ")", limits.kernel_log[0]) if limits.kernel_log else "no line"
    return {"line": line, "kills": limits.oom_kills, "told": "out of memory" in line}


def usually_memory() -> Facts:
    runs = {how: observe(dead_worker.broken(how=how).loader) for how in dead_worker.ACCIDENTS}
    same = [how for how, seen in runs.items() if "exited unexpectedly" in seen.raw]
    memory = sum("memory" in runs[how].raw for how in same)
    return {"count": len(same), "same": same, "runs": len(runs), "memory": memory}


def handled() -> Facts:
    accidents = dead_worker.ACCIDENTS | {"sys.exit": sys.exit}

    def ends_the_worker(accident: Any, kind: type[BaseException]) -> bool:
        def caught(index: int) -> int:
            with suppress(kind):
                accident(3)
            return index

        return observed(caught, 1, 1).end == "worker died"

    dead = {
        kind: [how for how, accident in accidents.items() if ends_the_worker(accident, kind)]
        for kind in (Exception, BaseException)
    }
    shown = {f"`except {kind.__name__}`": ", ".join(ends) for kind, ends in dead.items()}
    as_expected = set(dead[BaseException]) == set(dead_worker.ACCIDENTS)
    return {"dead": shown, "signals and exits": as_expected}


_COLLECTS_IN_A_CHILD = """
import gc, multiprocessing as mp, sys
from dltutor.failures import leftover_iterator as left
gc.disable()
left.train(left.broken(workers=1).loader)
child = mp.get_context('fork').Process(target=gc.collect)
child.start(); child.join()
print('tqdm' in sys.modules)
"""


def tqdm() -> Facts:
    run = python(_COLLECTS_IN_A_CHILD)
    said = "can only test a child process" in run.stderr
    return {"said": said, "imported": run.stdout.strip() != "False"}
