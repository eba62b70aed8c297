"""Grade "10.diagnose", which asks why each of four jobs leaks."""

from __future__ import annotations

from typing import Final

from dltutor.lessons.engine.matching import matched

GRADER: Final = matched({"A": "cache", "B": "kept", "C": "cycle", "D": "heap"}, "cause")
