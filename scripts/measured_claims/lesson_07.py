"""Lesson 07: the loop that never starts."""

from __future__ import annotations

import faulthandler
import logging
import multiprocessing
import os
import pty
import select
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import Any, Final

from torch.utils.data import Dataset, get_worker_info

from dltutor.failures import unpicklable_batch, unpicklable_exception
from dltutor.failures.lost_thread import Pairs, pairs_folder
from dltutor.failures.tools.contract import load
from dltutor.observation import Observation, observe
from measured_claims import NOT_STARTING, CannotMeasure, Claim, Measured, Source

_FORKS: Final = Source(
    "pytorch#1355, on loaders that hang", "", "https://github.com/pytorch/pytorch/issues/1355"
)
_FAULTHANDLER: Final = Source(
    "common advice: `faulthandler.dump_traceback_later(300, repeat=True)` in `worker_init_fn`"
)


def _run(workers: int, method: str = "fork", deadline: float = 4, **options: Any) -> Observation:
    # The lesson's class, whose thread main has started.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own words for what cannot be pickled
        return observe(load(Pairs(pairs_folder()), workers, method, **options), deadline=deadline)


class _Born(Dataset[int]):
    """Says of each sample whether the dataset was made in a worker."""

    def __init__(self) -> None:
        self.in_worker = get_worker_info() is not None

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return int(self.in_worker)


