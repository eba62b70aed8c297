"""Check that the doctor names each broken case's failure mode, and finds nothing in fixed cases.

Each test uses the first start method that shows the failure. `python scripts/doctor.py` runs all
cases under every such start method, and counts the right answers.
"""

from __future__ import annotations

import doctor
import pytest

from dltutor.failures import CATALOG, Failure

EACH_TIME = ("repeated_stream", "broken")
"""The only case that the default tier tests, because each takes an interpreter and a diagnosis."""


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        pytest.param(
            each,
            kind,
            id=f"{each.name} {kind}",
            marks=() if (each.name, kind) == EACH_TIME else pytest.mark.thorough,
        )
        for each in CATALOG
        for kind in ("broken", "fixed")
    ],
)
def test_the_broken_case_gets_its_name_and_the_fixed_one_nothing(
    failure: Failure, kind: str
) -> None:
    if kind == "broken" and (reason := failure.absent()):
        pytest.skip(reason)
    row = doctor.row(failure, kind, failure.start_methods[0])
    assert row["found"][:1] == ([failure.name] if kind == "broken" else []), row["report"]
