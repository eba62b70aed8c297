"""Each worker computes with as many threads as there are cores, so the threads wait for cores.

Symptom: more threads make it slower. Every core is at 100%, and the epoch takes several times as
long as with one thread for each worker.

NOTE [ Threads Times Workers ]

Two workers with a thread for each of two cores make four threads for two cores. OpenMP, which torch
computes with, splits each large operation among its threads, and the threads that are done wait for
the last one. For a few milliseconds, these threads spin, which means that they check again and
again, at full speed. That's fastest while every thread has its own core. When there are too few
cores, the threads that wait use up the very time that the last one needs.

torch avoids this by giving each worker one thread, whatever main has. What undoes that is a
`torch.set_num_threads(os.cpu_count())` in a `worker_init_fn`, or a library with its own threads.
OpenBLAS (under numpy) and OpenCV start a thread for each core in each worker. In a container,
`os.cpu_count()` is also the wrong number, because it counts all of the machine's cores, even if the
container may use only a few.

Fix: keep workers times threads at or below the number of cores. Leave the workers with torch's
one thread, and tell the other libraries: set `OPENBLAS_NUM_THREADS=1` and `OMP_NUM_THREADS=1`
before Python starts, and call `cv2.setNumThreads(0)` in `worker_init_fn`. With more workers than
cores, torch warns (`Our suggested max number of worker in current system is`). For workers that
compute, heed that warning.

Seen in: pytorch#82219, returnn#1780, fish-speech#102.
"""

from __future__ import annotations

import multiprocessing
import os
from typing import Any

import psutil
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.tools import Case, Costs, Failure, Finding, facts_of, load

BATCHES = 4
ROUNDS = 4


class Augmented(Dataset[torch.Tensor]):
    """A dataset of images that raises each image's contrast in steps.

    The images are large and the steps few, because Linux counts CPU time in hundredths of a second,
    and computing has to take many of them. With small images and many steps, most of the time would
    go into waiting.
    """

    def __len__(self) -> int:
        return 2 * BATCHES

    def __getitem__(self, index: int) -> torch.Tensor:
        random = torch.Generator().manual_seed(index)
        image = torch.rand(3, 1, 1, generator=random).expand(3, 1600, 1600)
        for _ in range(ROUNDS):
            image = image.sub(0.5).mul(1.1).add(0.5).clamp(0, 1)
        return image.mean((1, 2))


def use_every_core(worker: int) -> None:
    """Let a worker compute with a thread for each core."""
    torch.set_num_threads(os.cpu_count() or 1)


def count_threads(loader: DataLoader[Any]) -> Finding:
    """Run two epochs, and count the threads that computed in the second one.

    The first epoch doesn't count, because a worker that is starting may import torch, which keeps
    one thread busy for longer than everything else.
    """
    for _ in loader:
        pass
    before = _seconds_by_thread()
    for _ in loader:
        pass
    computed = sum(_computing(before[pid], after) for pid, after in _seconds_by_thread().items())
    return Finding(computed, f"threads that compute, for {os.cpu_count()} cores")


def _seconds_by_thread() -> dict[int, dict[int, float]]:
    """Return the CPU seconds of each thread of each worker, by pid and thread id."""
    return {
        worker.pid or 0: {
            thread.id: thread.user_time + thread.system_time
            for thread in psutil.Process(worker.pid).threads()
        }
        for worker in multiprocessing.active_children()
    }


def _computing(before: dict[int, float], after: dict[int, float]) -> int:
    spent = [seconds - before.get(thread, 0) for thread, seconds in after.items()]
    # Count the threads that used at least a quarter as much CPU time as the busiest one. A thread
    # that only sends a worker's batches uses far less.
    return sum(seconds >= 0.25 * max(spent) for seconds in spent)


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that gives each worker a thread for each core."""
    return _case(workers, start_method, worker_init_fn=use_every_core)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that leaves each worker with the one thread that torch gives it."""
    return _case(workers, start_method)


def _case(workers: int, start_method: str, **options: Any) -> Case:
    options |= {"batch_size": 2, "persistent_workers": True}
    return Case(load(Augmented(), workers, start_method, **options), count_threads)


def one_core() -> str | None:
    """Return why this machine can't show the failure (it has one core), or None if it can."""
    return "this machine has one core" if (os.cpu_count() or 1) < 2 else None


FAILURE = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Costs(2),
    isolated=True,  # forked workers would hang if main had computed with OpenMP before
    absent=one_core,
)
