"""Lesson 08: what stands in memory."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psutil
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.tools.contract import load
from dltutor.failures.tools.gauge import Gauge
from dltutor.lessons.lesson_08.material import Moment, Nothing, full, ready, sizes
from dltutor.system import cgroups
from dltutor.system.process_memory import mapped, shared_memory
from dltutor.tables import MB
from measured_claims import DEEP_DIVE, CannotMeasure, Claim, Measured, Source

_FORUMS: Final = Source("a common answer in forums")
_PSUTIL: Final = Source(
    "psutil's documentation of memory_full_info", "", "https://psutil.readthedocs.io/en/latest/"
)
_MAP: Final = 200  # MB
_WORKERS: Final = (1, 2, 3)
_PREFETCH: Final = (1, 2, 4)


class _Counted(Dataset[torch.Tensor]):
    """A thousand samples; how many have been made stands in memory that all processes share."""

    def __init__(self) -> None:
        self.made: Any = multiprocessing.get_context("fork").Value("q", 0)

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> torch.Tensor:
        with self.made.get_lock():
            self.made.value += 1
        return torch.zeros(1)


def _ahead(workers: int, prefetch: int | None = None) -> int:
    # Batches of one sample that exist before the loop takes its first.
    dataset = _Counted()
    loader = DataLoader(
        dataset, num_workers=workers, prefetch_factor=prefetch, multiprocessing_context="fork"
    )
    batches = iter(loader)
    last = -1
    while last != dataset.made.value or not last:  # until the workers have nothing more to do
        last = dataset.made.value
        time.sleep(0.5)
    del batches
    return last


def _prefetched() -> Measured:
    counts = {(w, p): _ahead(w, p) for w in _WORKERS for p in _PREFETCH}
    default = _ahead(1)
    fits = default == 2 and all(count == w * p for (w, p), count in counts.items())
    shown = ", ".join(f"{w} x {p}: {count}" for (w, p), count in counts.items())
    return Measured(
        f"Batches loaded before the loop takes one, for workers x `prefetch_factor`: {shown}; "
        f"by 1 worker without the argument: {default}.",
        "holds, with 2 as the default; the batch that the loop has in its hands comes on top."
        if fits
        else "refuted.",
    )


class _Mapped(Nothing):
    """A piece of an array that main has loaded; each sample reads all of it."""

    def __init__(self) -> None:
        self.map = torch.ones(_MAP, MB, dtype=torch.uint8).numpy()

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(self.map.max(axis=1))


class _Batches(Nothing):
    """Samples of 2 MB."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(2 * MB, dtype=torch.uint8)


def _mapped() -> Moment:
    return full(load(_Mapped(), 2, "fork", batch_size=1))


def _shown_in_each() -> Measured:
    _, *workers = _mapped().processes
    res, own = min(each.rss for each in workers) / MB, max(each.uss for each in workers) / MB
    fits = res > _MAP and own < _MAP / 4
    return Measured(
        f"Main had an array of {_MAP} MB, and both workers read all of it: RES of each "
        f"{'more' if res > _MAP else 'less'} than {_MAP} MB, USS less than {_MAP // 4} MB.",
        "refuted under fork: RES shows shared pages in each process." if fits else "holds.",
    )


def _res_less_shr() -> Measured:
    _, *workers = _mapped().processes
    found = min(each.rss - each.shared for each in workers) / MB
    own = max(each.uss for each in workers) / MB
    fits = found > _MAP and own < _MAP / 4
    return Measured(
        f"The same workers: RES minus SHR {'more' if found > _MAP else 'less'} than {_MAP} MB, USS "
        f"less than {_MAP // 4} MB.",
        "refuted for forked workers: SHR counts pages of files and of shared memory, and not what "
        "fork shares."
        if fits
        else "holds.",
    )


def _sum_of_pss() -> Measured:
    parts: list[float] = []

    def look() -> None:
        pids = (os.getpid(), *(child.pid for child in multiprocessing.active_children()))
        parts.append(sum(mapped(pid or 0).get("Pss_Shmem", 0) for pid in pids) / MB)

    held = full(load(_Batches(), 2, "fork", batch_size=1, prefetch_factor=8), look).held / MB
    fits = parts[0] < 4
    return Measured(
        f"17 batches of 2 MB, one of them with the loop: {held:.0f} MB in `/dev/shm`; of these, "
        f"the sum of PSS has {'less than 4 MB' if fits else 'more than 4 MB'}.",
        "holds but for batches that wait: no process has them mapped." if fits else "holds.",
    )


