"""Say what evidence points to which failure mode, in one module of rules for each promise.

A rule is a function with the name of its failure mode, and a docstring that says what shows it. A
rule takes the Evidence from one examination, has no other access to the loader, and returns a
Finding or None. A new failure mode needs a rule in the module for the promise that it breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import FunctionType
from typing import Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Finding
from dltutor.failures import FACTS, PROMISES, Facts

Rule = Callable[[Evidence], Finding | None]


def collect(facts: tuple[Facts, ...]) -> dict[str, Rule]:
    """Return the rule for each failure mode, by name, in the order of the catalog.

    Args:
        facts: The catalog's facts about all failure modes.

    Raises:
        TypeError: A failure mode has no rule, or a rule has no failure mode.
    """
    found: dict[str, Rule] = {}
    for promise in PROMISES:
        module = import_module(f"{__name__}.{promise}")
        modes = {each.name for each in facts if each.promise == promise}
        rules = {
            name: each
            for name, each in vars(module).items()
            if isinstance(each, FunctionType)
            and each.__module__ == module.__name__
            and not name.startswith("_")
        }
        for name in modes ^ rules.keys():
            what = (
                "a failure mode without a rule"
                if name in modes
                else "a rule without a failure mode"
            )
            raise TypeError(f"{module.__name__}: {name} is {what} that breaks `{promise}`")
        found |= rules
    return {each.name: found[each.name] for each in facts}


RULES: Final[Mapping[str, Rule]] = collect(FACTS)
