"""Persistent workers see an epoch only where it is shared."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dltutor.failures import stale_epoch
from dltutor.failures.tools.contract import Case
from dltutor.observation import observe


def wrong(case: Case) -> float:
    finding: Any = observe(case.loader, consume=case.consume).result
    return float(finding.value)


def test_all_epochs_but_the_first_are_wrong() -> None:
    assert wrong(stale_epoch.broken()) == 48


@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, False)])
def test_no_workers_and_fresh_workers_hide_it(workers: int, persistent: bool) -> None:
    assert wrong(stale_epoch.broken(workers=workers, persistent=persistent)) == 0


@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (1, True), (2, False), (3, True)])
def test_a_shared_epoch_reaches_workers_of_every_kind(workers: int, persistent: bool) -> None:
    assert wrong(stale_epoch.fixed(workers=workers, persistent=persistent)) == 0


def test_each_epoch_hears_another_stretch() -> None:
    clips = stale_epoch.Clips()
    first = clips[3]
    clips.set_epoch(1)
    assert not torch.equal(first, clips[3])
    assert len(first) == len(clips[3]) == stale_epoch.CROP
