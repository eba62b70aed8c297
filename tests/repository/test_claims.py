"""Check that the page of claims is current, and that new measurements get the same verdicts."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module

import claims
import pytest
from portable import ROOT

ALL = [claim for tried in claims.claims().values() for claim in tried]


def test_the_page_has_every_claim_with_its_source_and_its_measurement() -> None:
    found = claims.on_page()
    page = claims.page(found).split("\nMeasured on ")
    stands = claims.PAGE.read_text().split("\nMeasured on ")
    assert page[0] == stands[0]
    assert page[1].partition("\n")[2] == stands[1].partition("\n")[2], "make claims"


def test_no_claim_is_tried_twice() -> None:
    texts = [claim.text for claim in ALL]
    assert len(texts) == len(set(texts))


def test_what_the_page_says_of_a_claim_is_in_its_words() -> None:
    def fits(words: str, said: str) -> bool:
        return bool(re.fullmatch(re.sub(r"\\{.*?\\}", ".*", re.escape(words)), said))

    found = claims.on_page()
    for claim in ALL:
        said = found[claim.text]
        assert fits(claim.result, said.result), claim.text
        assert fits(claim.verdict, said.verdict) or fits(claim.otherwise, said.verdict), claim.text


def test_words_are_filled_with_facts() -> None:
    claim = claims.Claim(
        text="It is read.",
        source="",
        how="",
        measure="",
        result="{read:read|not read} by {who: and }, in order {order:; }: {seconds:.1f} s.",
        verdict="holds.",
        otherwise="refuted for {who}.",
        expected={"read": True},
    )
    facts = {"who": ["W0", "W1"], "order": {"first": 1, "last": 2}, "seconds": 0.123}
    told = "by W0 and W1, in order first: 1; last: 2: 0.1 s."
    assert claim.told(facts | {"read": True}) == claims.Measured(f"read {told}", "holds.")
    other = claims.Measured(f"not read {told}", "refuted for W0, W1.")
    assert claim.told(facts | {"read": False}) == other


@pytest.mark.parametrize("lesson", claims.claims())
def test_every_claim_names_a_function_of_its_lesson(lesson: str) -> None:
    module = import_module(f"measured_claims.lesson_{lesson}")
    for claim in claims.claims()[lesson]:
        assert callable(getattr(module, claim.measure))


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("lesson", sorted(claims.claims()))
def test_a_claim_measured_again_gets_the_same_verdict(lesson: str) -> None:
    command = [sys.executable, "scripts/claims.py", "--check", lesson]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
