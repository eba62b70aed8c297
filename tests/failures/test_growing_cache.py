"""Test that the caches of persistent workers keep growing, and that other workers start empty."""

from __future__ import annotations

import torch
from datasets import load

from dltutor.failures.growing_cache import (
    CachedRecordings,
    shared_recordings,
)

PATHS = shared_recordings(64, 100)


class CacheSize(CachedRecordings):
    """A dataset whose samples are the number of recordings in the worker's cache."""

    def __getitem__(self, index: int) -> torch.Tensor:
        super().__getitem__(index)
        return torch.tensor(len(self.cache))


def sizes(*, persistent: bool) -> list[int]:
    loader = load(
        CacheSize(PATHS),
        shuffle=True,
        generator=torch.Generator().manual_seed(0),
        persistent_workers=persistent,
    )
    return [max(int(batch.max()) for batch in loader) for _ in range(3)]


def test_the_caches_of_persistent_workers_grow_towards_the_whole_dataset() -> None:
    first, second, third = sizes(persistent=True)
    assert first == len(PATHS) // 2 < second < third <= len(PATHS)


def test_without_persistent_workers_every_epoch_begins_with_an_empty_cache() -> None:
    assert set(sizes(persistent=False)) == {len(PATHS) // 2}
