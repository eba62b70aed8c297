"""Measure the claims for lesson 07: workers that hang before the first batch."""

from __future__ import annotations

import faulthandler
import logging
import multiprocessing
import sys
import tempfile
import threading
import time
import warnings
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any, Final

import pexpect
import psutil
from torch.utils.data import get_worker_info

from dltutor.failures import unpicklable_batch, unpicklable_exception
from dltutor.failures.lost_thread import Pairs, pairs_folder
from dltutor.failures.tools.contract import load
from dltutor.observation import Observation, observe
from measured_claims import CannotMeasure, Facts, Sized, ended, gpu, numbers, observed, python

_LINE: Final = "mask.result()"  # the line in the lesson's class at which a worker waits


def _run(workers: int, method: str = "fork", deadline: float = 4, **options: Any) -> Observation:
    # Observe a loader with the lesson's dataset, whose thread main has started.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about objects that can't be pickled
        return observe(load(Pairs(pairs_folder()), workers, method, **options), deadline=deadline)


def deadlock() -> Facts:
    lock = threading.Lock()

    def locked(index: int) -> int:
        with lock:
            return index

    free = observed(locked, 8, deadline=20).end
    with lock:
        held = observed(locked, 8, deadline=4).end
    return {"held": held, "free": free, "pool": _run(2).end}


class _Born(Sized):
    """A dataset whose samples say whether a worker made the dataset."""

    length = 8

    def __init__(self) -> None:
        self.in_worker = get_worker_info() is not None

    def __getitem__(self, index: int) -> int:
        return int(self.in_worker)


def in_init() -> Facts:
    made = {method: sum(numbers(load(_Born(), 2, method))) for method in ("fork", "spawn")}
    counts = [f"{count} of {_Born.length} under {method}" for method, count in made.items()]
    return {"counts": counts, "made": sum(made.values())}


def workers_one_by_one() -> Facts:
    return {"ends": {str(workers): _run(workers).end for workers in (0, 1, 2)}}


_ASKS: Final = """
import sys
from torch.utils.data import DataLoader, Dataset

class Asks(Dataset):
    def __len__(self):
        return 1
    def __getitem__(self, index):
        if {stdin!r}:
            sys.stdin = open({stdin!r})
        breakpoint()
        return index

if __name__ == "__main__":
    for batch in DataLoader(Asks(), num_workers=1, multiprocessing_context={method!r}):
        print("got the batch")
"""


def _in_a_terminal(stdin: str, method: str) -> str:
    # Return what a terminal shows when you type an expression into pdb, and then `c`.
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "asks.py"
        script.write_text(_ASKS.format(stdin=stdin, method=method))
        shown = StringIO()
        with pexpect.spawn(sys.executable, [str(script)], timeout=60, encoding="utf-8") as terminal:
            terminal.logfile_read = shown
            with suppress(pexpect.EOF, pexpect.TIMEOUT):
                for typed in ("p 6 * 7", "c"):
                    terminal.expect_exact("(Pdb)")
                    terminal.sendline(typed)
                terminal.expect(pexpect.EOF)
    return shown.getvalue()


def pdb() -> Facts:
    quits = "BdbQuit" in _in_a_terminal("", "fork")
    works = {}
    for method in ("fork", "spawn"):
        for stdin in ("/dev/stdin", "/dev/tty"):
            seen = _in_a_terminal(stdin, method)
            answers = "42" in seen and "got the batch" in seen
            works[f"{stdin} under {method}"] = "answers" if answers else "does not"
    return {"quits": quits, "works": works, "all": {*works.values()} == {"answers"}}


def resources() -> Facts:
    def watch(loader: Any) -> tuple[str, float]:
        batches = iter(loader)
        time.sleep(1)
        worker = psutil.Process(batches._workers[0].pid)
        state, before = worker.status(), worker.cpu_times()
        time.sleep(1)
        after = worker.cpu_times()
        return state, after.user + after.system - before.user - before.system

    result: Any = observe(load(Pairs(pairs_folder()), 1, "fork"), consume=watch, deadline=20).result
    state, used = result
    return {"state": "S" if state == psutil.STATUS_SLEEPING else state, "used": round(used, 1)}


def timeout() -> Facts:
    seen = _run(1, deadline=30, timeout=2)
    raised = bool(seen.chain)
    after = f" after {seen.batches} batches" if raised else ""
    return {"ended": ended(seen) + after, "named": _LINE in seen.raw, "raised": raised}


def spawn() -> Facts:
    seen = _run(1, "spawn", deadline=60)
    return {"end": ended(seen), "batches": seen.batches, "raised": bool(seen.chain)}


def _armed_once(worker_id: int) -> None:
    faulthandler.dump_traceback_later(1, repeat=True)


def dump_once() -> Facts:
    def nap(index: int) -> int:
        time.sleep(0.2)
        return index

    seen = observed(nap, 10, 1, deadline=30, worker_init_fn=_armed_once)
    return {"end": seen.end, "fired": "Timeout" in seen.stderr}


def without_fork() -> Facts:
    seen = [
        observe(each.broken(workers=1, start_method="spawn").loader, deadline=20)
        for each in (unpicklable_batch, unpicklable_exception)
    ]
    # When a worker can't pickle something, its sending thread prints a traceback that says so.
    # Without that traceback, the worker hadn't gotten that far.
    if not all("pickle" in run.stderr for run in seen):
        raise CannotMeasure("A worker hadn't started after 20 s.")
    return {"hung": sum(run.end == "hung" for run in seen)}


def log() -> Facts:
    multiprocessing.log_to_stderr(logging.DEBUG)
    said = _run(1).stderr
    return {"began": "child process calling" in said, "named": _LINE in said}


#: Run epochs whose workers use CUDA, and print how each epoch ended. The first argument says who
#: else uses CUDA, and the second one is the start method.
_CUDA: Final = """
import re
import sys
import torch
from torch.utils.data import DataLoader, Dataset

who, method = sys.argv[1:]


class Rows(Dataset):
    def __init__(self):
        self.rows = torch.ones(8, 4)
        if who == "dataset":
            self.rows = self.rows.cuda()

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.rows[index].cuda()


if __name__ == "__main__":
    if who == "main":
        torch.ones(1).cuda()
    loader = DataLoader(Rows(), 4, num_workers=2, multiprocessing_context=method)
    for epoch in range(2):
        try:
            print("ends" if sum(batch.sum().item() for batch in loader) == 32 else "is wrong")
        except Exception as error:
            said = str(error)
            known = re.search("Cannot re-initialize CUDA in forked subprocess|CUDA error: .*", said)
            print(known[0] if known else said.splitlines()[-1])
"""


def cuda() -> Facts:
    on = gpu()

    def epochs(who: str, method: str) -> list[str]:
        return python(_CUDA, who, method).stdout.splitlines()

    return {
        "gpu": on,
        "main": epochs("main", "fork")[0],
        "dataset": epochs("dataset", "fork")[0],
        "spawned": epochs("main", "spawn") == ["ends", "ends"],
        "unused": epochs("nobody", "fork")[0] == "ends",
        "later": epochs("nobody", "fork")[1] == "ends",
    }
