"""Test that an exception arrives with its type if its class is at the top level of a module."""

from __future__ import annotations

import pytest
from datasets import load

from dltutor.failures import unpicklable_exception
from dltutor.observation import observe
from dltutor.observation.texts import said

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


def test_from_module_level_it_arrives_with_its_type_and_names_the_file() -> None:
    raising = unpicklable_exception.fixed().loader.dataset.dataset  # type: ignore[attr-defined]
    observation = observe(load(raising))
    [(kind, message)] = observation.chain
    assert (observation.end, kind) == ("raised", "UnreadableReading")
    assert "UnreadableReading: 009.json: not a reading" in said(kind, message)
