"""Experiments and rules are declared: what is misspelt or missing is an error on import."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.experiments import experiments
from dltutor.diagnosis.measures import Measures
from dltutor.diagnosis.rules import RULES, collect
from dltutor.diagnosis.running.subject import Subject
from dltutor.failures import FACTS, PROMISES


def ask(subject: Subject) -> Measures:
    """An experiment's."""
    raise NotImplementedError


def test_every_failure_mode_has_a_rule_and_breaks_a_promise() -> None:
    assert [*RULES] == [each.name for each in FACTS]
    assert {each.promise for each in FACTS} == {*PROMISES}
    assert all(rule.__doc__ for rule in RULES.values())


def test_a_rule_without_a_failure_mode_is_an_error_and_so_is_the_reverse() -> None:
    with pytest.raises(TypeError, match="a rule without a failure mode"):
        collect(FACTS[1:])
    with pytest.raises(TypeError, match="new is a failure mode without a rule"):
        collect((*FACTS, replace(FACTS[0], name="new")))


def test_each_experiment_asks_another_question() -> None:
    found = experiments()
    assert len({each.question for each in found}) == len(found)
    assert all(each.question.endswith("?") for each in found)


@pytest.mark.parametrize(("field", "says"), [("rum", "no field"), ("samples", "must be")])
def test_an_experiment_that_fills_no_field_is_an_error(field: str, says: str) -> None:
    probe("run", 1.0, bool, ask).check()
    with pytest.raises(TypeError, match=says):
        probe(field, 1.0, bool, ask).check()
