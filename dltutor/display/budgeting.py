"""budget(): what a loader will hold in shared memory and in all."""

from __future__ import annotations

from typing import Any, Final

from torch.utils.data import DataLoader

from dltutor.display.budget_panel import IMAGE, Budget
from dltutor.observation.budget.own_loader import Batch, measure_batch, settings_of
from dltutor.observation.budget.settings import Settings

_USUAL: Final[dict[str, Any]] = {
    "num_workers": 2,
    "prefetch_factor": 2,
    "batch_size": 8,
    "sample_bytes": IMAGE,
    "start_method": "fork",
}


def budget(
    loader: DataLoader[Any] | None = None,
    *,
    num_workers: int | None = None,
    prefetch_factor: int | None = None,
    batch_size: int | None = None,
    sample_bytes: int | None = None,
    start_method: str | None = None,
    deadline: float = 60,
) -> Budget:
    """Show what a loader holds in shared memory and in all, beside what this machine has.

    Of a loader of yours, a batch is measured: one worker makes it, in at most `deadline` seconds.
    In a notebook the settings can be moved, and a button runs them for real, on synthetic samples
    in a process of its own. What a worker takes up is measured on this machine, too: once for
    each start method, which takes a few seconds.

    Args:
        loader: A DataLoader whose settings and batches count; None for settings alone.
        num_workers: 1 or more. This and the others that follow: if None, the loader's own;
            without a loader 2.
        prefetch_factor: Batches that each worker makes ahead; without a loader 2.
        batch_size: Samples in a batch; without a loader 8.
        sample_bytes: The size of a sample in bytes; without a loader that of an image,
            3 x 224 x 224 float32.
        start_method: fork, spawn or forkserver; without a loader fork.
        deadline: Seconds for the batch of the loader.

    Returns:
        The Budget: in a notebook a page as the last line of a cell, elsewhere a table of text, for
        `print`. `run()` does what the button does.

    Raises:
        TypeError: `loader` is no DataLoader.
        ValueError: A setting is out of its range, or the loader gave no batch.
        RuntimeError: No worker could be measured.
    """
    given: dict[str, Any] = {
        "num_workers": num_workers,
        "prefetch_factor": prefetch_factor,
        "batch_size": batch_size,
        "sample_bytes": sample_bytes,
        "start_method": start_method,
    }
    if loader is None:
        chosen = {name: value for name, value in given.items() if value is not None}
        return Budget(Settings(**_USUAL | chosen))
    settings_of(loader, Batch(1, 1, 0), **given)  # what is wrong with them is told at once
    batch = measure_batch(loader, deadline)
    return Budget(settings_of(loader, batch, **given), batch)
