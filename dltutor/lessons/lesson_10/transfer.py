"""Grade "10.transfer", which asks for a validation that keeps no batch.

The validation must also leave the model as it was. Lesson 14's incident "validation" also uses
`Watch`, `Kept`, `wrong_result`, and `FEW`.
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

from dltutor.lessons.engine.endings import Ending, check_ending, ending
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_function, same_tensor, shown
from dltutor.lessons.engine.outcomes import Fault, Result, correct, fault, not_yet, reject
from dltutor.observation import observe
from dltutor.tables import MB

_SIDE, _BATCH, _BATCHES = 64, 16, 16
_BYTES: Final = _BATCH * 3 * _SIDE * _SIDE * 4  # bytes of the images in a batch
_WITHIN: Final = 40  # time limit in seconds for the validation
_SEED: Final = 41
FEW: Final = 4  # the most batches that may be alive: the one in the loop, and some not freed yet


class Scans(Dataset[tuple[torch.Tensor, int]]):
    """A dataset of random scans of ten kinds. The scans depend on the seed."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def __len__(self) -> int:
        return _BATCH * _BATCHES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        random = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        return torch.rand(3, _SIDE, _SIDE, generator=random), index % 10


def make_model() -> nn.Module:
    """Return a new small classifier, with the same weights each time. Set torch's seed to 0."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 30 * 30, 10))


def scans_loader(seed: int = 0) -> DataLoader[Any]:
    """Return a loader of scans with batches of 16 and two forked workers."""
    return DataLoader(Scans(seed), _BATCH, num_workers=2, multiprocessing_context="fork")


def validate(model: nn.Module, loader: DataLoader[Any]) -> tuple[Any, list[torch.Tensor]]:
    """Return the mean loss and each batch's hardest scan, as the starter for "10.transfer" does."""
    total: Any = 0
    hardest = []
    for images, labels in loader:
        losses = torch.nn.functional.cross_entropy(model(images), labels, reduction="none")
        total = total + losses.mean()
        hardest.append(images[losses.argmax()])
    return total / len(loader), hardest


@dataclass(frozen=True)
class Alive:
    """A record of what a validation keeps alive.

    Args:
        graphs: How many batches' graphs are alive.
        batches: The memory of all tensors, in batches of images. A view counts with its whole
            storage.
        pieces: How many storages from the workers, of images or labels, are alive.
    """

    graphs: float
    batches: float
    pieces: int


class _Saved:
    # A tensor that a graph saves for its backward pass. We detach the tensor, because it may refer
    # back to the graph.
    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor.detach()


class Watch:
    """A record of tensors and graphs, to see how many a validation keeps alive.

    The record has an entry for each batch that goes through the model, and one for after the
    validation. Tensors that exist before the record starts don't count. The record adds a hook to
    the model, and freezes the garbage collector.

    Args:
        model: The model that the validation runs.
        batch: The bytes of a batch of images.
    """

    def __init__(self, model: nn.Module, batch: int) -> None:
        self.notes: list[Alive] = []
        self._batch, self._packed, self._saved = batch, 0, WeakSet[_Saved]()
        model.register_forward_pre_hook(lambda *_: self.notes.append(self._alive()))
        gc.collect()
        gc.freeze()  # hides existing tensors from gc.get_objects(), and makes collections quick

    def run(self, validation: Callable[[], Any]) -> Any:
        """Run a validation, note what's alive afterward, and return the validation's result."""
        with torch.autograd.graph.saved_tensors_hooks(self._pack, lambda kept: kept.tensor):
            result = validation()
        gc.collect()  # frees reference cycles, because the exercise isn't about them
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
    """Return what's wrong with a validation's result, or None.

    A right result is a pair: the mean loss, to within 0.001, and the right scans in order.
    """
    try:
        mean, scans = result
        mean, scans = float(torch.as_tensor(mean).detach()), list(scans)
    except (TypeError, ValueError, RuntimeError):
        return fault("other-result", result=shown(result))
    same = sum(map(same_tensor, scans, right_scans))
    if not same == len(right_scans) == len(scans):
        first = scans[0] if scans else None
        kind = getattr(first, "dtype", type(first).__name__), tuple(getattr(first, "shape", ()))
        how = {"returned": len(scans), "first": shown(kind)}
        return fault("other-scans", same=same, scans=len(right_scans), **how)
    if abs(mean - right_mean) >= 1e-3:
        return fault("other-mean", mean=f"{mean:.4f}", right=f"{right_mean:.4f}")
    return None


@dataclass(frozen=True)
class Kept:
    """The state that a validation must not change: a model's parameters, gradients, and mode."""

    parameters: list[torch.Tensor]
    gradients: list[torch.Tensor | None]
    training: bool

    @staticmethod
    def of(model: nn.Module) -> Kept:
        """Return a model's current state."""
        mine = [*model.parameters()]
        gradients = [None if each.grad is None else each.grad.clone() for each in mine]
        return Kept([each.detach().clone() for each in mine], gradients, model.training)

    def harm(self, model: nn.Module) -> str:
        """Return the code for what has changed in the model or in torch's grad mode, or ""."""
        mine = list(model.parameters())
        if not torch.is_grad_enabled():
            return "no-grad-left"
        if not all(each.requires_grad for each in mine):
            return "no-grad-needed"
        if any(module.training != self.training for module in model.modules()):
            return "left-in-eval" if self.training else "left-in-training"
        if not all(map(same_tensor, mine, self.parameters)):
            return "trained"
        for each, was in zip(mine, self.gradients, strict=True):
            if was is None and each.grad is not None:
                return "left-gradients"
            if was is not None and not same_tensor(each.grad, was):
                return "other-gradients"
        return ""


@dataclass(frozen=True)
class Validated:
    """A record of what a validation did.

    Args:
        end: How the run ended.
        notes: What was alive when each batch went through the model, and after the validation.
        wrong: What's wrong with the result, or None.
        harm: The code for what has changed in the model or in torch's grad mode, or "".
    """

    end: Ending
    notes: tuple[Alive, ...] = ()
    wrong: Fault | None = None
    harm: str = ""


def gather(answer: Any) -> Validated:
    """Run one validation of 16 batches with 2 workers, and record what it kept and changed."""
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
    """Return "Correct" if all batches were used and freed, and the result is right.

    Otherwise, or if the run didn't finish or changed the model, raise `Rejected`.
    """
    check_ending(seen.end)
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
