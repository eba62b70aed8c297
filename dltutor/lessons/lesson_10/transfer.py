"""Grade "10.transfer": a validation that keeps nothing of what it has seen, and harms no model.

Incident "validation" of lesson 14 asks for the same of another validation. So what both watch and
compare is here.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from weakref import WeakSet

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from dltutor.lessons.engine.endings import Ending, ended_well, ending
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_function, shown
from dltutor.lessons.engine.outcomes import Fault, Result, correct, fault, not_yet, reject
from dltutor.observation import observe
from dltutor.tables import MB

_SIDE, _BATCH, _BATCHES = 64, 16, 16
_BYTES: Final = _BATCH * 3 * _SIDE * _SIDE * 4  # of the images of a batch
_WITHIN: Final = 40  # seconds
_SEED: Final = 41
FEW: Final = 4  # batches that may be alive: the one in the loop, and some on their way out


class Scans(Dataset[tuple[torch.Tensor, int]]):
    """Scans of ten kinds; other seeds give others."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def __len__(self) -> int:
        return _BATCH * _BATCHES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        random = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        return torch.rand(3, _SIDE, _SIDE, generator=random), index % 10


def make_model() -> nn.Module:
    """A small classifier, always the same."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 30 * 30, 10))


def scans_loader(seed: int = 0) -> DataLoader[Any]:
    """Scans in batches of 16, by two forked workers."""
    return DataLoader(Scans(seed), _BATCH, num_workers=2, multiprocessing_context="fork")


def validate(model: nn.Module, loader: DataLoader[Any]) -> tuple[Any, list[torch.Tensor]]:
    """The mean loss, and the hardest scan of each batch, for a person to look at."""
    total: Any = 0
    hardest = []
    for images, labels in loader:
        losses = torch.nn.functional.cross_entropy(model(images), labels, reduction="none")
        total = total + losses.mean()
        hardest.append(images[losses.argmax()])
    return total / len(loader), hardest


@dataclass(frozen=True)
class Alive:
    """What is alive of a validation.

    Args:
        graphs: For how many batches a graph keeps what a backward pass would need.
        batches: How many batches of images all tensors would make, a view with all that it keeps.
        pieces: How many tensors of batches from workers, images or labels, something keeps.
    """

    graphs: float
    batches: float
    pieces: int


class _Saved:
    # What a graph keeps for a backward pass; the tensor itself may lead back to the graph.
    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor.detach()


class Watch:
    """Notes what is alive whenever a batch goes through a model, and when a validation is over.

    Tensors that are alive when the watch is made don't count.

    Args:
        model: The model.
        batch: Bytes of the images of a batch.
    """

    def __init__(self, model: nn.Module, batch: int) -> None:
        self.notes: list[Alive] = []
        self._batch, self._packed, self._saved = batch, 0, WeakSet[_Saved]()
        model.register_forward_pre_hook(lambda *_: self.notes.append(self._alive()))
        gc.collect()
        gc.freeze()  # collections are quick then, the answer's own too

    def run(self, validation: Callable[[], Any]) -> Any:
        """Run a validation and return its result. The last note is about what's left of it."""
        with torch.autograd.graph.saved_tensors_hooks(self._pack, lambda kept: kept.tensor):
            result = validation()
        gc.collect()  # rings of the learner's own are not what is asked about
        self.notes.append(self._alive())
        return result

    def _pack(self, tensor: torch.Tensor) -> _Saved:
        self._packed += 1
        self._saved.add(saved := _Saved(tensor))
        return saved

    def _alive(self) -> Alive:
        of_a_batch = self._packed / max(1, len(self.notes))
        tensors = [each for each in gc.get_objects() if type(each) is torch.Tensor]
        storages = {each.untyped_storage().data_ptr(): each.untyped_storage() for each in tensors}
        return Alive(
            len(self._saved) / of_a_batch if of_a_batch else 0.0,
            sum(each.nbytes() for each in storages.values()) / self._batch,
            sum(each.is_shared() for each in storages.values()),
        )


