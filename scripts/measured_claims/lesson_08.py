"""Measure the claims for lesson 08: what the figures for memory count."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psutil
import torch

from dltutor import confine
from dltutor.failures.tools.contract import load
from dltutor.failures.tools.gauge import Gauge
from dltutor.lessons.lesson_08.helpers import Moment, full, ready
from dltutor.system.process_memory import mapped, shared_memory
from dltutor.tables import MB
from measured_claims import CannotMeasure, Facts, Samples

_MAP: Final = 200  # MB of the array that two workers read
_AHEAD: Final = {"batch_size": 1, "prefetch_factor": 8}  # two workers prefetch 16 batches


def _of_2_mb(index: int) -> torch.Tensor:
    return torch.zeros(2 * MB, dtype=torch.uint8)


def _loaded_ahead(workers: int, prefetch: int | None = None) -> int:
    # Return how many one-sample batches the workers make before the loop takes the first.
    made: Any = multiprocessing.get_context("fork").Value("q", 0)

    def count(index: int) -> int:
        with made.get_lock():
            made.value += 1
        return index

    batches = iter(
        load(Samples(count, 1000), workers, "fork", batch_size=1, prefetch_factor=prefetch)
    )
    last = -1
    while last != made.value or not last:  # until the workers make no more samples
        last = made.value
        time.sleep(0.5)
    del batches
    return last


def prefetched() -> Facts:
    tried = [(workers, factor) for workers in (1, 2, 3) for factor in (1, 2, 4)]
    counts = {(w, f): _loaded_ahead(w, f) for w, f in tried}
    default = _loaded_ahead(1)
    product = default == 2 and all(count == w * f for (w, f), count in counts.items())
    shown = {f"{w} x {f}": count for (w, f), count in counts.items()}
    return {"counts": shown, "default": default, "product": product}


def _workers_that_read_an_array() -> tuple[Any, ...]:
    array = torch.ones(_MAP, MB, dtype=torch.uint8).numpy()

    def read_all(index: int) -> torch.Tensor:
        return torch.tensor(array.max(axis=1))

    moment: Moment = full(load(Samples(read_all, 1000), 2, "fork", batch_size=1))
    return tuple(moment.processes[1:])  # without main


def res_and_shr() -> Facts:
    workers = _workers_that_read_an_array()
    return {
        "res": min(each.rss for each in workers) > _MAP * MB,
        "difference": min(each.rss - each.shared for each in workers) > _MAP * MB,
        "own": max(each.uss for each in workers) < _MAP * MB / 4,
    }


def _full_queues(look: Callable[[], None]) -> Moment:
    return full(load(Samples(_of_2_mb, 1000), 2, "fork", **_AHEAD), look)


def sum_of_pss() -> Facts:
    parts: list[float] = []

    def look() -> None:
        pids = (os.getpid(), *(child.pid for child in multiprocessing.active_children()))
        parts.append(sum(mapped(pid or 0).get("Pss_Shmem", 0) for pid in pids) / MB)

    return {"held": _full_queues(look).held / MB, "little": parts[0] < 4}


def freed() -> Facts:
    buffers: list[torch.Tensor] = []

    def with_a_buffer(index: int) -> torch.Tensor:
        if not buffers:
            buffers.append(torch.ones(64 * MB, dtype=torch.uint8))
        return torch.zeros(8)

    gauge = Gauge()
    batches = iter(load(Samples(with_a_buffer, 1000), 2, "fork", batch_size=1))
    next(batches)
    while ready(batches) < 4:
        time.sleep(0.01)
    gauge.shared()
    killed = batches._workers[1]
    pids = [os.getpid(), batches._workers[0].pid, killed.pid]
    before = [psutil.Process(pid).memory_full_info() for pid in pids]
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's handler would raise after the kill
    killed.kill()
    killed.join()  # wait, because a zombie's other threads may still hold its memory
    after = [psutil.Process(pid).memory_full_info() for pid in pids[:2]]
    fell = (sum(each.pss for each in before) - sum(each.pss for each in after)) / MB
    own = before[2].uss / MB
    near = abs(fell - own) < 0.1 * own
    shown = f"{fell:.0f} MB, and its USS was {own:.0f} MB."
    return {"fell": "its USS, to within a tenth." if near else shown, "near": near}


def df() -> Facts:
    def now() -> tuple[int, int]:
        files = sum(name.startswith("torch_") for name in os.listdir("/dev/shm"))
        return files, shared_memory()[0] or 0

    before, then = now(), list[tuple[int, int]]()
    held = _full_queues(lambda: then.append(now())).held
    files, used = (later - earlier for later, earlier in zip(then[0], before, strict=True))
    return {
        "shown": abs(used - held) < 4 * MB,
        "files": files,
        "run": os.path.exists("/run/shm"),
    }


def look() -> Facts:
    gauge = Gauge()
    batches = iter(load(Samples(_of_2_mb, 1000), 2, "fork", **_AHEAD))
    get, differ = batches._data_queue.get, list[float]()

    def looked(**options: Any) -> Any:
        before = gauge.shared()
        data = get(**options)
        differ.append(abs(gauge.shared() - before))
        return data

    for taken in range(21):
        if taken == 1:  # the workers have started, and are idle
            batches._data_queue.get = looked
        next(batches)
        while ready(batches) < 16:
            time.sleep(0.01)
    del batches._data_queue.get
    same = sum(each < 0.5 for each in differ)
    one = psutil.virtual_memory().total / 100 / MB
    return {"same": same, "calls": len(differ), "all": same == len(differ), "percent": one}


_TOUCH: Final = "kept = bytearray(b'x' * (200 << 20))"
_IN_SHM: Final = (
    "import tempfile; file = tempfile.TemporaryFile(dir='/dev/shm')\n"
    "for _ in range(200): file.write(b'x' * (1 << 20)); file.flush()"
)
_READ: Final = "with open({!r}, 'rb') as file:\n    while file.read(1 << 20): pass"
_KEEPS: Final = """
import torch
from torch.utils.data import DataLoader, Dataset

