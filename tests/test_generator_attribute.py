"""A generator that a dataset holds, and the seed that it should hold instead."""

from __future__ import annotations

from typing import Any

import torch

from dltutor.failures import generator_attribute
from dltutor.observation import observe


def rows(case: Any) -> list[tuple[float, ...]]:
    return [tuple(row.tolist()) for batch in case.loader for row in batch]


def test_the_reason_is_on_stderr_and_not_in_main() -> None:
    observation = observe(generator_attribute.broken(workers=1, start_method="spawn").loader)
    assert observation.end == "worker died"
    assert "unable to resize file <filename not specified>" in observation.stderr
    assert "resize" not in str(observation.chain)


def test_under_fork_every_worker_draws_the_same_numbers() -> None:
    assert len(set(rows(generator_attribute.broken()))) == 8
    assert len(set(rows(generator_attribute.broken(workers=0)))) == 16


def test_with_a_seed_for_each_sample_no_number_comes_twice() -> None:
    noise = rows(generator_attribute.fixed())
    assert len(set(noise)) == 16
    assert torch.tensor(noise).std() > 0.5
