"""Every test is in one of the two tiers, and the table that parts them names tests that are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import test_answers
import tiers

from dltutor.failures import CATALOGUE

TESTS = Path(__file__).parent


def test_the_two_tiers_are_all_tests() -> None:
    makefile = (TESTS.parent / "Makefile").read_text()
    assert re.findall(r'-m "(.*)"', makefile) == ["not thorough", "thorough"]


@pytest.mark.parametrize("name", tiers.THOROUGH)
def test_a_test_of_the_table_is_there(name: str) -> None:
    file, _, test = name.partition("::")
    assert f"def {test}(" in (TESTS / file).read_text()


def test_the_first_start_method_of_a_failure_is_never_left_out() -> None:
    assert not [each for each in CATALOGUE if tiers.spawned_again(each, each.start_methods[0])]


def test_of_each_exercise_the_first_wrong_answers_stay() -> None:
    for exercise, fixes in test_answers.WRONG_FIXES.items():
        kept = [fix for fix in fixes if not tiers.beyond_the_first(exercise, fix)]
        assert kept == list(fixes)[: tiers.ANSWERS] != []


def test_the_learners_files_that_stay_are_there() -> None:
    notebooks = TESTS.parent / "notebooks"
    assert all((notebooks / f"{name}.ipynb").exists() for name in tiers.UNTOUCHED)
