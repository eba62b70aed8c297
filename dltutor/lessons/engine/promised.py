"""Compare what a lesson's tables measure with what its notebook says."""

from __future__ import annotations

import os


def promised(holds: bool, found: object) -> None:
    """Raise AssertionError in the course's own tests if a run isn't as the notebook says."""
    if os.environ.get("DLTUTOR_STRICT") == "1" and not holds:
        raise AssertionError(found)
