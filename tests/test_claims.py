"""The page of claims is what its script makes of them, and its verdicts come out again."""

from __future__ import annotations

import subprocess
import sys

import claims
import pytest
from portable import ROOT


def test_the_page_has_every_claim_with_its_source_and_its_measurement() -> None:
    found = claims.on_page()
    page = claims.page(found).split("\nMeasured on ")
    stands = claims.PAGE.read_text().split("\nMeasured on ")
    assert page[0] == stands[0]
    assert page[1].partition("\n")[2] == stands[1].partition("\n")[2], "make claims"


def test_no_claim_is_tried_twice() -> None:
    texts = [claim.text for tried in claims.claims().values() for claim in tried]
    assert len(texts) == len(set(texts))


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("lesson", sorted(claims.claims()))
def test_a_claim_measured_again_gets_the_same_verdict(lesson: str) -> None:
    command = [sys.executable, "scripts/claims.py", "--check", lesson]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
