"""Compare random generators, start a distributed job, and provide the starter of lesson 12."""

from __future__ import annotations

import random
import re
import sys
from typing import Final

import cloudpickle
import numpy as np
import torch
from torch.utils.data import Dataset

from dltutor.failures.tools import load
from dltutor.lessons.lesson_12 import job
from dltutor.observation.confinement.supervisor import run, workspace
from dltutor.observation.confinement.task import Task
from dltutor.tables import Table

#: The generators' names for a table, in the order in which `_Draws` draws from them.
GENERATORS: Final = (
    "np.random.normal()",
    "random.random()",
    "torch.rand(())",
    "self.rng = np.random.default_rng(0)",
    "self.rng = np.random.RandomState(0)",
    "self.rng = random.Random(0)",
    "self.rng = torch.Generator()",
)
_BATCH: Final = 8
_LOOPBACK: Final = "lo0" if sys.platform == "darwin" else "lo"
# With `GLOO_SOCKET_IFNAME`, the ranks connect even if the machine can't look up its own name.
_ENVIRONMENT: Final = ("/usr/bin/env", f"GLOO_SOCKET_IFNAME={_LOOPBACK}", "OMP_NUM_THREADS=1")
_COMMAND: Final = (
    *(sys.executable, "-m", "torch.distributed.run"),
    *("--standalone", "--local-addr=localhost", "--nproc-per-node=2"),
)
# These lines are the same in every run: what the job prints, and which rank failed first.
_KEPT: Final = re.compile(
    r"DistributedSampler: .*|\w+: \d+ missing.*|  steps of .*|rank \d waited .*|job.py FAILED"
    r"|\[rank\d\]: \w*(?:Error|Exception).*"
)
_FIRST: Final = re.compile(r"  rank      : \d|  exitcode  : -?\d+|\w*Error: .*")


class Signals(Dataset[torch.Tensor]):
    """The notebook's starter for "12.fix", whose signals get noise from one generator."""

    def __init__(self, signals: torch.Tensor, seed: int) -> None:
        self.signals = signals
        self.seed = seed
        self.epoch = torch.tensor(0).share_memory_()
        self.rng = np.random.default_rng(seed)

    def set_epoch(self, epoch: int) -> None:
        self.epoch.fill_(epoch)

    def __len__(self) -> int:
        return len(self.signals)

    def __getitem__(self, index: int) -> torch.Tensor:
        noise = self.rng.normal(size=4)
        return self.signals[index] + torch.from_numpy(noise)


class _Draws(Dataset[torch.Tensor]):
    # Each sample is one draw from each of GENERATORS.
    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.state = np.random.RandomState(0)
        self.random = random.Random(0)
        self.torch = torch.Generator()

    def __len__(self) -> int:
        return 4 * _BATCH

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(
            [
                np.random.normal(),
                random.random(),
                torch.rand(()),
                self.rng.normal(),
                self.state.normal(),
                self.random.random(),
                torch.rand((), generator=self.torch),
            ]
        )


def generators() -> Table:
    """Show which generators draw the same numbers in two workers, and in two epochs.

    Raises:
        AssertionError: The result isn't what the notebook says.
    """
    columns: list[list[str]] = []
    for persistent in (False, True):
        loader = load(_Draws(), 2, "fork", batch_size=_BATCH, persistent_workers=persistent)
        epochs = [list(loader), list(loader)]
        if not persistent:
            columns.append(_compared(epochs[0][0], epochs[0][1]))  # one batch from each worker
        columns.append(_compared(epochs[0][0], epochs[1][0]))
    assert [*zip(*columns, strict=True)] == 3 * [("differ",) * 3] + 4 * [("same", "same", "differ")]
    header = ("drawn from", "W0 and W1", "epochs 0 and 1", "epochs 0 and 1, persistent")
    return Table("Are the numbers the same?", tuple(zip(GENERATORS, *columns, strict=True)), header)


def _compared(one: torch.Tensor, other: torch.Tensor) -> list[str]:
    return ["same" if torch.equal(*pair) else "differ" for pair in zip(one.T, other.T, strict=True)]


def torchrun(stream: type | None = None, *, deadline: float = 90) -> None:
    """Start the job on two ranks, and print the lines that are the same in every run.

    Args:
        stream: The class of the stream that the job runs. The job then also calls `set_epoch` on
            its sampler. By default, the job runs `ByWorker` and `ByRankAndWorker`, and doesn't call
            `set_epoch`.
        deadline: Seconds after which we kill all of the job's processes.
    """
    with workspace() as (folder, interrupts):
        arguments = []
        if stream:
            (folder / "stream.pkl").write_bytes(cloudpickle.dumps(stream))
            arguments = ["--set-epoch", f"{folder}/stream.pkl"]
        job_run = Task(
            argv=[*_ENVIRONMENT, *_COMMAND, job.__file__, *arguments],
            folder=str(folder),
            seconds=deadline,
        )
        print("$ torchrun --nproc-per-node 2 job.py", *arguments[:1])
        report, _ = run(job_run, interrupts)
        if report.stopped:
            print(f"Stopped after {deadline:g} s.")
        print(*kept((folder / "output").read_text(errors="replace")), sep="\n")


def kept(output: str) -> list[str]:
    """Return the lines of torchrun's output that are the same in every run."""
    before, _, first = output.replace(job.__file__, "job.py").partition("Root Cause")
    matches = [_KEPT.match(line) for line in before.splitlines()]
    matches += [_FIRST.match(line) for line in first.splitlines()]
    # Of the ranks' errors, keep only those of the rank that failed first. The others only raise
    # "Connection closed by peer", because that rank has ended.
    found = re.search(r"rank      : (\d)", first)
    own = f"[rank{found[1] if found else 0}]"
    lines = [match[0] for match in matches if match]
    return [line for line in lines if line.startswith(own) or not line.startswith("[rank")]
