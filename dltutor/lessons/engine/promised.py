"""Raise an error in a strict run whose measurements don't match the lesson's notebook."""

from __future__ import annotations

import os


def promised(holds: bool, found: object) -> None:
    """Raise AssertionError if a run isn't as the notebook says, but only if `DLTUTOR_STRICT` is 1.

    Args:
        holds: Whether the run is as the notebook says.
        found: What the run measured, as the AssertionError's argument.
    """
    if os.environ.get("DLTUTOR_STRICT") == "1" and not holds:
        raise AssertionError(found)