class Keeps(Dataset):
    kept = []
    def __len__(self):
        return 1000
    def __getitem__(self, index):
        self.kept.append(torch.ones(1 << 20, dtype=torch.uint8))
        return index

with open({!r}, "wb", buffering=0) as taken:
    for batch in DataLoader(Keeps(), 4):
        taken.write(b".")
"""


def _limited(script: str, limit: int = 100) -> tuple[str, int]:
    # Return how a script in a cgroup of `limit` MB ends, and the cgroup's peak in bytes.
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "script.py")
        file.write_text(script)
        seen = confine(file, memory=limit * MB, deadline=60)
    limits = seen.confinement
    if limits is None or limits.stand_in:
        raise CannotMeasure("This machine doesn't let us make a cgroup.")
    if limits.exitcode not in (0, -signal.SIGKILL):
        raise CannotMeasure(f"The process failed: {seen.stderr.strip()[-200:]}.")
    return "killed" if limits.exitcode else "lives", limits.peak or 0


def at_the_limit() -> Facts:
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
        for _ in range(300):
            file.write(os.urandom(MB))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        reads, peak = _limited(_READ.format(file.name))
    memory, shm = _limited(_TOUCH)[0], _limited(_IN_SHM)[0]
    return {"reads": reads, "close": peak > 90 * MB, "memory": memory, "shm": shm}


def swap() -> Facts:
    return {"swap": bool(psutil.swap_memory().total), "writes": _limited(_TOUCH)[0]}


def _kept(limit: int) -> tuple[str, int]:
    # Run a loader without workers in a cgroup of `limit` MB. The dataset keeps 1 MB per sample.
    # Return how the process ends, and how many batches the loop took. The loop writes a byte to a
    # file for each batch, so the count survives the process.
    with tempfile.NamedTemporaryFile() as taken:
        end, _ = _limited(_KEEPS.format(taken.name), limit)
        return end, os.path.getsize(taken.name)


def one_batch_fits() -> Facts:
    end, batches = _kept(400)
    return {"end": end, "begun": batches > 0, "middle": 0 < batches < 250}


def more_room() -> Facts:
    (small, early), (large, late) = _kept(400), _kept(600)
    return {"small": small, "large": large, "later": late > early}