def _freed() -> Measured:
    gauge = Gauge()
    loader = load(_Own(), 2, "fork", batch_size=1)
    batches = iter(loader)
    next(batches)
    while ready(batches) < 4:
        time.sleep(0.01)
    gauge.shared()
    killed = batches._workers[1]
    pids = [os.getpid(), batches._workers[0].pid, killed.pid]
    before = [sizes(pid) for pid in pids]
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's would raise in what follows
    killed.kill()
    killed.join()  # longer than until it is a zombie: other threads may still hold its memory
    after = [sizes(pid) for pid in pids[:2]]
    fell = (sum(each.pss for each in before) - sum(each.pss for each in after)) / MB
    own = before[2].uss / MB
    fits = abs(fell - own) < 0.1 * own
    return Measured(
        "A worker with a buffer of 64 MB of its own was killed: the sum of PSS fell by "
        + ("its USS, to within a tenth." if fits else f"{fell:.0f} MB, its USS was {own:.0f} MB."),
        "holds." if fits else "refuted.",
    )


class _Own(Nothing):
    buffer: Any = None

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.buffer is None:
            self.buffer = torch.ones(64 * MB, dtype=torch.uint8)
        return torch.zeros(8)


def _df() -> Measured:
    def listed() -> int:
        return sum(name.startswith("torch_") for name in os.listdir("/dev/shm"))

    used = shared_memory()[0] or 0
    files = listed()
    found: list[int] = []
    seen = full(
        load(_Batches(), 2, "fork", batch_size=1, prefetch_factor=8),
        lambda: found.extend((listed() - files, (shared_memory()[0] or 0) - used)),
    )
    fits, run = abs(found[1] - seen.held) < 4 * MB, os.path.exists("/run/shm")
    return Measured(
        f"With 17 batches of 2 MB, `df` shows {'34 MB more' if fits else 'another number'}; `ls` "
        f"shows {found[0]} files more. `/run/shm` {'is there' if run else 'is not there'}.",
        "holds; `ls` shows none of them, for they have no name." if fits else "refuted.",
    )


def _look() -> Measured:
    gauge = Gauge()
    batches = iter(load(_Batches(), 2, "fork", batch_size=1, prefetch_factor=8))
    get, differ, percents = batches._data_queue.get, list[float](), list[float]()

    def looked(**options: Any) -> Any:
        before = gauge.shared(), psutil.virtual_memory().percent
        data = get(**options)
        differ.append(abs(gauge.shared() - before[0]))
        percents.append(abs(psutil.virtual_memory().percent - before[1]))
        return data

    next(batches)
    while ready(batches) < 16:
        time.sleep(0.01)
    batches._data_queue.get = looked
    for _ in range(20):
        next(batches)
        while ready(batches) < 16:
            time.sleep(0.01)
    del batches._data_queue.get
    same = sum(each < 0.5 for each in differ)
    one = psutil.virtual_memory().total / 100 / MB
    return Measured(
        f"In {same} of {len(differ)} cases, shared memory held the same before `get` and after it. "
        f"A batch had 2 MB, and one per cent of this machine's memory is about {one:.0f} MB.",
        "refuted: `get` maps what was there before, and frees nothing."
        if same == len(differ)
        else "holds.",
    )


_TOUCH: Final = "kept = bytearray(b'x' * (200 << 20))"
_IN_SHM: Final = (
    "import tempfile; file = tempfile.TemporaryFile(dir='/dev/shm')\n"
    "for _ in range(200): file.write(b'x' * (1 << 20)); file.flush()"
)
_FILE: Final = (
    "import os, sys; size = os.path.getsize(sys.argv[2])\n"
    "with open(sys.argv[2], 'rb') as file:\n    while file.read(1 << 20): pass"
)


@contextmanager
def _group(limit: int) -> Iterator[cgroups.Group]:
    try:
        group = cgroups.make(limit * MB)
    except OSError as error:
        raise CannotMeasure(f"No cgroup can be made here: {error}.") from None
    try:
        yield group
    finally:
        group.remove()


def _limited(script: str, file: str = "", limit: int = 100) -> tuple[bool, int]:
    # Whether a process with so many MB is killed, and the most that was charged to its group.
    with _group(limit) as group:
        enter = "import sys; open(sys.argv[1] + '/cgroup.procs', 'w').write('0')\n"
        command = [sys.executable, "-c", enter + script, str(group.folder), file]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode not in (0, -signal.SIGKILL):
            raise CannotMeasure(f"The process failed otherwise: {run.stderr.strip()[-200:]}.")
        return run.returncode != 0, group.peak or 0


def _at_the_limit() -> Measured:
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
        for _ in range(300):
            file.write(os.urandom(MB))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        reads, peak = _limited(_FILE, file.name)
    others = {"its own memory": _limited(_TOUCH)[0], "a file in `/dev/shm`": _limited(_IN_SHM)[0]}
    told = ", ".join(f"200 MB in {what}: {_fate(killed)}" for what, killed in others.items())
    close = peak > 90 * MB
    return Measured(
        f"In a group with 100 MB: reading a file of 300 MB, {'more' if close else 'less'} than 90 "
        f"MB charged: {_fate(reads)}; {told}.",
        "refuted for page cache, which is given back; holds for processes and `/dev/shm`."
        if not reads and close and all(others.values())
        else "holds.",
    )


