"""Main has computed with several threads, and a forked worker that does the same hangs.

Symptom: the epoch doesn't start, without an error: a worker waits in a tensor operation that works
in main, and uses no CPU. The loader may have worked until you called `torch.set_num_threads` in the
worker.

Mechanism: torch splits a large operation among OpenMP threads. GNU's library (libgomp, in the
wheels from PyPI) keeps those threads for the next operation. fork copies the list of the threads,
but not the threads. So at its first parallel operation, the worker hands work to threads that don't
exist, and waits for them. torch avoids this by setting each worker to one thread.
`torch.set_num_threads` in a `worker_init_fn` or a dataset undoes that, and a library with its own
OpenMP (OpenCV built with GNU OpenMP) ignores it. If main never ran a parallel operation, or runs
its first one later, nothing hangs. So the hang comes and goes with a line far from the loader.
Intel's and LLVM's OpenMP start over after a fork.

Fix: leave a worker with its one thread, and use more workers instead. If a worker needs threads,
use spawn or forkserver.

Seen in: pytorch#45198 (OpenCV), pytorch#1838, pytorch#75147.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import torch
from torch.utils.data import Dataset

from dltutor.failures.tools import Case, Failure, Says, facts_of, load

THREADS: Final = 2


class Standardized(Dataset[torch.Tensor]):
    """A dataset of images, standardized by the mean and deviation of all images, and shrunk."""

    def __init__(self, images: torch.Tensor) -> None:
        self.images = images
        self.mean, self.deviation = images.mean(), images.std()

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> torch.Tensor:
        standardized = (self.images[index] - self.mean) / self.deviation
        return standardized[::16, ::16]


def use_threads(worker_id: int) -> None:
    """Let a worker compute with two threads, as main did before it started the worker."""
    torch.set_num_threads(THREADS)


IMAGES: Final = (8, 256, 256)


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that lets each worker use two threads."""
    return Case(load(_measured(), workers, start_method, worker_init_fn=use_threads))


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that leaves each worker with the one thread that torch gives it."""
    return Case(load(_measured(), workers, start_method))


def _measured() -> Standardized:
    # Compute in main with several threads, as torch does by default if there are several cores.
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        return Standardized(torch.arange(float(torch.tensor(IMAGES).prod())).reshape(IMAGES))
    finally:
        torch.set_num_threads(before)


_MAPS = Path("/proc/self/maps")


def absent() -> str | None:
    """Return why torch doesn't, or may not, compute with GNU's OpenMP here, or None if it does."""
    if "parallel backend: OpenMP" not in torch.__config__.parallel_info():
        return "torch computes without OpenMP here"
    # Look at the files that are mapped, because conda's libgomp.so.1 is a link to LLVM's library.
    try:
        loaded = openmp_libraries(_MAPS.read_text())
    except OSError:
        return "this system doesn't tell which OpenMP torch computes with"
    if not any(name.startswith("libgomp") for name in loaded):
        return f"torch computes with {', '.join(loaded) or 'its own OpenMP'} here, not with GNU's"
    return None


def openmp_libraries(maps: str) -> list[str]:
    """Return the OpenMP libraries that a process has loaded, such as `libgomp.so.1`.

    Args:
        maps: The content of the process's `/proc/PID/maps`.
    """
    return sorted(set(re.findall(r"/(lib(?:gomp|iomp5|omp)\b[^/\s]*)$", maps, re.MULTILINE)))


FAILURE: Final = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Says("hung", ("in __getitem__: standardized = (self.images[index] - self.mean)",)),
    start_methods=("fork",),
    deadline=3,
    absent=absent,
)
