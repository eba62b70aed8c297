"""Let forked processes send notes to the process that forked them, even if they die afterward."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any


class Notes:
    """Notes that forked processes write and their parent reads, in the order of their arrival.

    The notes are lines of JSON in a temporary file without a name that all these processes have
    open.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile("a+b", buffering=0)  # noqa: SIM115  # stays open

    def write(self, note: Any) -> None:
        """Add a note, which JSON has to be able to represent. Tuples arrive as lists."""
        self._file.write(json.dumps(note).encode() + b"\n")

    def read(self) -> list[Any]:
        """Return all notes so far."""
        # Don't seek, because the processes share the file's position, and a write would move it.
        size = os.fstat(self._file.fileno()).st_size
        return [json.loads(line) for line in os.pread(self._file.fileno(), size, 0).splitlines()]
