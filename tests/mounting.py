"""Whether a `/dev/shm` of one's own can be mounted here, found without the code under test."""

from __future__ import annotations

import subprocess
from functools import cache

_TRY = "mount --make-private /dev/shm && mount -t tmpfs tmpfs /dev/shm"


@cache
def why_not() -> str:
    """Why this user may not mount one in a namespace of their own, in the system's words; or ""."""
    command = ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", _TRY]
    tried = subprocess.run(command, capture_output=True, text=True)
    return f"{tried.stderr.strip()} (status {tried.returncode})" if tried.returncode else ""
