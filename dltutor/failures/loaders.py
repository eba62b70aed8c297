"""The DataLoader that the cases of several failure modes have in common."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader, Dataset


def load(dataset: Dataset[Any], workers: int, start_method: str, **options: Any) -> DataLoader[Any]:
    """Make a loader of batches of 4, which starts its workers by the method that is named.

    Args:
        dataset: What to load.
        workers: The number of workers; 0 for none.
        start_method: "fork", "spawn" or "forkserver"; without workers it has no meaning.
        options: Further arguments of the DataLoader.
    """
    return DataLoader(
        dataset,
        **{"batch_size": 4} | options,
        num_workers=workers,
        multiprocessing_context=start_method if workers else None,
    )
