"""Run failure modes with every start method, and print how many runs of each failed.

    python scripts/catalog.py [NAME ...] [--runs 20] [--start-methods fork,spawn] [--load]

With `--load`, one busy process per core runs at the same time. A run fails if the broken case,
compared with the fixed case, doesn't show its sign under a start method that the failure mode
claims, or shows the sign under any other start method. If this machine can't show the failure mode,
no run fails. The exit code is 1 if any run failed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from multiprocessing import forkserver

from dltutor.diagnosis.reproduction import reproduce
from dltutor.failures import NAMES, START_METHODS, Failure


def main() -> int:
    """Run the failure modes that the command line names, and print how many runs of each failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="failure modes (default: all)")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="runs of each (default 1)")
    parser.add_argument(
        "--start-methods", default=",".join(START_METHODS), metavar="A,B", help="default: all"
    )
    parser.add_argument("--load", action="store_true", help="keep every core busy during the runs")
    parser.add_argument("--tell", action="store_true", help="print every Observation")
    arguments = parser.parse_args()
    failures: list[Failure] = [
        import_module(f"dltutor.failures.{name}").FAILURE for name in arguments.names or NAMES
    ]
    # Preload the failure modes, so that the fork server's workers don't each have to import them.
    forkserver.set_forkserver_preload([f"dltutor.failures.{name}" for name in NAMES])
    forkserver.ensure_running()  # now, because a run would end a fork server that it started
    failed = 0
    print("| entry | start method | s | broken | fixed | runs failed |")
    print("| --- | --- | --- | --- | --- | --- |")
    with _busy() if arguments.load else nullcontext():
        for failure in failures:
            for method in arguments.start_methods.split(","):
                failed += _row(failure, method, arguments.runs, arguments.tell)
    return 1 if failed else 0


def _row(failure: Failure, method: str, runs: int, tell: bool) -> int:
    claimed = method in failure.start_methods
    reason = failure.absent()
    failed = 0
    seconds = []
    for _ in range(runs):
        began = time.perf_counter()
        broken = reproduce(failure, start_method=method)
        fixed = reproduce(failure, fixed=True, start_method=method)
        seconds.append(time.perf_counter() - began)
        wrong = failure.sign.shown(broken, fixed) != claimed and not reason
        failed += wrong
        if tell or wrong:
            print(broken, broken.result, fixed, fixed.result, sep="\n", file=sys.stderr)
    told = (failure.sign.told(broken), failure.sign.told(fixed))
    note = "" if claimed else " (not claimed)"
    cells = (failure.name, method + note, f"{sorted(seconds)[runs // 2]:.1f}", *told)
    print("|", " | ".join(cells), f"| {reason or f'{failed} of {runs}'} |", flush=True)
    return failed


@contextmanager
def _busy() -> Iterator[None]:
    context = multiprocessing.get_context("spawn")
    cores = len(os.sched_getaffinity(0))
    load = [context.Process(target=_work, args=(os.getpid(),), daemon=True) for _ in range(cores)]
    for process in load:
        process.start()
    try:
        yield
    finally:
        for process in load:
            process.kill()
            process.join()


def _work(parent: int) -> None:
    while os.getppid() == parent:
        sum(range(100_000))


if __name__ == "__main__":
    sys.exit(main())