def wrong_result(
    result: Any, right_mean: float, right_scans: Sequence[torch.Tensor]
) -> Fault | None:
    """What's wrong with the mean loss and the scans that a validation returned.

    Args:
        result: What it returned.
        right_mean: The right mean loss.
        right_scans: The right scans.
    """
    try:
        mean, scans = result
        mean, scans = float(torch.as_tensor(mean).detach()), list(scans)
    except (TypeError, ValueError, RuntimeError):
        return fault("other-result", result=shown(result))
    same = sum(map(_same, scans, right_scans))
    if not same == len(right_scans) == len(scans):
        first = scans[0] if scans else None
        kind = getattr(first, "dtype", type(first).__name__), tuple(getattr(first, "shape", ()))
        how = {"returned": len(scans), "first": shown(kind)}
        return fault("other-scans", same=same, scans=len(right_scans), **how)
    if abs(mean - right_mean) >= 1e-3:
        return fault("other-mean", mean=f"{mean:.4f}", right=f"{right_mean:.4f}")
    return None


def _same(one: Any, other: torch.Tensor) -> bool:
    return isinstance(one, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)


@dataclass(frozen=True)
class Kept:
    """What a validation has to leave as it is: a model's parameters, gradients, and mode."""

    parameters: list[torch.Tensor]
    gradients: list[torch.Tensor | None]
    training: bool

    @staticmethod
    def of(model: nn.Module) -> Kept:
        """How a model is now."""
        mine = [*model.parameters()]
        gradients = [None if each.grad is None else each.grad.clone() for each in mine]
        return Kept([each.detach().clone() for each in mine], gradients, model.training)

    def harm(self, model: nn.Module) -> str:
        """The code of what about the model isn't as it was, or ""."""
        mine = list(model.parameters())
        if not torch.is_grad_enabled():
            return "no-grad-left"
        if not all(each.requires_grad for each in mine):
            return "no-grad-needed"
        if any(module.training != self.training for module in model.modules()):
            return "left-in-eval" if self.training else "left-in-training"
        if not all(map(_same, mine, self.parameters)):
            return "trained"
        for each, was in zip(mine, self.gradients, strict=True):
            if was is None and each.grad is not None:
                return "left-gradients"
            if was is not None and not _same(each.grad, was):
                return "other-gradients"
        return ""


@dataclass(frozen=True)
class Validated:
    """What a validation did.

    Args:
        end: How it ended.
        notes: What was alive at each of its batches, and in the end.
        wrong: What's wrong with the result.
        harm: The code of what about the model isn't as it was, or "".
    """

    end: Ending
    notes: tuple[Alive, ...] = ()
    wrong: Fault | None = None
    harm: str = ""


def gather(answer: Any) -> Validated:
    """One validation of 16 batches, by two workers."""
    model = make_model()
    kept, watch = Kept.of(model), Watch(model, _BYTES)
    seen = observe(
        scans_loader(_SEED),
        consume=lambda loader: watch.run(partial(answer, model, loader)),
        deadline=_WITHIN,
    )
    if seen.end != "finished":
        return Validated(ending(seen))
    with torch.no_grad():
        right_mean, right = validate(make_model(), DataLoader(Scans(_SEED), _BATCH))
        wrong = wrong_result(seen.result, float(right_mean), right)
    return Validated(ending(seen), tuple(watch.notes), wrong, kept.harm(model))


def judge(seen: Validated) -> Result:
    """Correct if the result is right, nothing is kept, and the model is as before."""
    ended_well(seen.end)
    if len(seen.notes) != _BATCHES + 1:
        not_yet("too-few", batches=_BATCHES)
    if seen.wrong:
        reject(seen.wrong)
    *_, last, _ = seen.notes
    batch = _BYTES / MB
    if last.graphs > FEW:
        not_yet("keeps-graphs", graphs=f"{last.graphs:.0f}")
    if last.batches > FEW:
        not_yet("keeps-tensors", kept=f"{last.batches * batch:.0f}", each=f"{batch:.1f}")
    if last.pieces > 2 * FEW:
        not_yet("keeps-views", pieces=last.pieces)
    if seen.harm:
        not_yet(seen.harm)
    return correct()


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_function, starter=validate),
    at_most=_WITHIN + 8,
)
