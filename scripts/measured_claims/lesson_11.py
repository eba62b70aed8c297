"""Measure the claims for lesson 11: shared memory and descriptors."""

from __future__ import annotations

import multiprocessing
import os
import resource
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch.multiprocessing
from torch.utils.data import DataLoader

from dltutor import confine, observe
from dltutor.failures import orphaned_segments, shm_exhausted, too_many_open_files
from dltutor.failures.tools.contract import Case, load
from dltutor.failures.tools.sign import Finding
from dltutor.observation import CannotConfine, Observation
from measured_claims import METHODS, CannotMeasure, Facts, Samples, by_start_method, numbers, python
from measured_claims.lesson_09 import removed_by_another

_SCRIPTS: Final = str(Path(__file__).parent.parent)
_BOTH: Final = ("file_descriptor", "file_system")
_FILES: Final = "Too many open files"
_SPACE: Final = "No space left on device"


def _confined(target: Any, **options: Any) -> Observation:
    try:
        return confine(target, **{"deadline": 20} | options)
    except CannotConfine as reason:
        raise CannotMeasure(f"This machine doesn't allow such a limit: {reason}") from None


def _end(target: Any, error: str, **limits: Any) -> str:
    # Return `error` in backticks if such an error ended the run, and otherwise how the run ended.
    seen = _confined(target, **limits)
    return f"`{error}`" if any(error in text for _, text in seen.chain) else seen.end


def sentences() -> Any:
    """Return the broken loader of `too_many_open_files`, without the loop that keeps the labels."""
    return too_many_open_files.broken().loader


def files_by_name(start_method: str = "fork") -> Case:
    """Set the strategy `file_system`, and return the broken case of `too_many_open_files`."""
    torch.multiprocessing.set_sharing_strategy("file_system")
    return too_many_open_files.broken(start_method=start_method)


def scan_by_name() -> Case:
    """Set the strategy `file_system`, and return the broken case of `shm_exhausted`."""
    torch.multiprocessing.set_sharing_strategy("file_system")
    return shm_exhausted.broken()


def copies() -> Case:
    """Return the broken case of `too_many_open_files`, but with a loop that keeps copies."""
    case = too_many_open_files.broken()
    return Case(case.loader, too_many_open_files.fixed().consume)


def keep_large() -> Case:
    """Return a case whose loop keeps 24 tensors of 4 MB."""
    return Case(DataLoader(Samples(_large, 24), None, num_workers=2), list)


def _large(index: int) -> torch.Tensor:
    return torch.zeros(1 << 20)


def larger() -> Facts:
    small, large = (_confined(shm_exhausted.broken, shm=size) for size in ("24M", "256M"))
    short = _short(small)
    room = "No space left" in short and large.end == "finished"
    return {"short": short, "end": large.end, "room": room}


def _short(seen: Observation) -> str:
    # Return the end of the message that ended a run, or how the run ended without one.
    return seen.chain[0][1].rpartition(": ")[2].strip() if seen.chain else seen.end


_IN_ORDER: Final = """
import sys
import torch
from dltutor.failures.orphaned_segments import make_loader, share_by_name
if __name__ == "__main__":
    init = share_by_name if sys.argv[1] == "file_system" else None
    if init:
        init(0)
    batches = list(make_loader(2, "fork", init))
"""


def _left_behind(strategy: str) -> list[int]:
    # Count the segments left after a run exits, and after we kill a run and its torch_shm_manager.
    case = orphaned_segments.broken() if strategy == "file_system" else orphaned_segments.fixed()
    before = set(Path("/dev/shm").glob("torch_*"))
    python(_IN_ORDER, strategy, check=True)
    until = time.monotonic() + 10  # the manager takes a moment to notice that the run is over
    while (in_order := set(Path("/dev/shm").glob("torch_*")) - before) and time.monotonic() < until:
        time.sleep(0.1)
    found = observe(case.loader, consume=case.consume, deadline=40).result
    assert isinstance(found, Finding)
    return [len(in_order), int(found.value)]


def strategies() -> Facts:
    left = {each: _left_behind(each) for each in _BOTH}
    return left | {"end": _end(too_many_open_files.broken, _FILES, open_files=128)}


_SWITCH: Final = "m.set_sharing_strategy({0}file_descriptor{1})"
_ASK: Final = "print(m.get_sharing_strategy())"


def commands() -> Facts:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as files:
        for _ in range(100):
            files.enter_context(open(os.devnull))
        shown = subprocess.run(
            "ulimit -n; ls /proc/self/fd | wc -l", shell=True, capture_output=True, text=True
        )
    limit, counted = shown.stdout.split()
    try:
        compile(_SWITCH.format("\u2018", "\u2019"), "sample", "exec")
        printed = "no error"
    except SyntaxError:
        printed = "a SyntaxError"
    plain = _SWITCH.format("'", "'")
    strategies = python(f"import torch.multiprocessing as m\n{_ASK}\n{plain}\n{_ASK}").stdout
    before, after = strategies.split()
    return {
        "before": before,
        "printed": printed,
        "after": after,
        "same": limit == ("unlimited" if soft == resource.RLIM_INFINITY else str(soft)),
        "counted": counted,
        "default": before == after,
        "few": int(counted) < 100,
    }


