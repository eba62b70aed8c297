"""Test that the fixed dataset and its collate function keep the reason for a missing sample."""

from __future__ import annotations

from dltutor.failures import lost_exception_type
from dltutor.failures.data.tolerant import Missing, collate_tolerant


def test_caught_in_the_worker_it_costs_one_sample_and_gives_the_reason() -> None:
    batches = list(lost_exception_type.fixed(workers=0).loader)
    assert sum(len(labels) for (_, labels), _ in batches) == 15
    assert [reason for _, reasons in batches for reason in reasons] == [
        "sample 9: BadReading: 009.json has no label"
    ]


def test_a_batch_with_nothing_in_it_is_none_with_its_reasons() -> None:
    assert collate_tolerant([Missing("sample 0: gone")]) == (None, ["sample 0: gone"])
