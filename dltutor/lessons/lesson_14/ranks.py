"""Incident "ranks": equal shares, which each rank puts into batches by itself.

The shares are equally long, and follow the epoch. But each rank sorts its own into batches of
recordings of one length, and how many that are depends on what is left of each length.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from dltutor.lessons.engine.outcomes import not_yet
from dltutor.lessons.engine.running import made, started
from dltutor.lessons.lesson_14.reports import grader
from dltutor.lessons.lesson_14.scene import Cause, Incident

_RECORDINGS: Final = 141  # 19 batches, which no number of ranks divides
_BATCH, _WIDTH, _EPOCHS = 8, 96, 3
_RANKS: Final = (2, 1, 3)
_MOST_AGAIN: Final = 0.85  # of a rank's recordings, in the next epoch
_WITHIN: Final = 20  # seconds for the epochs of one rank
_JOB: Final = 90  # seconds for the job on two ranks


def make_data(folder: Path, seed: int) -> None:
    """Recordings of three lengths, which begin with their index."""
    random = np.random.default_rng(seed)
    recordings = random.normal(size=(_RECORDINGS, _WIDTH)).astype(np.float32)
    recordings[:, 0] = np.arange(_RECORDINGS)
    np.save(folder / "recordings.npy", recordings / _RECORDINGS)
    np.save(folder / "lengths.npy", np.array([32, 64, 64, 96, 32])[np.arange(_RECORDINGS) * 7 % 5])


INCIDENT: Final = Incident(
    name="ranks",
    title="On two ranks the job stops, and after a while gloo gives up",
    causes=(
        Cause(
            names=("ranks",),
            places=("Batches", "Share", "__iter__", "make_loader", "batch_sampler", "sampler"),
            shortest="the batches of rank 0 and of rank 1, `batches(folder, rank, 2, 0, 3)`, "
            "counted epoch by epoch without any torchrun.",
        ),
    ),
    make_data=make_data,
)


def run(folder: Path, data: Any, train: Any) -> str:
    """Ask for the batches of each rank in turn; then run the job with torchrun."""
    started()
    lengths = np.load(folder / "lengths.npy").tolist()
    for ranks in _RANKS:
        for workers in (2, 0):
            before, got = started(), []
            for rank in range(ranks):
                call = f"list(batches(folder, {rank}, {ranks}, {workers}, {_EPOCHS}))"
                asked = (folder, rank, ranks, workers, _EPOCHS)
                got.append(made(_indices, train.batches, asked, lengths, call=call, within=_WITHIN))
            lead = f"with {ranks} rank{'s' if ranks > 1 else ''}, {workers} workers each"
            if problem := _problem(got):
                not_yet(f"{lead}, {problem}")
            if (count := started() - before) < workers * ranks:
                not_yet(f"{lead}, {count or 'no'} processes were started. The job needs them.")
    end, said = _with_torchrun(folder)
    if end:
        not_yet(
            f"`batches` is right for each rank. But `train.py` on two ranks {end}; it said: "
            f"`{said}`. What does the script do besides?"
        )
    return (
        f"Over 1, 2 and 3 ranks each recording came, in other orders in each of {_EPOCHS} epochs "
        "and in as many batches on each rank; and torchrun ends the job on two."
    )


def _indices(batches: Any, asked: tuple[Any, ...], lengths: list[int]) -> Any:
    # The indices of each batch, by epoch; or what is wrong with one.
    found: list[list[list[int]]] = [[] for _ in range(_EPOCHS)]
    for epoch, indices, recordings in batches(*asked):
        indices, recordings = torch.as_tensor(indices).tolist(), torch.as_tensor(recordings)
        first = (recordings[:, 0] * _RECORDINGS).round().tolist()
        if not 0 < len(indices) <= _BATCH or first != indices:
            return f"a batch has the indices {indices}, and the recordings {first}."
        if {lengths[index] for index in indices} != {recordings.shape[1]}:
            return f"a batch of {recordings.shape[1]} numbers has recordings of another length."
        found[int(epoch)].append(indices)
    return found


def _problem(got: list[Any]) -> str:
    # What is wrong with what the ranks got, or nothing.
    if odd := next((each for each in got if isinstance(each, str)), ""):
        return odd
    steps = [[len(epoch) for epoch in rank] for rank in got]
    if any(each != steps[0] for each in steps):
        return (
            f"the ranks get {' and '.join(map(str, steps))} batches in the epochs. A rank that has "
            "one more waits for the others in it. Who decides how many there are?"
        )
    for epoch in chain(*got):
        if (mean := sum(map(len, epoch)) / len(epoch)) < _BATCH / 2:
            return (
                f"a batch has {mean:.1f} recordings on average, and up to {_BATCH} fit. Who makes "
                "the batches smaller?"
            )
    orders: list[list[list[int]]] = [[[*chain(*epoch)] for epoch in rank] for rank in got]
    for epoch in range(_EPOCHS):
        times = Counter(index for rank in orders for index in rank[epoch])
        missing, twice = _RECORDINGS - len(times), sum(count == 2 for count in times.values())
        often = sum(count > 2 for count in times.values())
        if missing or often or twice >= (len(got) * _BATCH if len(got) > 1 else 1):
            return (
                f"of {_RECORDINGS} recordings, in epoch {epoch} {missing} came to no rank, {twice} "
                f"came twice, and {often} more often."
            )
    for rank in orders:
        if any(one == other for one, other in pairwise(rank)):
            return (
                "a rank gets its recordings in the same order in two epochs. What in the order "
                "depends on the epoch?"
            )
        again = max(len({*one} & {*other}) / len(set(one)) for one, other in pairwise(rank))
        if len(got) > 1 and again > _MOST_AGAIN:
            return (
                f"{again:.0%} of a rank's recordings are its own in the next epoch, too. Which "
                "recordings can it never get?"
            )
    return ""


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


GRADER: Final = grader(
    INCIDENT,
    run,
    runs="deals other recordings to 1, 2 and 3 ranks, and runs your job with torchrun",
    job=False,  # it is one of several processes
    at_most=_WITHIN * 3 + _JOB + 15,
)
