"""Asking every process of a loader what its own copy of a global variable holds."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader, get_worker_info

from dltutor.failures import global_state
from dltutor.failures.global_state import Readings


class Witness(Readings):
    """Each sample tells who drew it, and what the counter of that process says."""

    def __getitem__(self, index: int) -> torch.Tensor:
        super().__getitem__(index)
        worker = get_worker_info()
        return torch.tensor([worker.id if worker else -1, global_state.replaced])


def counters(loader: DataLoader[torch.Tensor]) -> dict[str, int]:
    """Run an epoch, and tell what the counter of each process said last."""
    said = {}
    for batch in loader:
        for number, count in batch.tolist():
            said["main" if number < 0 else f"W{number}"] = count
    return {"main": global_state.replaced} | said
