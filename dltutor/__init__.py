"""Break a PyTorch DataLoader on purpose, see what happened in every process, and fix it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dltutor.diagnosis.diagnose import diagnose as diagnose
    from dltutor.diagnosis.messages import explain as explain
    from dltutor.diagnosis.report import Diagnosis as Diagnosis
    from dltutor.diagnosis.reproduction import reproduce as reproduce
    from dltutor.display.budget import budget as budget
    from dltutor.display.figure import compare as compare
    from dltutor.display.instruments import monitor as monitor
    from dltutor.display.instruments import observe as observe
    from dltutor.display.instruments import watch as watch
    from dltutor.failures import CATALOG as CATALOG
    from dltutor.failures.tools.contract import Case as Case
    from dltutor.lessons.engine.checking import check as check
    from dltutor.lessons.engine.checking import hint as hint
    from dltutor.lessons.engine.checking import progress as progress
    from dltutor.observation import CannotConfine as CannotConfine
    from dltutor.observation import Observation as Observation
    from dltutor.observation import Timeline as Timeline
    from dltutor.observation import confine as confine
    from dltutor.observation import machine as machine
    from dltutor.observation.throughput import how_many_workers as how_many_workers

__version__ = "0.1.0"


class DltutorError(Exception):
    """The base class of dltutor's own exceptions that a caller may want to catch."""


# Each public name -> the module to import it from. `__getattr__` imports the module on first use,
# because `import dltutor` must stay quick, and importing torch is slow.
_HOMES = {
    "CATALOG": "dltutor.failures",
    "CannotConfine": "dltutor.observation",
    "Case": "dltutor.failures.tools.contract",
    "Diagnosis": "dltutor.diagnosis.report",
    "Observation": "dltutor.observation",
    "Timeline": "dltutor.observation",
    "budget": "dltutor.display.budget",
    "check": "dltutor.lessons.engine.checking",
    "compare": "dltutor.display.figure",
    "confine": "dltutor.observation",
    "diagnose": "dltutor.diagnosis.diagnose",
    "explain": "dltutor.diagnosis.messages",
    "hint": "dltutor.lessons.engine.checking",
    "how_many_workers": "dltutor.observation.throughput",
    "machine": "dltutor.observation",
    "monitor": "dltutor.display.instruments",
    "observe": "dltutor.display.instruments",
    "progress": "dltutor.lessons.engine.checking",
    "reproduce": "dltutor.diagnosis.reproduction",
    "watch": "dltutor.display.instruments",
}

__all__ = [*sorted([*_HOMES, "DltutorError"]), "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dltutor' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
