"""Each worker reads all of a stream, unless it is told which part is its own."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from datasets import load

from dltutor.failures import repeated_stream
from dltutor.failures.repeated_stream import LENGTH, Events, shared_log, train
from dltutor.failures.tools.contract import Case
from dltutor.observation import observe


class MeasuredEvents(Events):
    def __init__(self, path: Path) -> None:
        super().__init__(path)

    def __len__(self) -> int:
        return LENGTH


def events(case: Case) -> Counter[int]:
    return Counter(event for batch in case.loader for event in batch.tolist())


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_event_comes_once_for_each_worker(workers: int) -> None:
    assert set(events(repeated_stream.broken(workers=workers)).values()) == {workers}


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_dealt_out_every_event_comes_once(workers: int) -> None:
    assert events(repeated_stream.fixed(workers=workers)) == Counter(range(LENGTH))


@pytest.mark.parametrize(("batch_size", "warned"), [(1, True), (2, False), (8, False)])
def test_the_warning_of_torch_overlooks_twice_the_data_in_batches(
    batch_size: int, warned: bool
) -> None:
    loader = load(MeasuredEvents(shared_log()), batch_size=batch_size)
    assert len(loader) == LENGTH // batch_size
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        finding: Any = observe(loader, consume=train).result
    assert finding.value == LENGTH
    assert any("Length of IterableDataset" in str(each.message) for each in said) == warned
