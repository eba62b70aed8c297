"""Check that the doctor names each broken case's failure mode, and finds nothing in fixed cases.

Each test uses the first start method that shows the failure. `python scripts/doctor.py` runs all
cases under every such start method, and counts the right answers.
"""

from __future__ import annotations

import doctor
import pytest

from dltutor.failures import CATALOG, Failure

EACH_TIME = "repeated_stream"
"""The only failure mode that the default tier tests, because each failure mode takes two
interpreters and two diagnoses."""


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(each, marks=() if each.name == EACH_TIME else pytest.mark.thorough)
        for each in CATALOG
    ],
    ids=lambda each: each.name,
)
def test_the_broken_case_gets_its_name_and_the_fixed_one_nothing(failure: Failure) -> None:
    method = failure.start_methods[0]
    fixed = doctor.row(failure, "fixed", method)
    assert fixed["found"] == [], fixed["report"]
    if reason := failure.absent():
        pytest.skip(reason)
    broken = doctor.row(failure, "broken", method)
    assert broken["found"][:1] == [failure.name], broken["report"]
