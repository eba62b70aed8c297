"""Test that workers repeat a stream unless each takes a share, and that torch may not warn."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest
from datasets import load

from dltutor.failures import repeated_stream
from dltutor.failures.repeated_stream import LENGTH, Events, shared_log, train


class MeasuredEvents(Events):
    def __len__(self) -> int:
        return LENGTH


def test_every_event_comes_once_for_each_worker_or_once_where_they_are_dealt_out() -> None:
    broken, fixed = repeated_stream.broken(workers=3), repeated_stream.fixed(workers=3)
    for case, times in ((broken, 3), (fixed, 1)):
        came = Counter(event for batch in case.loader for event in batch.tolist())
        assert came == dict.fromkeys(range(LENGTH), times)


@pytest.mark.parametrize(("batch_size", "warned"), [(1, True), (2, False)])
def test_the_warning_of_torch_overlooks_twice_the_data_in_batches(
    batch_size: int, warned: bool
) -> None:
    loader = load(MeasuredEvents(shared_log()), batch_size=batch_size)
    assert len(loader) == LENGTH // batch_size
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert train(loader).value == LENGTH
    assert any("Length of IterableDataset" in str(each.message) for each in said) == warned
