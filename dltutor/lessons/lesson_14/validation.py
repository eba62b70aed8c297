"""Incident "validation": the validation keeps its batches, and starts new workers for each batch.

`next` on a `Feed` makes a new iterator over the loader, and `Hardest` keeps a view of each batch.
The deque that holds the views has a limit, but it's higher than the cluster's limit for open files.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from dltutor.lessons.engine.endings import where
from dltutor.lessons.engine.outcomes import Fault, Result, correct, not_yet, reject
from dltutor.lessons.engine.running import made, starts
from dltutor.lessons.lesson_10.transfer import FEW, Kept, Watch, wrong_result
from dltutor.lessons.lesson_14.reports import grader, started_once
from dltutor.lessons.lesson_14.scene import Incident

_SCANS, _SIDE, _BATCH = 1024, 32, 16
_BATCHES: Final = _SCANS // 2 // _BATCH
_BYTES: Final = _BATCH * 3 * _SIDE * _SIDE * 4  # bytes of the scans in a batch
_AHEAD: Final = 2  # batches that each worker prefetches
_WORKERS: Final = (2, 0, 4)
_WITHIN: Final = 20  # time limit in seconds for one validation


def make_data(folder: Path, seed: int) -> None:
    """Write scans of noise. A scan's first number determines its kind."""
    random = np.random.default_rng(seed)
    scans = random.integers(256, size=(_SCANS, 3, _SIDE, _SIDE), dtype=np.uint8)
    scans += (scans[:, :1, :1, :1] // 64 * 8).astype(np.uint8)
    np.save(folder / "scans.npy", scans)


INCIDENT: Final = Incident("validation", make_data)


def _model() -> nn.Module:
    torch.manual_seed(14)
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * _SIDE * _SIDE, 4))


def run(folder: Path, data: Any, train: Any) -> Result:
    """Check that a validation is right and keeps nothing, with and without workers.

    The validation must also start each worker once, and leave the model as it was.
    """
    for workers in _WORKERS:
        model = _model().train(workers > 0)
        for each in model.parameters():
            each.grad = torch.ones_like(each)  # gradients, as in the middle of a training step
        kept, watch = Kept.of(model), Watch(model, _BYTES)
        call = f"validate(model, folder, {workers})"
        validation = partial(train.validate, model, folder, workers)
        with starts() as started:
            result = made(watch.run, validation, call=call, within=_WITHIN)
        lead = where(workers)
        *at_batches, left = watch.notes
        started_once(len(started), workers, lead)
        if (steps := len(at_batches)) != _BATCHES:
            not_yet("other-batches", where=lead, steps=steps, scans=_SCANS // 2, batches=_BATCHES)
        if wrong := _wrong(result, folder):
            reject(wrong, where=lead)
        if (alive := max(each.batches for each in at_batches)) > FEW + _AHEAD * workers:
            not_yet("keeps-batches", where=lead, alive=f"{alive:.0f}")
        if (graphs := max(each.graphs for each in at_batches)) > FEW:
            not_yet("keeps-graphs", where=lead, graphs=f"{graphs:.0f}")
        pieces = left.pieces + round(left.batches - _BATCHES / _BATCH)
        if left.graphs or pieces:
            not_yet("leaves-pieces", where=lead, left=max(1, pieces))
        if harm := kept.harm(model):
            not_yet(harm, where=lead)
    return correct()


def _wrong(result: Any, folder: Path) -> Fault | None:
    scans = torch.from_numpy(np.load(folder / "scans.npy")[_SCANS // 2 :])
    kinds = scans[:, 0, 0, 0].long() // 64
    with torch.no_grad():
        values = scans.float() / 255
        losses = cross_entropy(_model()(values), kinds, reduction="none").reshape(_BATCHES, _BATCH)
    hardest = values.unflatten(0, (_BATCHES, _BATCH))[range(_BATCHES), losses.argmax(1)]
    return wrong_result(result, losses.mean().item(), [*hardest])


GRADER: Final = grader(INCIDENT, run, at_most=_WITHIN * len(_WORKERS) + 15)
