"""Test that most batches arrive before the slow batch if batches may arrive out of order."""

from __future__ import annotations

from dltutor.failures import head_of_line
from dltutor.failures.head_of_line import BATCH, LENGTH, LONG, Texts, shared_texts


def test_out_of_order_more_than_half_of_the_others_come_before_the_slow_one() -> None:
    slow = int(Texts(shared_texts())[LONG])
    loader = head_of_line.fixed().loader
    list(loader)  # run one epoch first, so that the workers are up
    [place] = [number for number, batch in enumerate(loader) if slow in batch.tolist()]
    assert place > LENGTH // BATCH // 2
