"""Run Python as a user without privileges, even if the tests run as root."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
NOBODY = 65534


def run(code: str, *, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter as a user without privileges, for at most `timeout` seconds.

    Skip the test if the tests run as root and the system refuses a new mount namespace.
    """
    command = _python(code)
    with TemporaryDirectory() as hidden:
        if os.geteuid() == 0:
            command = [*_alone("--mount"), "sh", "-euc", opened_to_all(hidden), *command]
        return subprocess.run(command, timeout=timeout, text=True, capture_output=True, cwd="/tmp")


def run_without_namespaces(code: str, *, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter that may neither mount nor make user namespaces.

    The code may run for at most `timeout` seconds. Skip the test if the system refuses the user
    namespace in which the interpreter loses these rights.
    """
    lines = [
        "echo 0 > /proc/sys/user/max_user_namespaces",
        f"exec setpriv --bounding-set=-all --inh-caps=-all {shlex.join(_python(code))}",
    ]
    command = [*_alone("--user", "--map-root-user"), "sh", "-euc", "\n".join(lines)]
    return subprocess.run(command, timeout=timeout, text=True, capture_output=True)


def opened_to_all(hidden: str) -> str:
    """Return a shell script that runs its arguments as user nobody.

    Run the script in a new mount namespace, because it mounts folders over those that only root
    may enter. The contents of the covered folders are then in `hidden`, an existing empty folder.
    """
    who = f"setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups --inh-caps=-all"
    return "\n".join([*_opened(hidden), f'exec {who} "$0" "$@"'])


def _alone(*namespaces: str) -> list[str]:
    """Return the command that makes namespaces, or skip the test if the system refuses them."""
    command = ["unshare", *namespaces]
    tried = subprocess.run([*command, "true"], capture_output=True, text=True)
    if tried.returncode:  # in a chroot, and in most containers
        pytest.skip(f"the system refuses new namespaces: {tried.stderr.strip()}")
    return command


def _python(code: str) -> list[str]:
    return [sys.executable, "-B", "-c", code]


def _opened(hidden: str) -> list[str]:
    """Return shell lines that let every user read this repository and Python's files.

    Folders above them that only root may enter move to `hidden`, and readable ones take their
    place. Run the lines in a new mount namespace, so that no other process sees the change.
    """
    needed = {REPOSITORY, Path(sys.prefix), Path(sys.base_prefix)}
    closed = {folder for path in needed if (folder := _closed(path))}
    lines = []
    for number, folder in enumerate(sorted(closed)):
        kept = f"{hidden}/{number}"
        lines += [f"mkdir {kept}", f"mount --bind {folder} {kept}"]
        lines += [f"mount -t tmpfs -o mode=755 none {folder}"]
        for path in needed:
            if path.is_relative_to(folder):
                inside = path.relative_to(folder)
                lines += [f"mkdir -p {path}", f"mount --bind {kept}/{inside} {path}"]
    return lines


def _closed(path: Path) -> Path | None:
    """Return the outermost folder on a path that keeps other users out, or None if none does."""
    return next((p for p in (*reversed(path.parents), path) if not p.stat().st_mode & 0o001), None)