def _fate(killed: bool) -> str:
    return "killed" if killed else "lives"


def _swap() -> Measured:
    swap = psutil.swap_memory().total
    killed, _ = _limited(_TOUCH)
    return Measured(
        f"This machine has {'some' if swap else 'no'} swap. A process in a group with 100 MB wrote "
        f"to 200 MB: {_fate(killed)}.",
        "refuted where there is no swap, or a group may not use it." if killed else "holds.",
    )


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

with open(sys.argv[2], "wb", buffering=0) as taken:
    for batch in DataLoader(Keeps(), 4):
        taken.write(b".")
"""


def _kept(limit: int) -> tuple[bool, int]:
    # Whether a loop without workers is killed, whose dataset keeps all, and after how many batches.
    with tempfile.NamedTemporaryFile() as taken:
        killed, _ = _limited(_KEEPS, taken.name, limit)
        return killed, os.path.getsize(taken.name)


def _one_batch_fits() -> Measured:
    killed, batches = _kept(400)
    return Measured(
        f"A dataset that keeps 1 MB of each sample, in a group with 400 MB, batches of 32 bytes: "
        f"{_fate(killed)}{' in the middle of the epoch' if 0 < batches < 250 else ''}.",
        "refuted where the dataset keeps samples: more than a batch stays in memory."
        if killed and batches
        else "holds.",
    )


def _more_room() -> Measured:
    (small, early), (large, late) = _kept(400), _kept(600)
    return Measured(
        f"The same dataset in a group with 400 MB: {_fate(small)}; with 600 MB: {_fate(large)}"
        f"{', some batches later' if late > early else ''}.",
        "refuted for a leak: more room only delays the end."
        if small and large and late > early
        else "holds.",
    )


CLAIMS: Final = (
    Claim(
        "A loader keeps `prefetch_factor` x `num_workers` batches in memory ahead of the loop.",
        DEEP_DIVE,
        "Forked workers count the samples that they make, with a batch size of 1, until they stop; "
        "nobody takes a batch.",
        _prefetched,
    ),
    Claim(
        "`htop` shows every worker with the memory of main, so each worker has a copy of the data.",
        _FORUMS,
        "Main has an array, and two forked workers read all of it. RES and USS of each worker are "
        "read when they rest.",
        _shown_in_each,
    ),
    Claim(
        "RES minus SHR is the memory that belongs to a process alone.",
        _FORUMS,
        "The same run; SHR as `top` shows it, and USS.",
        _res_less_shr,
    ),
    Claim(
        "The sum of PSS is the memory that all processes take together.",
        _FORUMS,
        "Two forked workers fill their queues, and the loop holds a batch. What its segments of "
        "shared memory hold is compared with what PSS says of shared memory (`Pss_Shmem`).",
        _sum_of_pss,
    ),
    Claim(
        "USS is the memory that would be freed if the process was terminated now.",
        _PSUTIL,
        "The sum of PSS of main and two workers, before one of them is killed and when all its "
        "threads are gone.",
        _freed,
    ),
    Claim(
        "`df -h` shows what lies in `/dev/shm`.",
        DEEP_DIVE,
        "Two forked workers fill their queues; the space in use and the listed files before and "
        "then.",
        _df,
    ),
    Claim(
        "To print `psutil.virtual_memory().percent` before and after `_data_queue.get` shows how "
        "memory is released.",
        DEEP_DIVE,
        "Around 20 calls of `get`, while the workers rest, all segments of shared memory that main "
        "or a worker has open are added up.",
        _look,
    ),
    Claim(
        "A container whose memory is at its limit is about to be killed.",
        _FORUMS,
        "Processes in a cgroup of their own, without swap: one reads a file that is larger than "
        "the limit, one writes to memory of its own, one to a file in `/dev/shm`.",
        _at_the_limit,
    ),
    Claim(
        "When the RAM is full, idle data flows into the swap space.",
        DEEP_DIVE,
        "A process in a cgroup of its own, without swap, writes to more memory than the group has.",
        _swap,
    ),
    Claim(
        "Enlarge the swap, and a job that runs out of memory goes on.",
        DEEP_DIVE,
        "A loop whose dataset keeps every sample, in cgroups of two sizes. The article's commands, "
        "`swapoff` to `swapon`, are not run: they change the machine for everybody.",
        _more_room,
        120,
    ),
    Claim(
        "With `num_workers=0` it runs as long as a batch fits into memory.",
        DEEP_DIVE,
        "The same loop without workers, in the smaller cgroup.",
        _one_batch_fits,
        120,
    ),
)
