"""Grade "10.transfer": a validation that keeps nothing of what it has seen, and harms no model."""

from __future__ import annotations

import gc
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
_MB: Final = _BATCH * 3 * _SIDE * _SIDE * 4 / MB  # of the images of a batch
_WITHIN: Final = 40  # seconds
_SEED: Final = 41
_FEW: Final = 4  # batches that may be alive: the one in the loop, and some on their way out


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
class Validated:
    """What a validation did.

    Args:
        end: How it ended.
        graphs: Of how many batches a graph was alive, with the last, and after the return.
        kept: MB of all tensors that are alive in this process, likewise.
        pieces: How many tensors of batches a view keeps, likewise: images, or labels.
        wrong: What's wrong with the result.
        harm: What about the model isn't as it was.
    """

    end: Ending
    graphs: tuple[float, ...] = ()
    kept: tuple[float, ...] = ()
    pieces: tuple[float, ...] = ()
    wrong: Fault | None = None
    harm: Fault | None = None


class _Saved:
    # What a graph keeps for a backward pass; the tensor itself may lead back to the graph.
    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor.detach()


class _Watched(DataLoader[Any]):
    """A loader that notes what is alive when its second batch is asked for, and its last."""

    saved: WeakSet[_Saved]
    notes: list[tuple[int, float, int]]

    def __iter__(self) -> Any:
        batches = super().__iter__()
        for number in range(_BATCHES):
            if number in (1, _BATCHES - 1):
                self.note()
            yield next(batches)  # no name here keeps it

    def note(self) -> None:
        self.notes.append((len(self.saved), *_alive()))

    def pack(self, tensor: torch.Tensor) -> _Saved:
        saved = _Saved(tensor)
        self.saved.add(saved)
        return saved


def _alive() -> tuple[float, int]:
    # MB of the tensors made since `gc.freeze()`, a view with all that it keeps, and how many of
    # these storages came from a worker.
    tensors = (each for each in gc.get_objects() if type(each) is torch.Tensor)
    every = {each.untyped_storage().data_ptr(): each.untyped_storage() for each in tensors}.values()
    return sum(each.nbytes() for each in every) / MB, sum(each.is_shared() for each in every)


def _state(model: nn.Module) -> dict[str, Any]:
    # What a validation may not change: settings, and how many hooks, modules and so on there are.
    return {
        f"{name}.{key}": len(value) if isinstance(value, dict) else value
        for name, module in model.named_modules()
        for key, value in vars(module).items()
    }


def gather(answer: Any) -> Validated:
    """One validation of 16 batches, by two workers."""
    model = make_model()
    watched = _Watched(Scans(_SEED), _BATCH, num_workers=2, multiprocessing_context="fork")
    watched.saved, watched.notes = WeakSet(), []
    before, state = [each.detach().clone() for each in model.parameters()], _state(model)

    def run(_: DataLoader[Any]) -> Any:
        with torch.autograd.graph.saved_tensors_hooks(watched.pack, lambda kept: kept.tensor):
            result = answer(model, watched)
        gc.collect()  # rings of the learner's own are not what is asked about
        watched.note()
        return result

    gc.collect()
    gc.freeze()  # the answer's own collections are quick then
    seen = observe(watched, consume=run, deadline=_WITHIN)
    if seen.end != "finished" or len(watched.notes) < 3 or watched.num_workers != 2:
        return Validated(ending(seen))
    (one, *_), *_, last, left = watched.notes
    graphs, kept, pieces = zip(last, left, strict=True)
    each = tuple(count / max(one, 1) for count in graphs)
    wrong, harm = _wrong(seen.result), _harm(model, before, state)
    return Validated(ending(seen), each, kept, pieces, wrong, harm)


def _wrong(result: Any) -> Fault | None:
    with torch.no_grad():
        try:
            mean, scans = result
            mean, scans = float(mean + 0.0), list(scans)  # no text, no list
        except (TypeError, ValueError, RuntimeError):
            return fault("other-result")
        right_mean, right = validate(make_model(), DataLoader(Scans(_SEED), _BATCH))
    same = sum(map(_same, scans, right))
    if same != len(right) or len(scans) != len(right):
        first = scans[0] if scans else None
        kind = getattr(first, "dtype", type(first).__name__), tuple(getattr(first, "shape", ()))
        how: dict[str, Any] = {"returned": len(scans), "first": shown(kind)}
        return fault("other-scans", same=same, scans=len(right), **how)
    if abs(mean - float(right_mean)) >= 1e-3:
        return fault("other-mean", mean=shown(mean), right=f"{right_mean:.4f}")
    return None


def _same(one: Any, other: torch.Tensor) -> bool:
    return isinstance(one, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)


def _harm(model: nn.Module, before: list[torch.Tensor], state: dict[str, Any]) -> Fault | None:
    mine = list(model.parameters())
    if not torch.is_grad_enabled():
        return fault("no-grad-left")
    if not all(each.requires_grad for each in mine):
        return fault("no-grad-needed")
    if not all(module.training for module in model.modules()):
        return fault("left-in-eval")
    if not all(map(_same, mine, before)):
        return fault("trained")
    if any(each.grad is not None for each in mine):
        return fault("left-gradients")
    return fault("other-model") if _state(model) != state else None


def judge(seen: Validated) -> Result:
    """Correct if the result is right, nothing is kept, and the model is as before."""
    ended_well(seen.end)
    if not seen.graphs:
        not_yet("too-few", batches=_BATCHES)
    if seen.wrong:
        reject(seen.wrong)
    (graphs, left_graphs), (kept, left), pieces = seen.graphs, seen.kept, seen.pieces[0]
    each = f"{_MB:.1f}"
    if graphs > _FEW:
        not_yet("keeps-graphs", graphs=f"{graphs:.0f}")
    if kept > _FEW * _MB:
        not_yet("keeps-tensors", kept=f"{kept:.0f}", each=each)
    if pieces > 2 * _FEW:
        not_yet("keeps-views", pieces=pieces)
    if left_graphs:
        not_yet("returns-a-graph")
    if left > 1.5 * _MB:
        not_yet("returns-a-view", left=f"{left:.1f}", each=each)
    if seen.harm:
        reject(seen.harm)
    return correct()


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_function, starter=validate),
    at_most=_WITHIN + 8,
)
