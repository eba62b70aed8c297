"""Each worker has its own cache; a bounded one stays bounded, and the values are the same."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from datasets import load

from dltutor.failures import growing_cache
from dltutor.failures.growing_cache import (
    BoundedRecordings,
    CachedRecordings,
    Recordings,
    shared_recordings,
)

PATHS = shared_recordings(64, 100_000)


class CacheSize(CachedRecordings):
    """How many recordings the worker that is asked has in its cache."""

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


def test_the_parent_s_cache_stays_empty() -> None:
    case = growing_cache.broken()
    list(case.loader)
    assert case.loader.dataset.cache == {}  # type: ignore[attr-defined]


def test_a_bounded_cache_keeps_the_last_that_were_used() -> None:
    bounded = BoundedRecordings(PATHS, size=3)
    for index in (0, 1, 2, 0, 3, 4):
        bounded[index]
    assert list(bounded.cache) == [0, 3, 4]


def test_with_and_without_a_cache_the_samples_are_the_same() -> None:
    plain, cached, bounded = Recordings(PATHS), CachedRecordings(PATHS), BoundedRecordings(PATHS)
    for index in (0, 1, 0, 63, 0):
        assert plain[index] == cached[index] == bounded[index]


@pytest.mark.parametrize("kind", ["none", "bounded"])
def test_neither_way_to_fix_it_grows(kind: Literal["none", "bounded"]) -> None:
    case = growing_cache.fixed(kind=kind)
    assert case.consume is not None
    assert case.consume(case.loader).value < 5  # MB; the broken one grows by about 20
