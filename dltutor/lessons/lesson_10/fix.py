"""Grade "10.fix": a dataset whose workers do not fill up, run for epochs over fresh recordings."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from random import shuffle
from typing import Any, Final

import numpy as np
import psutil
import torch
from torch.utils.data import DataLoader

from dltutor.failures import heap_growth
from dltutor.failures.growing_cache import CachedRecordings
from dltutor.lessons.kit.endings import Ending, ended_well, run_loader, where
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class, shown
from dltutor.lessons.kit.outcomes import Result, correct, not_yet
from dltutor.lessons.kit.running import changed, contents, made, theirs
from dltutor.system import processes
from dltutor.system.process_memory import mapped
from dltutor.tables import MB

EPOCHS: Final = 3
LIMIT: Final = 24  # MB that anything may grow by: 16 recordings, and what a worker needs anyway
_PILE: Final = 64  # descriptors and threads that may come, of all processes together
_RECORDINGS: Final = 64
_LENGTH: Final = 300_000  # numbers in each
_EACH: Final = _LENGTH * 4 / MB  # MB of one in memory
_MAKING, _WITHIN, _BRIEFLY = 8, 20, 6  # seconds for the dataset, three epochs, one epoch
_READ_EVERY: Final = 4  # batches
_IN_MEMORY: Final = ("/dev/shm/", "/memfd:")


@dataclass(frozen=True)
class Ran:
    """What a dataset did in its runs.

    Args:
        ends: Of each run, by its number of workers.
        epochs: What each epoch of each run brought, likewise, in the order of the files.
        expected: The right samples, in the same order.
        grew: Each key of `_GREW` -> by how many MB, and "pile" by how many descriptors, threads
            and processes, in the run with two workers.
        odd: A batch of another kind than the given class's, in words, or nothing.
        changed: Recordings that are not the files that they were.
    """

    ends: dict[int, Ending]
    epochs: dict[int, list[list[float]]]
    expected: list[float]
    grew: dict[str, float]
    odd: str = ""
    changed: int = 0


def gather(answer: Any) -> Ran:
    """Three epochs by two workers, and one by none and by four, over other recordings."""
    folder, random = tempfile.mkdtemp(), np.random.default_rng(10)
    numbers = random.integers(-400, 400, _LENGTH, dtype=np.int16)
    paths = tuple(str(Path(folder, f"{number:03}.npy")) for number in range(_RECORDINGS))
    for loudness, path in enumerate(paths, start=1):
        np.save(path, loudness * numbers)
    expected = [float(np.abs(np.load(path).astype(np.float32)).mean()) for path in paths]
    archive = contents(Path(folder))
    growth, ends, brought = _Growth(), dict[int, Ending](), dict[int, list[list[float]]]()
    odd: list[str] = []
    dataset = made(answer, paths, call=f"{answer.__name__}(paths)", within=_MAKING)
    growth.begin()
    with theirs():
        order = [*range(len(dataset))]

    def epoch(loader: DataLoader[Any]) -> None:
        shuffle(order)
        came: list[float] = []
        for number, batch in enumerate(loader):
            if not (torch.is_tensor(batch) and batch.dtype is torch.float32 and batch.ndim == 1):
                tensor = torch.is_tensor(batch)
                odd.append(f"{batch.dtype}, {tuple(batch.shape)}" if tensor else shown(batch))
                return
            came.extend(batch.tolist())
            if loader.num_workers == 2 and number % _READ_EVERY == 0:
                growth.read()
        if len(came) == len(order):
            came = [value for _, value in sorted(zip(order, came, strict=True))]
        brought[loader.num_workers].append(came)

    for workers in (2, 0, 4):
        brought[workers] = []
        ends[workers] = run_loader(
            dataset,
            epoch,
            workers=workers,
            within=_WITHIN if workers == 2 else _BRIEFLY,
            epochs=EPOCHS if workers == 2 else 1,
            batch_size=4,
            sampler=order,
            persistent_workers=workers > 0,
            worker_init_fn=growth.note_start,
        )
        if odd or ends[workers].end != "finished" or max(growth.most.values()) > LIMIT:
            break
    gone = sum(path in archive for path in changed(archive, Path(folder)))
    return Ran(ends, brought, expected, growth.most, "".join(odd[:1]), gone)


class _Growth:
    """By how much workers, main, other processes and shared memory grow from now on.

    A worker's growth counts from before its first sample, all else's from before the dataset.
    """

    def __init__(self) -> None:
        gc.collect()
        # Or workers grow by what this process has freed, whatever they keep: cause D.
        heap_growth.return_freed_memory(0)
        if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
            libc.malloc_trim(0)
        gc.freeze()  # a later collection would copy what main shares with the kernel
        # MB of each worker before its first sample.
        self.starts = torch.zeros(4).share_memory_()
        self.mapped = torch.zeros(1).share_memory_()  # MB, of files in memory
        sys.addaudithook(self._note_mapping)
        self.others: set[int] = set()
        self.files = set(_files([os.getpid()]))
        self.written = _written([os.getpid()])
        self.first = self._sizes()
        self.most: dict[str, float] = {}

    def begin(self) -> None:
        """The dataset is made: what this process starts from now on is a worker."""
        self.others = _children()
        self.read()

    def note_start(self, worker: int) -> None:
        self.starts[worker] = _held([os.getpid()])

    def _note_mapping(self, event: str, given: tuple[Any, ...]) -> None:
        if event == "mmap.__new__" and given[0] >= 0:
            with suppress(OSError):
                if os.readlink(f"/proc/self/fd/{given[0]}").startswith(_IN_MEMORY):
                    self.mapped += os.fstat(given[0]).st_size / MB

    def read(self) -> None:
        for what, size in self._sizes().items():
            grown = size - self.first.setdefault(what, size)
            self.most[what] = max(grown, self.most.get(what, 0.0))

    def _sizes(self) -> dict[str, float]:
        workers = _children() - self.others
        others = processes.descendants(os.getpid()) - workers
        every = [os.getpid(), *workers, *others]
        files = _files(every)
        new = sum(files[inode] for inode in files.keys() - self.files)
        # Other programs make files, too: at most what these processes wrote or mapped is theirs.
        made = (_written(every) - self.written) / MB + float(self.mapped)
        sizes = {
            "main": _held([os.getpid()]),
            "others": _held(others),
            "shared": max(_held(every, "Pss_Shmem"), min(new, made)),
        }
        if workers:
            self.first["worker"] = float(self.starts.sum()) / len(workers)
            sizes["worker"] = _held(workers) / len(workers)
            sizes["pile"] = sum(map(_pile, every))
        return sizes


def _children() -> set[int]:
    return {child.pid for child in multiprocessing.active_children() if child.pid}


def _held(pids: Iterable[int], field: str = "Private_Dirty") -> float:
    # MB that processes have written and share with nobody; files that they map are left out.
    return sum(mapped(pid).get(field, 0) for pid in pids) / MB


def _written(pids: Iterable[int]) -> int:
    total = 0
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            total += psutil.Process(pid).io_counters().write_chars
    return total


def _pile(pid: int) -> int:
    with suppress(OSError):
        return sum(len(os.listdir(f"/proc/{pid}/{kind}")) for kind in ("fd", "task"))
    return 0


def _files(pids: Iterable[int]) -> dict[int, float]:
    # Inode -> MB of what lies in memory as a file, with a name in /dev/shm or only a descriptor;
    # torch's own come and go.
    opened = (path for pid in pids for path in Path(f"/proc/{pid}/fd").glob("*"))
    sizes = {}
    for path in chain(Path("/dev/shm").rglob("*"), opened):
        with suppress(OSError):
            name = os.readlink(path) if path.is_symlink() else str(path)
            if name.startswith(_IN_MEMORY) and "/torch_" not in name:
                found = path.stat()
                sizes[found.st_ino] = found.st_blocks * 512 / MB
    return sizes


_GREW: Final = {
    "main": "making your dataset took {mb} in main. That is fine where the archive fits into "
    "memory, since forked workers share it; this one does not.",
    "shared": "{mb} of shared memory are new: files in `/dev/shm`, a `memfd`, or a mapping that "
    "processes share. What lies there lies in memory. What bounds it?",
    "worker": "each worker grew by {mb} in three epochs, as much as {recordings} recordings (there "
    "are 64). Who still refers to a recording when its sample is done, and what bounds their "
    "number?",
    "others": "the workers stay small, and what else your code started grew by {mb}. The "
    "recordings have moved to another process. What bounds them there?",
}


def judge(ran: Ran) -> Result:
    """Correct if all samples came, from any number of workers, and nothing grew."""
    if ran.changed:
        not_yet(
            f"{ran.changed} of the {_RECORDINGS} files of the archive were changed or removed. "
            "Others read them, too."
        )
    if ran.odd:
        not_yet(
            f"a batch is `{ran.odd}`. With the class above, a batch of four is `torch.float32, "
            "(4,)`. What does `__getitem__` return?"
        )
    for workers, end in ran.ends.items():
        ended_well(
            end,
            where(workers),
            hung="What keeps your class there?",
            died="Which of your lines ends a process?",
        )
        for came in ran.epochs[workers]:
            _every_sample_came(came, ran.expected, where(workers))
    if ran.grew["pile"] > _PILE:
        not_yet(
            f"{ran.grew['pile']:.0f} descriptors, threads and processes pile up in three epochs. "
            "Who closes, joins or ends them?"
        )
    for what, text in _GREW.items():
        mb = ran.grew[what]
        if mb > LIMIT:
            not_yet(text.format(mb=f"{mb:.0f} MB", recordings=f"{mb / _EACH:.0f}"))
    return correct(
        f"All {_RECORDINGS} samples are right in each of {EPOCHS} epochs with two workers, without "
        f"workers, and with four. No worker grew by more than {LIMIT} MB, and nothing else did."
    )


def _every_sample_came(came: list[float], expected: list[float], where: str) -> None:
    if len(came) != len(expected):
        not_yet(f"{where}, {len(came)} of {len(expected)} samples came in an epoch.")
    wrong = int((~np.isclose(came, expected, rtol=1e-4)).sum())
    if wrong:
        not_yet(
            f"{where}, {wrong} of {len(expected)} samples are not the loudness of their recording. "
            "What does `__getitem__` return for each index?"
        )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_class, starter=CachedRecordings),
    runs=f"{EPOCHS} epochs of {_RECORDINGS} fresh recordings with two workers, one without and one "
    "with four",
    at_most=_MAKING + _WITHIN + 2 * _BRIEFLY + 4,
)
