"""Test which generators make workers and epochs repeat each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from datasets import load

from dltutor.failures.repeated_randomness import LENGTH, NoisySignals, SeededSignals, train


class GlobalNoise(NoisySignals):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self.signals[index] + np.random.normal(size=4))


def seed_by_number(worker: int) -> None:
    np.random.seed(worker)


def repeated(dataset: NoisySignals, workers: int = 2, **options: Any) -> float:
    return train(load(dataset, batch_size=8, num_workers=workers, **options)).value


@pytest.mark.parametrize(
    ("workers", "persistent", "draws"),
    [
        (1, False, 32),  # the second epoch repeats the first
        (2, False, 48),  # the other worker repeats, too
        (2, True, 32),  # only the other worker repeats
    ],
)
def test_who_repeats_whom(workers: int, persistent: bool, draws: int) -> None:
    assert repeated(NoisySignals(), workers, persistent_workers=persistent) == draws
    assert repeated(SeededSignals(), workers, persistent_workers=persistent) == 0


def test_the_global_generator_of_numpy_is_healthy_unless_a_worker_s_number_seeds_it() -> None:
    assert repeated(GlobalNoise()) == 0
    assert repeated(GlobalNoise(), worker_init_fn=seed_by_number) == LENGTH  # epoch 2 repeats
