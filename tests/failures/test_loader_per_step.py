"""Test that `endless` yields every sample before it repeats any."""

from __future__ import annotations

from itertools import islice

import torch

from dltutor.failures import loader_per_step
from dltutor.failures.loader_per_step import endless


def test_one_iterator_gets_every_sample_before_any_comes_again() -> None:
    loader = loader_per_step.fixed(workers=0).loader
    batches = endless(loader)
    for _ in range(2):
        epoch = torch.cat([batch for [batch] in islice(batches, len(loader))])
        assert epoch.sort().values.tolist() == list(range(512))
