"""How far the learner is, across lessons and kernels."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import platformdirs

from dltutor.lessons.engine.outcomes import Outcome


def home() -> Path:
    """The folder that keeps progress: `DLTUTOR_HOME`, or the user's data folder."""
    return Path(os.environ.get("DLTUTOR_HOME") or platformdirs.user_data_dir("dltutor"))


def load() -> dict[str, Outcome]:
    """Exercise -> its outcome so far. What cannot be read counts as none."""
    try:
        kept = json.loads((home() / "progress.json").read_text()).items()
    except (OSError, ValueError, AttributeError):
        return {}
    labels = [outcome.value for outcome in Outcome]
    return {name: Outcome(label) for name, label in kept if label in labels}


def save(name: str, outcome: Outcome) -> None:
    """Remember an outcome. What was once correct stays correct.

    Raises:
        OSError: The folder cannot be written.
    """
    kept = load()
    if kept.get(name) is Outcome.CORRECT:
        return
    kept[name] = outcome
    home().mkdir(parents=True, exist_ok=True)
    # Written beside it and moved: another notebook never reads half a file.
    descriptor, path = tempfile.mkstemp(dir=home())
    try:
        with open(descriptor, "w") as file:
            json.dump({name: outcome.value for name, outcome in kept.items()}, file, indent=1)
        os.replace(path, home() / "progress.json")
    except OSError:
        with suppress(OSError):
            os.unlink(path)
        raise
