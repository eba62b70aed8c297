"""Incident "ranks": all ranks get equal shares, but each rank makes its own batches.

The shares have the same size and change with the epoch. But each rank sorts its share into batches
of equally long recordings, and the number of batches depends on how many recordings of each length
are left over.
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

from dltutor.lessons.engine.outcomes import Fault, Result, correct, fault, not_yet, reject
from dltutor.lessons.engine.running import made, starts
from dltutor.lessons.lesson_14.reports import grader
from dltutor.lessons.lesson_14.scene import Incident

_RECORDINGS: Final = 141  # which make 19 batches, so 2 or 3 ranks can't share them evenly
_BATCH, _WIDTH, _EPOCHS = 8, 96, 3
_RANKS: Final = (2, 1, 3)
# The largest part of a rank's recordings that the next epoch may repeat. With a new random order, a
# rank repeats about half of them if there are 2 ranks, and a third if there are 3.
_MOST_AGAIN: Final = 0.85
_WITHIN: Final = 20  # time limit in seconds for the epochs of one rank
_JOB: Final = 90  # time limit in seconds for the job on two ranks


def make_data(folder: Path, seed: int) -> None:
    """Write recordings of three lengths. Recording i begins with i / _RECORDINGS."""
    random = np.random.default_rng(seed)
    recordings = random.normal(size=(_RECORDINGS, _WIDTH)).astype(np.float32)
    recordings[:, 0] = np.arange(_RECORDINGS)
    np.save(folder / "recordings.npy", recordings / _RECORDINGS)
    np.save(folder / "lengths.npy", np.array([32, 64, 64, 96, 32])[np.arange(_RECORDINGS) * 7 % 5])


INCIDENT: Final = Incident("ranks", make_data)


def run(folder: Path, data: Any, train: Any) -> Result:
    """Check the batches of each rank in one process, and then run the job with torchrun."""
    lengths = np.load(folder / "lengths.npy").tolist()
    for ranks in _RANKS:
        for workers in (2, 0):
            got, lead = [], f"with `ranks={ranks}` and `workers={workers}`"
            with starts() as started:
                for rank in range(ranks):
                    call = f"list(batches(folder, {rank}, {ranks}, {workers}, {_EPOCHS}))"
                    asked = train.batches, (folder, rank, ranks, workers, _EPOCHS)
                    got.append(made(_indices, *asked, lengths, lead, call=call, within=_WITHIN))
            if problem := _problem(got):
                reject(problem, where=lead)
            if len(started) < workers * ranks:
                not_yet("few-processes", where=lead, started=len(started))
    _with_torchrun(folder)
    return correct()


def _indices(batches: Any, asked: tuple[Any, ...], lengths: list[int], lead: str) -> Any:
    # Return the indices of each batch, by epoch, or reject a wrong batch.
    found: list[list[list[int]]] = [[] for _ in range(_EPOCHS)]
    for epoch, _, recordings in batches(*asked):
        recordings = torch.as_tensor(recordings)
        indices = (recordings[:, 0] * _RECORDINGS).round().int().tolist()
        if not 0 < len(indices) <= _BATCH:
            not_yet("no-such-size", where=lead, size=len(indices))
        if {lengths[index] for index in indices} != {recordings.shape[1]}:
            not_yet("mixed-lengths", where=lead, width=recordings.shape[1])
        found[int(epoch)].append(indices)
    return found


def _problem(got: list[Any]) -> Fault | None:
    # Return the first mistake in the batches that the ranks got.
    steps = [[len(epoch) for epoch in rank] for rank in got]
    if any(each != steps[0] for each in steps):
        return fault("uneven-steps", steps=" and ".join(map(str, steps)))
    for epoch in chain(*got):
        if (mean := sum(map(len, epoch)) / len(epoch)) < _BATCH / 2:
            return fault("small-batches", mean=f"{mean:.1f}")
    orders: list[list[list[int]]] = [[[*chain(*epoch)] for epoch in rank] for rank in got]
    for epoch in range(_EPOCHS):
        times = Counter(index for rank in orders for index in rank[epoch])
        missing, twice = _RECORDINGS - len(times), sum(count == 2 for count in times.values())
        often = sum(count > 2 for count in times.values())
        if missing or often or twice >= (len(got) * _BATCH if len(got) > 1 else 1):
            counts = {"recordings": _RECORDINGS, "missing": missing, "twice": twice, "often": often}
            return fault("other-recordings", epoch=epoch, **counts)
    for rank in orders:
        if any(one == other for one, other in pairwise(rank)):
            return fault("same-order")
        again = max(len({*one} & {*other}) / len(set(one)) for one, other in pairwise(rank))
        if len(got) > 1 and again > _MOST_AGAIN:
            return fault("same-recordings", again=f"{again:.0%}")
    return None


def _with_torchrun(folder: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", "train.py"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    try:
        job = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_JOB
        )
    except subprocess.TimeoutExpired as late:
        printed = (late.stdout or b"").decode()
        not_yet("torchrun-hung", seconds=_JOB, said=_last(printed))
    if job.returncode:
        errors = [line for line in job.stderr.splitlines() if "Error" in line]
        said = errors[0] if errors else _last(job.stderr)
        not_yet("torchrun-failed", exitcode=job.returncode, said=said)


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["nothing"])[-1].strip()


GRADER: Final = grader(
    INCIDENT,
    run,
    job=False,  # `run` starts the script with torchrun
    at_most=_WITHIN * 3 + _JOB + 15,
)
