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
from dltutor.lessons.engine.outcomes import Result, correct, not_yet
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
        wrong: What is wrong with the result, in a sentence, or nothing.
        harm: What of the model is not as before, likewise.
    """

    end: Ending
    graphs: tuple[float, ...] = ()
    kept: tuple[float, ...] = ()
    pieces: tuple[float, ...] = ()
    wrong: str = ""
    harm: str = ""


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


def _wrong(result: Any) -> str:
    with torch.no_grad():
        try:
            mean, scans = result
            mean, scans = float(mean + 0.0), list(scans)  # no text, no list
        except (TypeError, ValueError, RuntimeError):
            return "your function returns something else than the mean loss and the scans."
        right_mean, right = validate(make_model(), DataLoader(Scans(_SEED), _BATCH))
    same = sum(map(_same, scans, right))
    if same != len(right) or len(scans) != len(right):
        first = scans[0] if scans else None
        kind = getattr(first, "dtype", type(first).__name__), tuple(getattr(first, "shape", ()))
        return (
            f"{same} of {len(right)} hardest scans come back as the tensors they were. You return "
            f"{len(scans)}; the first is {shown(kind)}."
        )
    close = abs(mean - float(right_mean)) < 1e-3
    return "" if close else f"the mean loss is {shown(mean)} and should be {right_mean:.4f}."


def _same(one: Any, other: torch.Tensor) -> bool:
    return isinstance(one, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)


def _harm(model: nn.Module, before: list[torch.Tensor], state: dict[str, Any]) -> str:
    mine = list(model.parameters())
    if not torch.is_grad_enabled():
        return "gradients are still switched off when your function has returned."
    if not all(each.requires_grad for each in mine):
        return "a parameter of the model does not require gradients any more."
    if not all(module.training for module in model.modules()):
        return "the model came in training mode, and is left in `eval()`."
    if not all(map(_same, mine, before)):
        return "the parameters of the model are not what they were. A validation trains nothing."
    if any(each.grad is not None for each in mine):
        return "parameters of the model have a gradient now, which the next training step adds to."
    if _state(model) != state:
        return "the model has other settings, hooks or parts than before."
    return ""


def judge(seen: Validated) -> Result:
    """Correct if the result is right, nothing is kept, and the model is as before."""
    ended_well(seen.end, hung="What does your function wait for?")
    if not seen.graphs:
        not_yet(
            f"your function took fewer than {_BATCHES} batches from the `loader` that it was given "
            "and that has two workers. Fix what the loop keeps of them."
        )
    if seen.wrong:
        not_yet(seen.wrong)
    (graphs, left_graphs), (kept, left), pieces = seen.graphs, seen.kept, seen.pieces[0]
    if graphs > _FEW:
        not_yet(
            f"when the last batch came, the graphs of at least {graphs:.0f} others were alive, "
            "with all that a backward pass would need. Which variable leads to them?"
        )
    if kept > _FEW * _MB:
        not_yet(
            f"when the last batch came, {kept:.0f} MB of tensors were alive, {_MB:.1f} for each "
            "batch, and no graph holds them. What of a batch do you keep, and what does that keep?"
        )
    if pieces > 2 * _FEW:
        not_yet(
            f"when the last batch came, {pieces} tensors of batches were alive in shared memory, "
            "and a batch has two. Who keeps a view of the others, however small?"
        )
    if left_graphs:
        not_yet(
            "nothing piles up in the loop. But what your function returns still leads to a graph: "
            "that of the last batch. Is the mean loss a number, or a tensor that can go backward?"
        )
    if left > 1.5 * _MB:
        not_yet(
            f"nothing piles up in the loop. But {left:.1f} MB of tensors are left when your "
            f"function has returned, and the scans have {_MB:.1f}. Which is not a copy of its own?"
        )
    if seen.harm:
        not_yet(f"nothing is kept. But {seen.harm}")
    return correct(
        "None of the batches was kept when the last came: no graph, no view, no copy. The mean "
        "loss and the hardest scans are right, and the model is as it was."
    )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_function, starter=validate),
    runs=f"one validation of {_BATCHES} batches",
    at_most=_WITHIN + 8,
)
