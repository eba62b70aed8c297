"""A loader that notes, batch by batch, what the loop over it keeps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

import torch
from torch import nn
from torch.utils.data import DataLoader

from dltutor.failures.kit.gauge import MEGABYTE, Gauge


class _Saved:
    """What a graph keeps for a backward pass."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


@dataclass
class WatchedLoader:
    """A loader that notes, before each batch and after the last, what the loop has kept so far.

    Args:
        loader: The loader.
        model: The loop's model: its parameters are in every graph, and do not count.
        saved: What the graphs keep that are alive.
        graphs: MB in graphs, before each batch and after the last.
        shared: MB of batches in shared memory, likewise.
    """

    loader: DataLoader[Any]
    model: nn.Module
    saved: WeakSet[_Saved] = field(default_factory=WeakSet)
    graphs: list[float] = field(default_factory=list)
    shared: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def __iter__(self) -> Iterator[Any]:
        gauge = Gauge()
        for batch in self.loader:
            self.note(gauge)
            yield batch
        del batch
        self.note(gauge)

    def note(self, gauge: Gauge) -> None:
        """Note what is alive: MB in graphs, and MB in shared memory."""
        own = {each.untyped_storage().data_ptr() for each in self.model.parameters()}
        storages = [each.tensor.untyped_storage() for each in list(self.saved)]
        sizes = {each.data_ptr(): each.nbytes() for each in storages}
        self.graphs.append(sum(sizes[at] for at in sizes.keys() - own) / MEGABYTE)
        self.shared.append(gauge.shared())

    def pack(self, tensor: torch.Tensor) -> _Saved:
        """A hook: a graph keeps a tensor."""
        saved = _Saved(tensor.detach())  # the tensor itself may lead back to the graph
        self.saved.add(saved)
        return saved
