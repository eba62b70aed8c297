"""Find out, without the code under test, whether this user may mount a private `/dev/shm`."""

from __future__ import annotations

import subprocess
from functools import cache

_TRY = "mount --make-private /dev/shm && mount -t tmpfs tmpfs /dev/shm"


@cache
def why_not() -> str:
    """Return the system's message if mounting in a new namespace fails, or "" if it works."""
    command = ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", _TRY]
    tried = subprocess.run(command, capture_output=True, text=True)
    return f"{tried.stderr.strip()} (status {tried.returncode})" if tried.returncode else ""
