"""The model, the scans and the validation of "10.transfer"; a loader that is watched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakSet

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.kit.gauge import MEGABYTE, Gauge

SIDE: Final = 64
BATCH: Final = 16
BATCH_BYTES: Final = BATCH * 3 * SIDE * SIDE * 4


class Scans(Dataset[tuple[torch.Tensor, int]]):
    """Scans of ten kinds.

    Args:
        count: How many.
        seed: Other seeds give other scans.
    """

    def __init__(self, count: int = 256, seed: int = 0) -> None:
        self.count, self.seed = count, seed

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        random = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        return torch.rand(3, SIDE, SIDE, generator=random), index % 10


def make_model(seed: int = 0) -> nn.Module:
    """A small classifier, always the same for a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(3, 8, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 30 * 30, 10)
        )


def scans_loader(seed: int = 0) -> DataLoader[Any]:
    """Scans in batches of 16, by two forked workers."""
    return DataLoader(Scans(seed=seed), BATCH, num_workers=2, multiprocessing_context="fork")


def validate(model: nn.Module, loader: DataLoader[Any]) -> tuple[Any, list[torch.Tensor]]:
    """The mean loss, and the hardest scan of each batch, to be looked at in the morning."""
    total: Any = 0
    hardest = []
    for images, labels in loader:
        losses = F.cross_entropy(model(images), labels, reduction="none")
        total = total + losses.mean()
        hardest.append(images[losses.argmax()])
    return total / len(loader), hardest


def fault_of(result: Any, seed: int) -> str:
    """What is wrong with what a validation returned for this seed, in a sentence, or nothing."""
    if not (isinstance(result, tuple) and len(result) == 2):
        return "your function returns something else than the mean loss and a list of scans."
    mean, hardest = result
    with torch.no_grad():
        alone = DataLoader(Scans(seed=seed), BATCH)
        expected_mean, expected = validate(make_model(seed), alone)
    if isinstance(hardest, torch.Tensor) and hardest.dim() > 0:
        hardest = list(hardest)  # torch.stack
    kept = len(hardest) if isinstance(hardest, Sequence) else 0
    if kept != len(expected):
        return f"{kept} of {len(expected)} hardest scans come back. They are wanted, each of them."
    if kinds := {type(one).__name__ for one in hardest if not isinstance(one, torch.Tensor)}:
        return f"a hardest scan is a {min(kinds)} now. It has to stay a tensor."
    same = [
        one.shape == other.shape and torch.equal(one, other)
        for one, other in zip(hardest, expected, strict=True)
    ]
    if not all(same):
        return f"{same.count(False)} of {len(same)} hardest scans are not the tensors they were."
    try:
        got = float(mean.detach() if isinstance(mean, torch.Tensor) else mean)
    except (TypeError, ValueError, RuntimeError):
        return f"the mean loss is of the type `{type(mean).__name__}`, which is not one number."
    if not abs(got - float(expected_mean)) < 1e-3:
        return f"the mean loss is {got:.4f} and should be {float(expected_mean):.4f}."
    return ""


class _Saved:
    """What a graph keeps for a backward pass."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


@dataclass
class WatchedLoader:
    """A loader that notes, before each batch and after the last, what the loop over it keeps.

    Args:
        loader: The loader.
        model: The loop's model: its parameters are in every graph, and do not count.
        saved: What the graphs keep that are alive.
        graphs: MB in graphs, before each batch and after the last.
        shared: MB of batches in shared memory, likewise.
        gauge: What reads them, once the loop has begun.
    """

    loader: DataLoader[Any]
    model: nn.Module
    saved: WeakSet[_Saved] = field(default_factory=WeakSet)
    graphs: list[float] = field(default_factory=list)
    shared: list[float] = field(default_factory=list)
    gauge: Gauge | None = None

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def __iter__(self) -> Iterator[Any]:
        self.gauge = Gauge()
        for batch in self.loader:
            self.note()
            yield batch
        del batch
        self.note()

    def note(self) -> None:
        """Note what is alive: MB in graphs, and MB in shared memory; nothing before a batch."""
        if self.gauge is None:
            return
        own = {each.untyped_storage().data_ptr() for each in self.model.parameters()}
        storages = [each.tensor.untyped_storage() for each in list(self.saved)]
        sizes = {each.data_ptr(): each.nbytes() for each in storages}
        self.graphs.append(sum(sizes[at] for at in sizes.keys() - own) / MEGABYTE)
        self.shared.append(self.gauge.shared())

    def pack(self, tensor: torch.Tensor) -> _Saved:
        """A hook: a graph keeps a tensor."""
        saved = _Saved(tensor.detach())  # the tensor itself may lead back to the graph
        self.saved.add(saved)
        return saved
