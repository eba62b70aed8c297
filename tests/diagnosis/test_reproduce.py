"""Check that `reproduce` waits longer for workers that start slowly, but not for ones that hang."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dltutor.diagnosis import reproduction as module
from dltutor.diagnosis.reproduction import reproduce
from dltutor.failures.held_lock import FAILURE as HELD_LOCK
from dltutor.failures.none_in_batch import FAILURE as NONE_IN_BATCH


@pytest.mark.thorough  # spawned workers have to import torch
def test_workers_that_have_not_started_by_the_deadline_get_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "STARTING", 0.0)
    monkeypatch.setattr(module, "_PATIENCE", 600)
    observation = reproduce(replace(NONE_IN_BATCH, deadline=0.1), start_method="spawn")
    assert observation.end == "raised"
    assert observation.deadline == pytest.approx(60)


def test_workers_that_stand_still_do_not() -> None:
    observation = reproduce(replace(HELD_LOCK, deadline=1.5))
    assert observation.end == "hung"
    assert observation.deadline == 1.5
