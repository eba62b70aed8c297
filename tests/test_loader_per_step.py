"""A new iterator for each step: new workers, and without shuffling always the first batch."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from dltutor.failures import loader_per_step
from dltutor.failures.loader_per_step import STEPS, endless
from dltutor.failures.tools.contract import MakeCase
from dltutor.observation import observe

pytestmark = pytest.mark.timeout(60, method="thread")


def test_without_shuffling_each_step_gets_the_first_batch() -> None:
    loader = loader_per_step.broken(workers=0, shuffle=False).loader
    [first], [second] = next(iter(loader)), next(iter(loader))
    assert torch.equal(first, second)


def test_one_iterator_gets_every_sample_before_any_comes_again() -> None:
    loader = loader_per_step.fixed(workers=0).loader
    batches = endless(loader)
    for _ in range(2):
        epoch = torch.cat([batch for [batch] in islice(batches, len(loader))])
        assert epoch.sort().values.tolist() == list(range(512))


@pytest.mark.parametrize(
    ("make", "epochs"), [(loader_per_step.broken, STEPS), (loader_per_step.fixed, 1)]
)
def test_how_often_the_loop_starts_workers(
    make: MakeCase, epochs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make()
    started = []
    begin = type(case.loader).__iter__

    def counting(loader: DataLoader[Any]) -> Any:
        started.append(loader)
        return begin(loader)

    monkeypatch.setattr(DataLoader, "__iter__", counting)
    case.consume(case.loader)
    assert len(started) == epochs


def test_under_observation_each_step_delivers_a_batch() -> None:
    case = loader_per_step.broken()
    assert observe(case.loader, consume=case.consume).batches == STEPS
