"""The doctor on the course's own failures: the broken case gets its name, the fixed one nothing.

`python scripts/doctor.py` prints all of it, under every start method, with who was taken for whom.
"""

from __future__ import annotations

import doctor
import pytest

from dltutor.failures import CATALOG, Failure

#: One that raises and one that is silently wrong. Each takes two interpreters and two visits.
EACH_TIME = ("corrupt_images", "repeated_stream")


@pytest.mark.timeout(170)
@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(each, marks=() if each.name in EACH_TIME else pytest.mark.thorough)
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