class _Naps(Dataset[int]):
    """Healthy samples, of a fifth of a second each."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> int:
        time.sleep(0.2)
        return index


def _deadlock() -> Measured:
    lock = threading.Lock()

    class Locked(_Born):
        def __getitem__(self, index: int) -> int:
            with lock:
                return index

    free = observe(load(Locked(), 2, "fork"), deadline=20)
    with lock:
        held = observe(load(Locked(), 2, "fork"), deadline=4)
    return Measured(
        f"A lock that main holds when the workers are forked: {held.end}. The same lock, free: "
        f"{free.end}. A thread pool that main has used: {_run(2).end}.",
        "holds for held locks and for threads."
        if (held.end, free.end) == ("hung", "finished")
        else "refuted.",
    )


def _list_of(loader: Any) -> list[int]:
    return [each for batch in loader for each in batch.tolist()]


def _in_init() -> Measured:
    made, counts = [], []
    for method in ("fork", "spawn"):
        got: Any = observe(load(_Born(), 2, method), deadline=60, consume=_list_of).result
        made.append(sum(got))
        counts.append(f"{sum(got)} of {len(got)} under {method}")
    return Measured(
        f"Samples whose dataset was made in a worker: {', '.join(counts)}.",
        "holds."
        if any(made)
        else "refuted: `__init__` runs in main, and workers get a copy of what it left.",
    )


def _workers_one_by_one() -> Measured:
    ends = {workers: _run(workers).end for workers in (0, 1, 2)}
    shown = ", ".join(f"{workers}: {end}" for workers, end in ends.items())
    return Measured(
        f"The lesson's class, by number of workers: {shown}.",
        "sound: it fails from 1 worker on, so two workers in each other's way are not the cause."
        if list(ends.values()) == ["finished", "hung", "hung"]
        else "does not tell anything here.",
    )


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
    # What a person at a terminal sees who types an expression, and then `c`.
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "asks.py"
        script.write_text(_ASKS.format(stdin=stdin, method=method))
        pid, terminal = pty.fork()
        if not pid:
            os.execv(sys.executable, [sys.executable, str(script)])
        shown, typed = "", [b"c\n", b"p 6 * 7\n"]
        while select.select([terminal], [], [], 60)[0]:
            try:
                shown += os.read(terminal, 4096).decode()
            except OSError:  # the other end is closed
                break
            if typed and shown.count("(Pdb)") > 2 - len(typed):
                os.write(terminal, typed.pop())
        os.close(terminal)
        os.waitpid(pid, 0)
    return shown


def _pdb() -> Measured:
    as_it_is = _in_a_terminal("", "fork")
    works = {
        (method, stdin): "42" in seen and "got the batch" in seen
        for method in ("fork", "spawn")
        for stdin in ("/dev/stdin", "/dev/tty")
        for seen in [_in_a_terminal(stdin, method)]
    }
    quits = "`BdbQuit`" if "BdbQuit" in as_it_is else "no `BdbQuit`"
    shown = ", ".join(
        f"{stdin} under {method}: {'answers' if well else 'does not'}"
        for (method, stdin), well in works.items()
    )
    return Measured(
        f"`breakpoint()` in a worker: {quits}. After `sys.stdin = open(...)`, {shown}.",
        "holds on a terminal, once `sys.stdin` is opened again in the worker; without that refuted."
        if all(works.values()) and quits == "`BdbQuit`"
        else "refuted.",
    )


def _resources() -> Measured:
    loader = load(Pairs(pairs_folder()), 1, "fork")

    def watch(loader: Any) -> tuple[str, float]:
        batches = iter(loader)
        time.sleep(1)
        [worker] = batches._workers
        stat = Path(f"/proc/{worker.pid}/stat").read_text
        before = stat().rpartition(")")[2].split()
        time.sleep(1)
        after = stat().rpartition(")")[2].split()
        used = sum(map(int, after[11:13])) - sum(map(int, before[11:13]))
        return after[0], used / os.sysconf("SC_CLK_TCK")

    result: Any = observe(loader, consume=watch, deadline=20).result
    state, used = result
    return Measured(
        f"A hung worker, watched for a second: state {state}, {used:.1f} s of CPU.",
        "shows that a worker waits; not what for, and not in which line."
        if state == "S"
        else "does not show that a worker waits.",
    )


def _timeout() -> Measured:
    seen = _run(1, deadline=30, timeout=2)
    named = "names" if "mask.result()" in seen.raw else "does not name"
    batches = f"{seen.chain[0][0]} after {seen.batches} batches" if seen.chain else seen.end
    return Measured(
        f"`timeout=2`: {batches}; the error's text {named} the line.",
        "turns the hang into an error, and fixes nothing." if seen.chain else "refuted.",
    )


def _spawn() -> Measured:
    seen = _run(1, "spawn", deadline=60)
    return Measured(
        f"The lesson's class by spawn: {seen.chain[0][0] if seen.chain else seen.end}, after "
        f"{seen.batches} batches.",
        "holds only for a dataset that can be pickled." if seen.chain else "holds.",
    )


def _armed_once(worker_id: int) -> None:
    faulthandler.dump_traceback_later(1, repeat=True)


def _dump_once() -> Measured:
    seen = observe(load(_Naps(), 1, "fork", worker_init_fn=_armed_once), deadline=30)
    fired = "goes off" if "Timeout" in seen.stderr else "does not go off"
    return Measured(
        f"Ten healthy samples of 0.2 s ({seen.end}), a dump armed for 1 s by `worker_init_fn`: it "
        f"{fired}.",
        "refuted: it goes off in a healthy worker too. Arm it for each sample."
        if "Timeout" in seen.stderr
        else "holds.",
    )


def _without_fork() -> Measured:
    modules = (unpicklable_batch, unpicklable_exception)
    made = [each.broken(workers=1, start_method="spawn").loader for each in modules]
    seen = [observe(loader, deadline=20) for loader in made]
    if not all("pickle" in run.stderr for run in seen):  # what the queue's thread writes
        raise CannotMeasure("A worker had not started after 20 s.")
    hung = sum(run.end == "hung" for run in seen)
    return Measured(
        f"A batch and an exception that cannot be pickled, by spawn: {hung} of 2 loops hang.",
        "refuted as the only cause: these hang without a fork." if hung == 2 else "not decided.",
    )


def _log() -> Measured:
    multiprocessing.log_to_stderr(logging.DEBUG)
    said = _run(1).stderr
    began, named = "child process calling" in said, "mask.result()" in said
    return Measured(
        f"The lesson's class, hung, with multiprocessing's log: it tells that a worker "
        f"{'started' if began else 'did not start'}, and {'names' if named else 'does not name'} "
        "the line that it waits in.",
        "tells when processes start and end, not where one waits." if not named else "holds.",
    )


CLAIMS: Final = (
    Claim(
        "A resource that was initialized before the loader can deadlock the workers.",
        NOT_STARTING,
        "Main forks 2 workers while it holds a lock that they take, while the lock is free, and "
        "after it has used a thread pool of the dataset.",
        _deadlock,
    ),
    Claim(
        "Load everything in the dataset's `__init__`, and each worker initializes its own.",
        NOT_STARTING,
        "`__init__` writes down whether it runs in a worker, and each sample says so.",
        _in_init,
        120,
    ),
    Claim(
        "Start with no worker, then one, then more, and note from which number on it fails.",
        NOT_STARTING,
        "The class of lesson 07, whose thread pool main has used, with 0, 1 and 2 forked workers.",
        _workers_one_by_one,
    ),
    Claim(
        "`pdb` helps in a worker.",
        NOT_STARTING,
        "A script with `breakpoint()` in `__getitem__` and 1 worker, in a terminal where `p 6 * 7` "
        "and `c` are typed; with the worker's `sys.stdin` as it is, and opened again.",
        _pdb,
        300,
    ),
    Claim(
        "Watch CPU and memory while the data is loaded.",
        NOT_STARTING,
        "State and CPU time of a hung worker, from `/proc`.",
        _resources,
    ),
    Claim(
        "`timeout=` solves a loader that hangs.",
        Source("common advice"),
        "The class of lesson 07 with 1 forked worker and `timeout=2`.",
        _timeout,
    ),
    Claim(
        "Use spawn, and forked threads and locks are no longer a problem.",
        _FORKS,
        "The class of lesson 07 with 1 worker, by spawn.",
        _spawn,
        120,
    ),
    Claim(
        "A stack dump that `worker_init_fn` arms tells a worker that hangs.",
        _FAULTHANDLER,
        "A healthy worker runs for 2 s with a dump armed once for 1 s.",
        _dump_once,
    ),
    Claim(
        "A loop that does not start is almost always due to what was initialized before the fork; "
        "be diligent with that, and there will be no issues.",
        NOT_STARTING,
        "Two failures of lesson 02 with a spawned worker, for 20 s each.",
        _without_fork,
        150,
    ),
    Claim(
        "`multiprocessing` itself is a debugging tool.",
        NOT_STARTING,
        "`multiprocessing.log_to_stderr(DEBUG)`, and the class of lesson 07 with 1 forked worker.",
        _log,
    ),
)
