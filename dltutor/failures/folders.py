"""A temporary folder for the files of a failure mode."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path


def own_folder() -> Path:
    """Make a temporary folder that is removed when Python exits."""
    folder = tempfile.mkdtemp(prefix="dltutor-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
