"""Incident "validation": it keeps its batches, and starts new workers for each one.

`next` of a `Feed` makes a new iterator of the loader, and `Hardest` keeps a view of each batch. The
deque that holds the views has a limit, but that's more than the open files the cluster allows.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from dltutor.lessons.engine.endings import where
from dltutor.lessons.engine.forms import shown
from dltutor.lessons.engine.outcomes import Fault, Result, correct, fault, not_yet
from dltutor.lessons.engine.running import made, started
from dltutor.lessons.lesson_14.reports import grader
from dltutor.lessons.lesson_14.scene import Cause, Incident

_SCANS, _SIDE, _BATCH = 1024, 32, 16
_BATCHES: Final = _SCANS // 2 // _BATCH
_BYTES: Final = _BATCH * 3 * _SIDE * _SIDE * 4  # of the scans of a batch
_FEW: Final = 4  # batches that may be alive besides those that the loader has fetched ahead
_AHEAD: Final = 2  # batches of each worker
_WORKERS: Final = (2, 0, 4)
_WITHIN: Final = 20  # seconds for one validation


def make_data(folder: Path, seed: int) -> None:
    """Write scans of noise whose first number says which kind it is."""
    random = np.random.default_rng(seed)
    scans = random.integers(256, size=(_SCANS, 3, _SIDE, _SIDE), dtype=np.uint8)
    scans += (scans[:, :1, :1, :1] // 64 * 8).astype(np.uint8)
    np.save(folder / "scans.npy", scans)


INCIDENT: Final = Incident(
    name="validation",
    causes=(
        Cause(
            names=("kept_batches", "too_many_open_files", "view_of_a_giant"),
            places=("Hardest", "add", "scans", "hardest", "argmax", "detach", "Report", "validate"),
        ),
        Cause(
            names=("loader_per_step",),
            places=("Feed", "__next__", "__iter__", "next", "iter", "validate"),
        ),
    ),
    make_data=make_data,
)


class _Model(nn.Sequential):
    # A classifier that looks at what is alive when a batch goes through it.
    def __init__(self) -> None:
        torch.manual_seed(14)
        super().__init__(nn.Flatten(), nn.Linear(3 * _SIDE * _SIDE, 4))
        self.steps, self.alive, self.graphs = 0, 0, 0

    def forward(self, scans: Any) -> Any:
        self.steps += 1
        self.alive = max(self.alive, _batches_alive())
        result: Any = self[1](self[0](scans))
        self.graphs = max(self.graphs, _graphs_alive())
        return result


def _tensors() -> list[torch.Tensor]:
    return [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]


def _batches_alive() -> int:
    sizes = {
        each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in _tensors()
    }
    return sum(size // _BYTES for size in sizes.values())


def _graphs_alive() -> int:
    return sum(each.grad_fn is not None for each in _tensors())


def _pieces_left() -> int:
    # Tensors that a worker sent, or that are a part of a larger one.
    storages = {each.untyped_storage().data_ptr(): each for each in _tensors()}
    return sum(
        each.is_shared() or (each.grad_fn is not None) or each.untyped_storage().nbytes() == _BYTES
        for each in storages.values()
    )


def run(folder: Path, data: Any, train: Any) -> Result:
    """Validate once with each number of workers: is the result right, and is nothing kept?"""
    started()
    gc.collect()
    gc.freeze()  # what already exists isn't the answer's
    for workers in _WORKERS:
        model = _Model().train(workers > 0)
        for each in model.parameters():
            each.grad = torch.ones_like(each)  # of a step that is under way
        was = [each.detach().clone() for each in model.parameters()]
        before = started()
        call = f"validate(model, folder, {workers})"
        result = made(train.validate, model, folder, workers, call=call, within=_WITHIN)
        gc.collect()
        count = started() - before
        lead = where(workers)
        if count > workers:
            not_yet("many-processes", where=lead, started=count)
        if (steps := model.steps) != _BATCHES:
            not_yet("other-batches", where=lead, steps=steps, scans=_SCANS // 2, batches=_BATCHES)
        if wrong := _wrong(result, folder):
            not_yet(wrong.code, where=lead, **wrong.fields)
        if count < workers:
            not_yet("few-processes", where=lead, started=count)
        if model.alive > _FEW + _AHEAD * workers:
            not_yet("keeps-batches", where=lead, alive=model.alive)
        if model.graphs > 2 * _FEW:
            not_yet("keeps-graphs", where=lead, graphs=model.graphs)
        if left := _pieces_left():
            not_yet("leaves-pieces", where=lead, left=left)
        if harm := _harm(model, was, training=workers > 0):
            not_yet(harm, where=lead)
    return correct()


def _wrong(result: Any, folder: Path) -> Fault | None:
    try:
        mean, hardest = result
        mean, hardest = float(torch.as_tensor(mean).detach()), list(hardest)
    except (TypeError, ValueError, RuntimeError):
        return fault("other-result", result=shown(result))
    scans = torch.from_numpy(np.load(folder / "scans.npy")[_SCANS // 2 :])
    kinds = scans[:, 0, 0, 0].long() // 64
    with torch.no_grad():
        values = scans.float() / 255
        losses = cross_entropy(_Model()(values), kinds, reduction="none").reshape(_BATCHES, _BATCH)
    right = values.unflatten(0, (_BATCHES, _BATCH))[range(_BATCHES), losses.argmax(1)]
    same = sum(
        isinstance(one, torch.Tensor) and one.shape == other.shape and torch.allclose(one, other)
        for one, other in zip(hardest, right, strict=False)
    )
    if len(hardest) != _BATCHES or same != _BATCHES:
        return fault("other-scans", same=same, returned=len(hardest), batches=_BATCHES)
    right_mean = losses.mean().item()
    if abs(mean - right_mean) > 1e-3:
        return fault("other-mean", mean=f"{mean:.4f}", right=f"{right_mean:.4f}")
    return None


def _harm(model: nn.Module, was: list[torch.Tensor], *, training: bool) -> str:
    # The code of what about the model isn't as it was, or "".
    if any(module.training != training for module in model.modules()):
        return "left-in-eval" if training else "left-in-training"
    if not all(map(torch.equal, model.parameters(), was)):
        return "trained"
    grads = [each.grad for each in model.parameters() if each.requires_grad]
    if len(grads) < len(was) or any(each is None or bool((each != 1).any()) for each in grads):
        return "other-gradients"
    return "" if torch.is_grad_enabled() else "no-grad-left"


GRADER: Final = grader(
    INCIDENT,
    run,
    at_most=_WITHIN * len(_WORKERS) + 15,
)
