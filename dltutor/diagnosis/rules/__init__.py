"""Say what evidence points to which failure mode, in one module of rules for each promise.

A rule is a function with the name of its failure mode, and a docstring that says what shows it. A
rule takes the Evidence from one examination, has no other access to the loader, and returns a
Finding or None. A new failure mode needs a rule in the module for the promise that it breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Finding
from dltutor.failures import FACTS

Rule = Callable[[Evidence], Finding | None]

#: The rule for each failure mode, by name, in the order of the catalog.
RULES: Final[Mapping[str, Rule]] = {
    each.name: getattr(import_module(f"{__name__}.{each.promise}"), each.name) for each in FACTS
}
