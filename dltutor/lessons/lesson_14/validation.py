"""Incident "validation": it keeps its batches, and starts its workers anew for each of them."""

from __future__ import annotations

import gc
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from dltutor.lessons.kit.endings import where
from dltutor.lessons.kit.forms import shown
from dltutor.lessons.kit.outcomes import not_yet
from dltutor.lessons.kit.running import changed, contents, made
from dltutor.lessons.lesson_14.scene import Cause, Incident, grader

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
    title="Validation is slow, and on Thursday the job was killed",
    causes=(
        Cause(
            names=("kept_batches", "too_many_open_files"),
            places=("validate", "hardest", "total"),
            shortest="the open files of main before and after `validate`: one more for each scan "
            "that it returns.",
        ),
        Cause(
            names=("loader_per_step",),
            places=("validate", "next", "iter", "VALIDATION_STEPS"),
            shortest="`monitor.txt`: the workers have other pids at each step.",
        ),
    ),
    make_data=make_data,
)


@dataclass(frozen=True)
class Ran:
    """What a validation did.

    Args:
        workers: How many it was given.
        started: How many processes it started.
        steps: How many batches went through the model.
        alive: The most batches that were alive when one did.
        graphs: The same of graphs.
        wrong: What is wrong with the result, in a sentence, or nothing.
        left: How many pieces of batches are alive when it has returned.
        harm: What of the model is not as before, in a sentence, or nothing.
        touched: Whether the file of scans is another.
    """

    workers: int
    started: int
    steps: int
    alive: int
    graphs: int
    wrong: str
    left: int
    harm: str
    touched: bool

    @property
    def most(self) -> int:
        """How many batches may be alive."""
        return _FEW + _AHEAD * self.workers

    @property
    def right(self) -> bool:
        """Whether nothing is wrong with it."""
        few = self.alive <= self.most and self.graphs <= 2 * _FEW and not self.left
        exact = (self.started, self.steps) == (self.workers, _BATCHES)
        return few and exact and not (self.wrong or self.harm or self.touched)


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


def run(folder: Path, data: Any, train: Any) -> tuple[Ran, ...]:
    """One validation with each number of workers, up to the first that is not right."""
    started = [0]
    os.register_at_fork(after_in_parent=lambda: started.append(started.pop() + 1))
    before = contents(folder)
    gc.collect()
    gc.freeze()  # what is there is not the answer's
    found: list[Ran] = []
    for workers in _WORKERS:
        model = _Model()
        for each in model.parameters():
            each.grad = torch.ones_like(each)  # of a step that is under way
        was = [each.detach().clone() for each in model.parameters()]
        began = started[0]
        call = f"validate(model, folder, {workers})"
        result = made(train.validate, model, folder, workers, call=call, within=_WITHIN)
        gc.collect()
        found.append(
            Ran(
                workers,
                started[0] - began,
                model.steps,
                model.alive,
                model.graphs,
                _wrong(result, folder),
                _pieces_left(),
                _harm(model, was),
                any(name.endswith(".npy") for name in changed(before, folder)),
            )
        )
        if not found[-1].right:
            break
    return tuple(found)


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


def _harm(model: nn.Module, was: list[torch.Tensor]) -> str:
    if not all(module.training for module in model.modules()):
        return "the model came in training mode, and is left in another."
    if not all(map(torch.equal, model.parameters(), was)):
        return "the parameters of the model are not what they were."
    grads = [each.grad for each in model.parameters() if each.requires_grad]
    if len(grads) < len(was) or any(each is None or bool((each != 1).any()) for each in grads):
        return "the gradients of the model's parameters are not as they were."
    if not torch.is_grad_enabled():
        return "gradients are still switched off when `validate` has returned."
    return ""


def judge_run(found: tuple[Ran, ...]) -> str:
    """Right if the result is, and nothing is kept or started beyond what is needed."""
    for ran in found:
        lead = where(ran.workers)
        if ran.started > ran.workers:
            not_yet(
                f"{lead}, one call of `validate` started {ran.started} processes. Which line "
                "starts workers, and how often does it run?"
            )
        if ran.steps != _BATCHES:
            not_yet(
                f"{lead}, {ran.steps} batches went through the model, and {_SCANS // 2} scans are "
                f"{_BATCHES} of 16."
            )
        if ran.wrong:
            not_yet(f"{lead}, {ran.wrong}")
        if ran.started < ran.workers:
            not_yet(f"{lead}, {ran.started or 'no'} processes were started. The job needs them.")
        if ran.alive > ran.most:
            not_yet(
                f"{lead}, {ran.alive} batches were alive when one went through the model. Who "
                "keeps them: a list, a view, a graph?"
            )
        if ran.graphs > 2 * _FEW:
            not_yet(
                f"{lead}, {ran.graphs} tensors that lead to a graph were alive when a batch went "
                "through the model. Which variable keeps them?"
            )
        if ran.left:
            not_yet(
                f"{lead}, when `validate` has returned, {ran.left} pieces of batches or graphs "
                "are still alive. What is not a copy of its own?"
            )
        if ran.harm:
            not_yet(f"{lead}, {ran.harm}")
        if ran.touched:
            not_yet("the file of scans is new, gone or changed.")
    assert len(found) == len(_WORKERS), "one that is not right has been rejected"
    return "With 0, 2 and 4 workers, the result is right, workers start once, and nothing is kept."


GRADER: Final = grader(
    INCIDENT,
    run=run,
    judge_run=judge_run,
    runs="validates a model on other scans with 0, 2 and 4 workers",
    at_most=_WITHIN * len(_WORKERS) + 15,
)
