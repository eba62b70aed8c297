"""Which batches come before the slow one."""

from __future__ import annotations

import pytest

from dltutor.failures import head_of_line
from dltutor.failures.head_of_line import BATCH, LENGTH, LONG, Texts, shared_texts

pytestmark = pytest.mark.timeout(60, method="thread")


def where_the_slow_one_comes(in_order: bool) -> int:
    make = head_of_line.broken if in_order else head_of_line.fixed
    loader = make().loader
    samples = [int(Texts(shared_texts())[index]) for index in range(LENGTH)]
    slow = samples[LONG]
    assert samples.count(slow) == 1, "it can be told from the others"
    list(loader)  # the workers start
    places = [number for number, batch in enumerate(loader) if slow in batch.tolist()]
    assert len(places) == 1
    return places[0]


@pytest.mark.thorough  # it waits for the slow batch twice
def test_in_order_the_slow_batch_comes_in_its_turn() -> None:
    assert where_the_slow_one_comes(in_order=True) == LONG // BATCH


@pytest.mark.thorough  # it waits for the slow batch twice
def test_out_of_order_more_than_half_of_the_others_come_before_it() -> None:
    assert where_the_slow_one_comes(in_order=False) > LENGTH // BATCH // 2
