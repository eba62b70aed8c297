"""A killed run leaves its batches in `/dev/shm`, and they stay there until something removes them.

Symptom: `/dev/shm` is full of files named `torch_*` that belong to no running process. Sooner or
later, another run fails with `No space left on device`, although it did nothing wrong.

NOTE [ Who Cleans Up ]

With the sharing strategy `file_descriptor`, the default on Linux, a segment loses its name as soon
as it's made. Linux frees the segment when no process has it open anymore, however the processes
ended.

With `file_system`, the worker sends the name, so the name has to stay, and something has to unlink
it later. torch starts a process for that, `torch_shm_manager`, which notices when the processes it
serves are gone. If main is killed, the manager cleans up. If the manager is killed as well, nothing
does. That happens when something ends a whole job at once: `docker kill`, a batch system, the
out-of-memory killer of a cgroup. A container's own `/dev/shm` disappears with the container, but
the host's, with `--ipc=host`, stays.

The managers lead their own sessions. So a signal to the process group of the run (`kill -9 -PGID`,
Ctrl-C in a terminal) doesn't reach them, and nothing is left behind.

Fix: keep the default strategy and have fewer tensors alive (see `too_many_open_files`), or raise
the limit. If you need `file_system`, look into `/dev/shm` before a run, and remove files that no
process owns. The number after `torch_` is the pid of the process that made the file.

Seen in: pytorch#17499, pytorch-lightning#2352, pytorch#30225 (`could not unlink the shared memory
file`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import psutil
import torch
import torch.multiprocessing
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load
from dltutor.system.processes import segments, segments_of, unlink_segments

BATCHES = 5
PATIENCE = 5.0  # the most seconds to wait for killed processes to end

Init = Callable[[int], None]


class Numbers(Dataset[torch.Tensor]):
    """A dataset of the numbers from 0 to 39, for 5 batches of 8."""

    def __len__(self) -> int:
        return 8 * BATCHES

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(float(index))


def share_by_name(worker: int) -> None:
    """Share this process's tensors by name, as the message "Too many open files" advises."""
    torch.multiprocessing.set_sharing_strategy("file_system")


def make_loader(workers: int, start_method: str, init: Init | None) -> DataLoader[torch.Tensor]:
    """Make a loader of 5 batches. Unless `init` is None, each worker first calls `init`."""
    return load(Numbers(), workers, start_method, batch_size=8, worker_init_fn=init)


def train(workers: int, start_method: str, strategy: str) -> None:
    """Take all batches, report that on stdout, and wait for `kill_a_run` to kill this process."""
    init = share_by_name if strategy == "file_system" else None
    if init is not None:
        init(0)
    iterator = iter(make_loader(workers, start_method, init))
    batches = [next(iterator) for _ in range(BATCHES)]
    print("has", len(batches), "batches", flush=True)
    sys.stdin.readline()


def kill_a_run(loader: DataLoader[Any], *, strategy: str) -> Finding:
    """Run `train` in its own interpreter, kill the run's processes, and count the segments left.

    After counting, remove these segments.

    Args:
        loader: A loader with the number of workers and the start method for the run.
        strategy: The sharing strategy of the run, "file_system" or "file_descriptor".

    Raises:
        RuntimeError: The run exited before it had all batches.
    """
    context = loader.multiprocessing_context
    method = context.get_start_method() if context is not None else ""
    command = f"import {__name__} as run; run.train({loader.num_workers}, {method!r}, {strategy!r})"
    with tempfile.TemporaryDirectory(prefix="dltutor-") as folder:
        run = subprocess.Popen(
            [sys.executable, "-c", command],
            env=os.environ | {"TMPDIR": folder},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # hides complaints from Python's resource tracker
        )
        with run:
            assert run.stdout is not None
            if not run.stdout.readline():
                raise RuntimeError(f"the run exited early, with exit code {run.wait()}")
            held = kill_all(folder)
    left = held.keys() & segments()
    unlink_segments(held)
    return Finding(len(left), f"of {BATCHES} segments left")


def kill_all(folder: str) -> dict[str, tuple[int, int]]:
    """Kill the processes that use this temporary folder, except Python's resource tracker.

    Wait up to 5 s until all of these processes have ended.

    Returns:
        The segments that the processes had open: name -> device and inode.
    """
    processes = of_run(folder)
    # Kill torch's shared-memory managers first, or they'd clean up after the other processes.
    # Spare Python's resource tracker, because it exits by itself, and in this run, it removes only
    # semaphores.
    processes.sort(key=lambda process: process.name() != "torch_shm_manager")
    held = {name: file for each in processes for name, file in segments_of(each.pid).items()}
    for process in processes:
        if "resource_tracker" not in " ".join(process.cmdline()):
            process.kill()
    psutil.wait_procs(processes, timeout=PATIENCE)
    return held


def of_run(folder: str) -> list[psutil.Process]:
    """Return the processes whose TMPDIR is this folder, as far as we may read their environment."""
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # the process has ended, or belongs to another user
            if process.environ().get("TMPDIR") == folder:
                processes.append(process)
    return processes


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that kills a run that shares its batches by name."""
    loader = make_loader(workers, start_method, share_by_name)
    return Case(loader, consume=partial(kill_a_run, strategy="file_system"))


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that kills a run that shares its batches by descriptor."""
    loader = make_loader(workers, start_method, None)
    return Case(loader, consume=partial(kill_a_run, strategy="file_descriptor"))


FAILURE = Failure(
    **facts_of(__name__), broken=broken, fixed=fixed, sign=Counts(BATCHES), limits={"shm": "64M"}
)
