"""Test that a reused buffer gives wrong samples with one worker, and wrong batches with none."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader

from dltutor.failures import reused_buffer
from dltutor.failures.data.records import shared_records
from dltutor.failures.reused_buffer import ClonedFrames, Frames


def test_one_worker_is_enough_to_go_wrong() -> None:
    case = reused_buffer.broken(workers=1)
    assert case.consume(case.loader).value > 0


def test_a_batch_of_the_buffer_is_its_last_content_again_and_again_with_no_workers() -> None:
    batches = DataLoader(Frames(shared_records()), batch_size=8)
    assert [batch[:, 0].tolist() for batch in batches] == [[last] * 8 for last in range(7, 64, 8)]
    batches = DataLoader(ClonedFrames(shared_records()), batch_size=8)
    assert torch.cat([batch[:, 0] for batch in batches]).tolist() == list(range(64))
