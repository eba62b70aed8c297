"""Keep the learner's progress across notebooks and sessions."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import platformdirs

from dltutor.lessons.engine.outcomes import Outcome


def home() -> Path:
    """Return the folder for saved progress, which is `DLTUTOR_HOME` or the user's data folder."""
    return Path(os.environ.get("DLTUTOR_HOME") or platformdirs.user_data_dir("dltutor"))


def load() -> dict[str, Outcome]:
    """Return the saved outcomes by exercise, such as "10.fix", or {} without a readable file."""
    try:
        kept = json.loads((home() / "progress.json").read_text()).items()
    except (OSError, ValueError, AttributeError):
        return {}
    labels = [outcome.value for outcome in Outcome]
    return {name: Outcome(label) for name, label in kept if label in labels}


def save(name: str, outcome: Outcome) -> None:
    """Save an exercise's outcome. Once an exercise is correct, it stays correct.

    Raises:
        OSError: The file can't be written, for example because the disk is full.
    """
    kept = load()
    if kept.get(name) is Outcome.CORRECT:
        return
    kept[name] = outcome
    home().mkdir(parents=True, exist_ok=True)
    # Write a new file and rename it, so that no other notebook reads half a file.
    descriptor, path = tempfile.mkstemp(dir=home())
    try:
        with open(descriptor, "w") as file:
            json.dump({name: outcome.value for name, outcome in kept.items()}, file, indent=1)
        os.replace(path, home() / "progress.json")
    except OSError:
        with suppress(OSError):
            os.unlink(path)
        raise