_ARTICLES: Final = """
import pickle, sys
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from multiprocessing import shared_memory

class Rows(Dataset):
    def __init__(self, name, shape):
        self.block = shared_memory.SharedMemory(name)
        self.rows = np.ndarray(shape, buffer=self.block.buf)
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, index):
        return torch.tensor(self.rows[index])

if __name__ == "__main__":
    block = shared_memory.SharedMemory(create=True, size=8 << 20)
    rows = np.ndarray((1 << 14, 64), buffer=block.buf)
    rows[:] = 1
    dataset = Rows(block.name, rows.shape)
    print("large" if len(pickle.dumps(dataset)) > rows.nbytes else "small")
    for method in ("fork", "spawn"):
        rows[:] = 1
        loader = DataLoader(
            dataset, 1024, num_workers=1, persistent_workers=True, multiprocessing_context=method
        )
        first = sum(batch.sum().item() for batch in loader)
        rows[:] = 2
        print("sees" if sum(batch.sum().item() for batch in loader) == 2 * first else "misses")
        del loader
    block.close()
    block.unlink()
    print("closed", flush=True)
    print(rows[0, 0])
"""


def the_articles_sample() -> Facts:
    bare = python("import torch\nimport multiprocessing as mp\nmp.shared_memory.SharedMemory")
    run = python(_ARTICLES)
    size, forked, spawned, *_ = run.stdout.split()
    return {
        "bare": bare.stderr.strip().splitlines()[-1],
        "raises": bare.returncode != 0,
        "size": size,
        "forked": forked,
        "spawned": spawned,
        "after": (
            f"is killed by signal {-run.returncode} when it reads its array"
            if run.returncode < 0
            else "can still read its array"
        ),
    }


_NO_OPTION: Final = "`track=False` came with Python 3.13."


def other_interpreters() -> Facts:
    now, untracked = removed_by_another()
    option = f"With `track=False`, it's {untracked}." if untracked else _NO_OPTION
    return {"now": now, "option": option}


def _shared_by_name(index: int) -> bool:
    return torch.multiprocessing.get_sharing_strategy() == "file_system"


def reaches_workers() -> Facts:
    before = torch.multiprocessing.get_sharing_strategy()
    torch.multiprocessing.set_sharing_strategy("file_system")
    try:
        reached = by_start_method(
            lambda method: all(numbers(load(Samples(_shared_by_name), 2, method)))
        )
    finally:
        torch.multiprocessing.set_sharing_strategy(before)
    return {"reached": reached, "which": [each[:-4] for each in reached if each.endswith(" yes")]}


def out_of_descriptors() -> Facts:
    ends = {
        method: _end(files_by_name, _FILES, open_files=128, deadline=60, start_method=method)
        for method in METHODS
    }
    return {
        "ends": ends,
        "finished": [method for method, end in ends.items() if end == "finished"],
        "copies": _end(copies, _FILES, open_files=128),
    }


def too_small_for_both() -> Facts:
    return {
        "file_descriptor": _end(shm_exhausted.broken, _SPACE, shm="24M"),
        "file_system": _end(scan_by_name, _SPACE, shm="24M"),
        "smaller": _end(shm_exhausted.fixed, _SPACE, shm="24M"),
    }


_TIMED: Final = """
import sys
import time
import torch
from torch.utils.data import DataLoader
from dltutor.failures import tiny_tensors
from measured_claims.lesson_11 import keep_large
if __name__ == "__main__":
    torch.multiprocessing.set_sharing_strategy(sys.argv[1])
    case = tiny_tensors.broken()
    print(case.consume(case.loader).value)
    loader = DataLoader(keep_large().loader.dataset, None, num_workers=2, persistent_workers=True)
    for _ in loader:
        pass
    began = time.perf_counter()
    for _ in loader:
        pass
    print(time.perf_counter() - began)
"""


def _times(strategy: str) -> list[float]:
    # Return the milliseconds that a batch of many small tensors takes, and the seconds that an
    # epoch of 24 large tensors takes.
    run = python(_TIMED, strategy, check=True, env=os.environ | {"PYTHONPATH": _SCRIPTS})
    return [float(each) for each in run.stdout.split()]


def small_and_large() -> Facts:
    gains = [
        [named / plain for plain, named in zip(*map(_times, _BOTH), strict=True)] for _ in range(5)
    ]
    small_time, large_time = map(median, zip(*gains, strict=True))
    return {
        "small": _end(too_many_open_files.broken, _FILES, open_files=128),
        "large": _end(keep_large, _FILES, open_files=128),
        "small_by_name": _end(files_by_name, _FILES, open_files=128),
        "small_time": f"{small_time:.1f}",
        "large_time": f"{large_time:.1f}",
    }


def bus_error() -> Facts:
    raised, hung = (
        _confined(shm_exhausted.broken, shm="24M", deadline=5, collate=collate)
        for collate in ("default", "list")
    )
    short = _short(raised)
    return {
        "default": raised.end,
        "short": short,
        "dead": sum(worker.exitcode is not None for worker in raised.workers),
        "list": hung.end,
        "no space": "No space left" in short,
    }


def not_the_loop() -> Facts:
    return {
        "default": _confined(shm_exhausted.broken, shm="24M").end,
        "arrays": _confined(shm_exhausted.broken, shm="24M", collate="numpy").end,
        "keeps": _confined(too_many_open_files.broken, open_files=128).end,
        "lets go": _confined(sentences, open_files=128).end,
    }


def no_gpu() -> Facts:
    return {
        "device": str(next(iter(shm_exhausted.broken(workers=1).loader)).device),
        "large": _confined(shm_exhausted.broken, shm="24M").end,
        "small": _confined(shm_exhausted.fixed, shm="24M").end,
    }


def drop_in() -> Facts:
    return {"missing": len(set(multiprocessing.__all__) - set(dir(torch.multiprocessing)))}
