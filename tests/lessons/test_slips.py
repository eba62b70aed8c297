"""Check that one small mistake in a correct dataset is caught, wherever the mistake is.

Such a mistake is called a slip. For each exercise whose answer is a map-style dataset, we take the
first right answer, add one slip, and check it. Four slips return another sample: at the first
index, at the last index, only in main, or only in the first worker. One raises an exception at the
last index. The last two make the dataset one sample too short or too long.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from slips import SLIPS, slipped
from test_answers import OTHERS, first_right
from torch.utils.data import IterableDataset

from dltutor.lessons.engine.checking import check, exercises
from dltutor.lessons.engine.outcomes import Outcome

FIRST = "another sample at the last index"
"""The only slip that `make test` runs."""

SLOW = {"03.transfer", "06.fix", "06.transfer", "09.fix", "09.transfer", "10.fix"}
"""Exercises for which `make test` runs no slip, because their checks are slow."""


def is_map_style(answer: Any) -> bool:
    is_class = isinstance(answer, type) and not issubclass(answer, IterableDataset)
    return is_class or isinstance(answer, Path)


ANSWERED_WITH_A_DATASET = sorted(
    name for name in OTHERS if exercises()[name].runs and is_map_style(first_right(name))
)


@pytest.mark.parametrize(
    ("exercise", "slip"),
    [
        pytest.param(
            name, slip, marks=() if slip == FIRST and name not in SLOW else pytest.mark.thorough
        )
        for name in ANSWERED_WITH_A_DATASET  # with 7 slips each, these are about 150 checks
        for slip in SLIPS
    ],
)
def test_a_right_dataset_with_a_slip_is_not_correct(
    exercise: str, slip: str, tmp_path: Path
) -> None:
    answer = first_right(exercise)
    result = check(exercise, slipped(answer, slip, tmp_path))
    assert result.outcome in (Outcome.NOT_YET, Outcome.ERROR), result
