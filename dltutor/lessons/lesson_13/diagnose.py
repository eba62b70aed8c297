"""Grade "13.diagnose", which asks what limits each of four jobs."""

from __future__ import annotations

from typing import Final

from dltutor.lessons.engine.matching import matched

GRADER: Final = matched(
    {"A": "sending", "B": "waiting", "C": "training", "D": "computing"}, "limit"
)
