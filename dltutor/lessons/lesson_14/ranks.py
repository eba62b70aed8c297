"""Incident "ranks": shares of unlike length, and the same order in every epoch."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from dltutor.lessons.kit.outcomes import not_yet
from dltutor.lessons.kit.running import made
from dltutor.lessons.lesson_14.scene import Cause, Incident, grader

_LENGTHS: Final = {True: 129, False: 145}  # of a learner's folder, and of a check's
_BATCH, _WIDTH, _EPOCHS = 8, 64, 3
_RANKS: Final = (2, 1, 3)
_WITHIN: Final = 20  # seconds for the epochs of one rank
_JOB: Final = 90  # seconds for the job on two ranks


def make_data(folder: Path, seed: int) -> None:
    """Recordings that begin with their index."""
    random = np.random.default_rng(seed)
    recordings = random.normal(size=(_LENGTHS[seed < 1000], _WIDTH)).astype(np.float32)
    recordings[:, 0] = np.arange(len(recordings))
    np.save(folder / "recordings.npy", recordings / len(recordings))


INCIDENT: Final = Incident(
    name="ranks",
    title="Two ranks, and the first epoch never ends",
    causes=(
        Cause(
            names=("ranks",),
            places=("Share", "__iter__", "__len__", "make_loader", "batches"),
            shortest="the batches of rank 0 and of rank 1, counted without any torchrun: 9 and 8, "
            "in the same order in each epoch.",
        ),
    ),
    make_data=make_data,
)


@dataclass(frozen=True)
class Ran:
    """What all ranks got.

    Args:
        where: How many ranks there are, and with how many workers.
        length: How many recordings there are.
        steps: Of each rank, the number of batches in each epoch.
        odd: What of a batch is not as asked, in a sentence, or nothing.
        missing: Recordings that came to no rank in an epoch, at most.
        twice: Recordings that came twice in an epoch, at most.
        often: Recordings that came more often, at most.
        same: Pairs of epochs that had the same order, on some rank.
        started: How many processes were started.
        workers: How many each rank was given.
    """

    where: str
    length: int
    steps: tuple[tuple[int, ...], ...] = ()
    odd: str = ""
    missing: int = 0
    twice: int = 0
    often: int = 0
    same: int = 0
    started: int = 0
    workers: int = 0

    @property
    def problem(self) -> str:
        """What is wrong with it, or nothing."""
        ranks = len(self.steps)
        if self.odd:
            return self.odd
        if len(set(self.steps)) > 1:
            counts = " and ".join(str(list(each)) for each in self.steps)
            return (
                f"the ranks get {counts} batches in the epochs. A rank that has one more waits for "
                "the others in it. How long is each share?"
            )
        if self.missing or self.often or self.twice >= max(ranks, 1):
            return (
                f"of {self.length} recordings, in an epoch {self.missing} came to no rank, "
                f"{self.twice} came twice, and {self.often} more often."
            )
        if self.same:
            return (
                "a rank gets its recordings in the same order in two epochs. What in the order "
                "depends on the epoch?"
            )
        if self.started < self.workers * ranks:
            return f"{self.started or 'no'} processes were started. The job needs its workers."
        return ""


@dataclass(frozen=True)
class Job:
    """What is known of a fix.

    Args:
        found: Of each number of ranks and workers, up to the first with a problem.
        end: How the job on two ranks ended: "", or in words.
        said: The last line that it printed.
    """

    found: tuple[Ran, ...]
    end: str = ""
    said: str = ""


def run(folder: Path, data: Any, train: Any) -> Job:
    """Ask for the batches of each rank in turn; then run the job with torchrun."""
    started = [0]
    os.register_at_fork(after_in_parent=lambda: started.append(started.pop() + 1))
    length = len(np.load(folder / "recordings.npy"))
    found: list[Ran] = []
    for ranks in _RANKS:
        for workers in (2, 0):
            began, got = started[0], []
            for rank in range(ranks):
                call = f"list(batches(folder, {rank}, {ranks}, {workers}, {_EPOCHS}))"
                asked = (folder, rank, ranks, workers, _EPOCHS)
                got.append(made(_indices, train.batches, asked, call=call, within=_WITHIN))
            told = f"{ranks} rank{'s' if ranks > 1 else ''}, {workers} workers each"
            found.append(_read(told, length, got, started[0] - began, workers))
            if found[-1].problem:
                return Job(tuple(found))
    return Job(tuple(found), *_with_torchrun(folder))


def _indices(batches: Any, asked: tuple[Any, ...]) -> Any:
    # Of each batch the epoch and the indices; or what is wrong with one.
    found = []
    for epoch, indices, recordings in batches(*asked):
        indices = torch.as_tensor(indices).tolist()
        first = (
            torch.as_tensor(recordings)[:, 0] * len(np.load(asked[0] / "recordings.npy"))
        ).round()
        if not 0 < len(indices) <= _BATCH or first.tolist() != indices:
            return f"a batch has the indices {indices}, and {len(first)} recordings, of others."
        found.append((int(epoch), indices))
    return found


def _read(where: str, length: int, got: list[Any], started: int, workers: int) -> Ran:
    if odd := next((each for each in got if isinstance(each, str)), ""):
        return Ran(where, length, odd=odd)
    orders = [
        [
            [index for at, indices in rank if at == epoch for index in indices]
            for epoch in range(_EPOCHS)
        ]
        for rank in got
    ]
    times = [Counter(index for rank in orders for index in rank[epoch]) for epoch in range(_EPOCHS)]
    return Ran(
        where,
        length,
        tuple(
            tuple(sum(at == epoch for at, _ in rank) for epoch in range(_EPOCHS)) for rank in got
        ),
        "",
        max(length - len(each) for each in times),
        max(sum(count == 2 for count in each.values()) for each in times),
        max(sum(count > 2 for count in each.values()) for each in times),
        sum(len(rank) - len({str(order) for order in rank}) for rank in orders),
        started,
        workers,
    )


def _with_torchrun(folder: Path) -> tuple[str, str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", "train.py"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    try:
        job = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_JOB
        )
    except subprocess.TimeoutExpired as late:
        printed = (late.stdout or b"").decode()
        return f"had not ended after {_JOB} s", _last(printed)
    if job.returncode:
        errors = [line for line in job.stderr.splitlines() if "Error" in line]
        return f"ended with exit code {job.returncode}", errors[0] if errors else _last(job.stderr)
    return "", _last(job.stdout)


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["nothing"])[-1].strip()


def judge_run(job: Job) -> str:
    """Right if the ranks agree, and the job on two of them ends."""
    for ran in job.found:
        if ran.problem:
            not_yet(f"with {ran.where}, {ran.problem}")
    if job.end:
        not_yet(
            f"`batches` is right for each rank. But `train.py` on two ranks {job.end}; it said: "
            f"`{job.said}`. What does the script do besides?"
        )
    assert len(job.found) == 2 * len(_RANKS), "one that is not right has been rejected"
    return (
        f"Over 1, 2 and 3 ranks each recording came, in other orders in each of {_EPOCHS} epochs "
        "and in as many batches on each rank; and torchrun ends the job on two."
    )


GRADER: Final = grader(
    INCIDENT,
    run=run,
    judge_run=judge_run,
    runs="deals other recordings to 1, 2 and 3 ranks, and runs your job with torchrun",
    job=False,  # it is one of several processes
    at_most=_WITHIN * 3 + _JOB + 15,
)
