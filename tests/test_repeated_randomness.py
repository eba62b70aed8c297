"""Own generators repeat; the global ones do not; a generator of the index needs no luck."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from datasets import load

from dltutor.failures import repeated_randomness
from dltutor.failures.repeated_randomness import LENGTH, NoisySignals, SeededSignals, train
from dltutor.failures.tools.contract import Case
from dltutor.observation import observe


class GlobalNoise(NoisySignals):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self.signals[index] + np.random.normal(size=4))


def seed_by_number(worker: int) -> None:
    np.random.seed(worker)


def repeated(case: Case) -> float:
    finding: Any = observe(case.loader, consume=case.consume).result
    return float(finding.value)


@pytest.mark.parametrize(
    ("workers", "persistent", "draws"),
    [
        (0, False, 0),
        (1, False, 32),  # the next epoch repeats
        (2, False, 48),  # and so does the other worker
        (2, True, 32),  # only the other worker
    ],
)
def test_who_repeats_whom(workers: int, persistent: bool, draws: int) -> None:
    assert repeated(repeated_randomness.broken(workers=workers, persistent=persistent)) == draws
    assert repeated(repeated_randomness.fixed(workers=workers, persistent=persistent)) == 0


def test_the_global_generator_of_numpy_is_healthy() -> None:
    loader = load(GlobalNoise(), batch_size=8)
    assert repeated(Case(loader, train)) == 0


def test_seeding_the_global_generator_by_the_worker_makes_it_ill() -> None:
    loader = load(GlobalNoise(), batch_size=8, worker_init_fn=seed_by_number)
    assert repeated(Case(loader, train)) == LENGTH  # the second epoch is the first


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_generator_of_the_index_gives_the_same_with_any_number_of_workers(workers: int) -> None:
    alone, together = (
        torch.cat(list(repeated_randomness.fixed(workers=number).loader)) for number in (0, workers)
    )
    assert torch.equal(alone, together)


def test_another_seed_gives_other_noise() -> None:
    assert not torch.equal(SeededSignals(seed=0)[0], SeededSignals(seed=1)[0])
