"""Test that forked workers draw the same numbers, unless each sample has its own seed."""

from __future__ import annotations

from typing import Any

import torch

from dltutor.failures import generator_attribute


def rows(case: Any) -> list[tuple[float, ...]]:
    return [tuple(row.tolist()) for batch in case.loader for row in batch]


def test_under_fork_every_worker_draws_the_same_numbers_unless_each_sample_has_its_seed() -> None:
    assert len(set(rows(generator_attribute.broken(workers=0)))) == 16
    assert len(set(rows(generator_attribute.broken()))) == 8
    noise = rows(generator_attribute.fixed())
    assert len(set(noise)) == 16
    assert torch.tensor(noise).std() > 0.5
