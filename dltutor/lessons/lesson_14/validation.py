"""Incident "validation": it keeps its batches, and starts its workers anew for each of them.

`next` of a `Feed` makes a new iterator of the loader, and `Hardest` keeps a view of each batch. The
deque that keeps them is bounded, by more than the open files that the cluster allows.
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
from dltutor.lessons.engine.outcomes import not_yet
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
    """Scans of noise; the first number tells the kind."""
    random = np.random.default_rng(seed)
    scans = random.integers(256, size=(_SCANS, 3, _SIDE, _SIDE), dtype=np.uint8)
    scans += (scans[:, :1, :1, :1] // 64 * 8).astype(np.uint8)
    np.save(folder / "scans.npy", scans)


INCIDENT: Final = Incident(
    name="validation",
    title="Validation is slow, and the job does not reach its last epoch",
    causes=(
        Cause(
            names=("kept_batches", "too_many_open_files", "view_of_a_giant"),
            places=("Hardest", "add", "scans", "hardest", "argmax", "detach", "Report", "validate"),
            shortest="the open files of main before and after `validate`: one more for each scan "
            "that it returns.",
        ),
        Cause(
            names=("loader_per_step",),
            places=("Feed", "__next__", "__iter__", "next", "iter", "validate"),
            shortest="`monitor.txt`: the workers have other pids at each tick; or the processes "
            "that one `validate` starts, counted.",
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


def run(folder: Path, data: Any, train: Any) -> str:
    """One validation with each number of workers: is the result right, and nothing kept?"""
    started()
    gc.collect()
    gc.freeze()  # what is there is not the answer's
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
            not_yet(
                f"{lead}, one call of `validate` started {count} processes. Which line starts "
                "workers, and how often does it run?"
            )
        if model.steps != _BATCHES:
            not_yet(
                f"{lead}, {model.steps} batches went through the model, and {_SCANS // 2} scans "
                f"are {_BATCHES} of {_BATCH}."
            )
        if wrong := _wrong(result, folder):
            not_yet(f"{lead}, {wrong}")
        if count < workers:
            not_yet(f"{lead}, {count or 'no'} processes were started. The job needs them.")
        if model.alive > _FEW + _AHEAD * workers:
            not_yet(
                f"{lead}, {model.alive} batches were alive when one went through the model. Who "
                "keeps them: a list, a view, a graph?"
            )
        if model.graphs > 2 * _FEW:
            not_yet(
                f"{lead}, {model.graphs} tensors that lead to a graph were alive when a batch went "
                "through the model. Which variable keeps them?"
            )
        if left := _pieces_left():
            not_yet(
                f"{lead}, when `validate` has returned, {left} pieces of batches or graphs are "
                "still alive. What is not a copy of its own?"
            )
        if harm := _harm(model, was, training=workers > 0):
            not_yet(f"{lead}, {harm}")
    return "With 0, 2 and 4 workers, the result is right, workers start once, and nothing is kept."


def _wrong(result: Any, folder: Path) -> str:
    try:
        mean, hardest = result
        mean, hardest = float(torch.as_tensor(mean).detach()), list(hardest)
    except (TypeError, ValueError, RuntimeError):
        return f"`validate` returns {shown(result)}, and not the mean loss and the hardest scans."
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
        return (
            f"{same} of the {len(hardest)} scans that `validate` returns are the hardest of their "
            f"batch; there are {_BATCHES} batches, in order."
        )
    right_mean = losses.mean().item()
    if abs(mean - right_mean) > 1e-3:
        return f"the mean loss is {mean:.4f}, and over all scans it is {right_mean:.4f}."
    return ""


def _harm(model: nn.Module, was: list[torch.Tensor], *, training: bool) -> str:
    if any(module.training != training for module in model.modules()):
        came = "training" if training else "evaluation"
        return f"the model came in {came} mode, and is left in another."
    if not all(map(torch.equal, model.parameters(), was)):
        return "the parameters of the model are not what they were."
    grads = [each.grad for each in model.parameters() if each.requires_grad]
    if len(grads) < len(was) or any(each is None or bool((each != 1).any()) for each in grads):
        return "the gradients of the model's parameters are not as they were."
    if not torch.is_grad_enabled():
        return "gradients are still switched off when `validate` has returned."
    return ""


GRADER: Final = grader(
    INCIDENT,
    run,
    runs="validates a model on other scans with 0, 2 and 4 workers",
    at_most=_WITHIN * len(_WORKERS) + 15,
)
