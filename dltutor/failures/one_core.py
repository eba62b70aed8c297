"""All workers are pinned to the same core, so they take turns instead of working at the same time.

Symptom: all workers run on one CPU core. `top` shows several workers that share 100% of one core
while the other cores are idle, and more workers don't make the epoch any shorter.

Mechanism: every process has a CPU affinity, which is the set of cores that Linux may run it on. A
`worker_init_fn` can pin its worker to a core of its own, so that the worker doesn't move from core
to core. But if the number of the core doesn't depend on the number of the worker, every worker gets
the same core. Here, it depends only on the rank. In `cores[worker_id // len(cores)]`, a `//` where
a `%` should be does the same. It can also happen without any such code of yours: some libraries pin
the process that imports them, and a variable such as `KMP_AFFINITY` or `GOMP_CPU_AFFINITY` makes
OpenMP do it. A new process inherits the affinity of the one that starts it.

Torch counts the cores that main may use, so with enough of them, it doesn't warn you that there are
too many workers.

Fix: don't pin workers, because Linux moves them to idle cores by itself. If you have to pin them,
give each worker a different core, and count the workers of all ranks. To see what a worker may use,
print `os.sched_getaffinity(0)` in `__getitem__`, or run `taskset -cp PID`.

Seen in: pytorch#101850 (2023: 10 times faster once it was found), pytorch#8126.
"""

from __future__ import annotations

import math
import multiprocessing
import os
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.tools import Case, Costs, Failure, Finding, facts_of, load

LENGTH, SIDE = 64, 256


class Augmented(Dataset[torch.Tensor]):
    """A dataset of random images with raised contrast, cropped to their middle."""

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        random = torch.Generator().manual_seed(index)
        image = torch.rand(3, SIDE, SIDE, generator=random)
        image = image.mul(1.2).sub(0.1).clamp(0, 1)
        return image[:, SIDE // 4 : -SIDE // 4, SIDE // 4 : -SIDE // 4]


def pin(worker: int) -> None:
    """Pin a worker to one of the cores that it may use, so that it never moves to another core."""
    cores = sorted(os.sched_getaffinity(0))
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})


def count_sharing(loader: DataLoader[Any]) -> Finding:
    """Run an epoch, and count how many workers have to share a core.

    Read the workers' cores once each worker has delivered a batch, because a worker isn't pinned
    until it has started.
    """
    others, cores = set(multiprocessing.active_children()), os.sched_getaffinity(0)
    mains = len(cores)
    for number, _ in enumerate(loader, start=1):
        if number == loader.num_workers:
            workers = set(multiprocessing.active_children()) - others
            cores = set().union(*(os.sched_getaffinity(each.pid or 0) for each in workers))
    sharing = math.ceil(max(loader.num_workers, 1) / len(cores))
    return Finding(sharing, f"workers to a core, though main has {mains} cores")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that pins every worker to the core of its rank."""
    return _case(workers, start_method, worker_init_fn=pin)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that doesn't pin workers."""
    return _case(workers, start_method)


def _case(workers: int, start_method: str, **options: Any) -> Case:
    return Case(load(Augmented(), workers, start_method, **options), count_sharing)


def no_choice() -> str | None:
    """Return why this process can't choose between cores, or None if it can."""
    if not hasattr(os, "sched_getaffinity"):
        return "this operating system doesn't pin processes to cores"
    return "this process may use only one core" if len(os.sched_getaffinity(0)) < 2 else None


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Costs(2), absent=no_choice)
