"""How it is practised: exercises, their checks and hints, progress, and the notebooks as files."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dltutor.lessons.kit.checking import EXERCISES as EXERCISES
    from dltutor.lessons.kit.checking import CheckFailed as CheckFailed
    from dltutor.lessons.kit.checking import check as check
    from dltutor.lessons.kit.checking import hint as hint
    from dltutor.lessons.kit.checking import progress as progress
    from dltutor.lessons.kit.exercise import Exercise as Exercise
    from dltutor.lessons.kit.outcome import Outcome as Outcome
    from dltutor.lessons.kit.outcome import Result as Result

# Looked up on first use: `dltutor lab` needs neither the exercises nor torch.
_HOMES = {
    "EXERCISES": "dltutor.lessons.kit.checking",
    "CheckFailed": "dltutor.lessons.kit.checking",
    "Exercise": "dltutor.lessons.kit.exercise",
    "Outcome": "dltutor.lessons.kit.outcome",
    "Result": "dltutor.lessons.kit.outcome",
    "check": "dltutor.lessons.kit.checking",
    "hint": "dltutor.lessons.kit.checking",
    "progress": "dltutor.lessons.kit.checking",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dltutor.lessons' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
