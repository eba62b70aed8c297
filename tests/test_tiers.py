"""Every test is in one of the two tiers, the table that parts them names tests that are there, and
what the plugins of this folder make of a test's name.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import test_answers
import tiers
from costs import group
from distribution import LONGEST, share

from dltutor.failures import CATALOGUE

TESTS = Path(__file__).parent


def test_the_two_tiers_are_all_tests() -> None:
    makefile = (TESTS.parent / "Makefile").read_text()
    assert re.findall(r'-m "(.*)"', makefile) == ["not thorough", "thorough"]


@pytest.mark.parametrize("name", tiers.THOROUGH)
def test_a_test_of_the_table_is_there(name: str) -> None:
    file, _, test = name.partition("::")
    assert f"def {test}(" in (TESTS / file).read_text()


def test_of_each_failure_one_start_method_stays() -> None:
    for each in CATALOGUE:
        kept = [method for method in each.start_methods if not tiers.again(each, method)]
        assert len(kept) == 1, each.name


def test_of_each_exercise_the_first_wrong_answers_stay() -> None:
    for exercise, fixes in test_answers.WRONG_FIXES.items():
        kept = [fix for fix in fixes if not tiers.beyond_the_first(exercise, fix)]
        assert kept == list(fixes)[: tiers.ANSWERS] != []


def test_the_learners_files_that_stay_are_there() -> None:
    notebooks = TESTS.parent / "notebooks"
    assert all((notebooks / f"{name}.ipynb").exists() for name in tiers.UNTOUCHED)


@pytest.mark.parametrize(
    ("nodeid", "stays_with", "counts_for"),
    [
        ("test_observe.py::test_a[fork]", "test_observe.py", "test_observe.py"),
        ("test_failures.py::test_a[held_lock-fork]", "test_failures.py held_lock", None),
        ("test_failures.py::test_a[broken-held_lock]", "test_failures.py held_lock", None),
        ("test_notebooks.py::test_a[03-exited]", "test_notebooks.py 1", "lesson 03, notebooks"),
        ("test_notebooks.py::test_a[rule-04-a]", "test_notebooks.py 0", "lesson 04, notebooks"),
        (
            "test_notebooks.py::test_a[solutions-03-exited]",
            "test_notebooks.py 1",
            "lesson 03, notebooks",
        ),
        ("test_lesson_04.py::test_a[None]", "test_lesson_04.py", "lesson 04, checks"),
        ("test_answers.py::test_a[04.fix-a lock]", "test_answers.py", "lesson 04, checks"),
        ("test_check.py::test_a[Numbers-04.fix]", "test_check.py", "lesson 04, checks"),
    ],
)
def test_a_test_is_known_by_its_name(nodeid: str, stays_with: str, counts_for: str | None) -> None:
    assert share(f"tests/{nodeid}") == stays_with
    assert group(f"tests/{nodeid}") == (counts_for or nodeid.partition("::")[0])


def test_the_files_that_begin_first_are_there() -> None:
    assert all((TESTS / name).exists() for name in LONGEST)
