"""Test that a broken sample raises StopIteration, and that the fixed dataset leaves it out."""

from __future__ import annotations

import pytest

from dltutor.failures import silent_stop
from dltutor.failures.data.readings import SPOILED
from dltutor.failures.silent_stop import LabeledReadings, VerifiedReadings


def test_the_sample_itself_raises_and_is_known_before_the_epoch() -> None:
    broken, fixed = (
        make(workers=0).loader.dataset for make in (silent_stop.broken, silent_stop.fixed)
    )
    assert isinstance(broken, LabeledReadings) and isinstance(fixed, VerifiedReadings)
    with pytest.raises(StopIteration):
        broken[SPOILED]
    assert [path.name for path in fixed.unlabeled] == ["009.json"]
    assert len(fixed) == len(broken) - 1
