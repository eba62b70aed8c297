"""Grade "08.diagnose", which asks what takes up each job's memory."""

from __future__ import annotations

from typing import Final

from dltutor.lessons.engine.matching import matched

_TAKES: Final = {"A": "own", "B": "ahead", "C": "shared", "D": "view"}

GRADER: Final = matched(_TAKES, "word")
