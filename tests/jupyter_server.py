"""Start a Jupyter server for a test, and send it requests."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from own_process import DEADLINE


@contextlib.contextmanager
def server(
    command: Sequence[str], *, folder: Path, environment: Mapping[str, str], state: Path
) -> Iterator[dict[str, Any]]:
    """Run a command that starts a Jupyter server, and yield the server's address and token.

    Args:
        command: The command and its arguments.
        folder: The folder that the command runs in.
        environment: The command's environment variables.
        state: A folder for Jupyter's settings and data, and for the server's log.

    Yields:
        A dict with the keys "url" and "token", among others.
    """
    own = {f"JUPYTER_{kind}_DIR": str(state / kind) for kind in ["CONFIG", "DATA", "RUNTIME"]}
    # Pick a port for a command without `--port`, because two servers that start at the same moment
    # could pick the same one.
    own["JUPYTER_PORT"] = str(_free_port())
    state.mkdir(exist_ok=True)
    log = state / "server.log"
    with log.open("w") as file:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, **own},
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        yield _account(state / "RUNTIME", process, log)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=DEADLINE)


def _free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        port: int = tried.getsockname()[1]
    return port


def _account(runtime: Path, process: subprocess.Popen[bytes], log: Path) -> dict[str, Any]:
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        assert process.poll() is None, f"no server:\n{log.read_text()}"
        for file in runtime.glob("jpserver-*.json"):
            try:
                found: dict[str, Any] = json.loads(file.read_text())
                fetch(found, "api/status")
            except (ValueError, urllib.error.URLError):
                continue  # the file is half written, or the server isn't listening yet
            return found
        time.sleep(0.1)
    raise AssertionError(f"no answer within {DEADLINE} s:\n{log.read_text()}")


def fetch(
    server: dict[str, Any], path: str, body: object = None, method: str | None = None
) -> tuple[str, str]:
    """Send a request, with `body` as JSON, and return the final address and the response's body.

    The final address is the one after all redirects. The server has DEADLINE seconds to respond.
    """
    request = urllib.request.Request(
        server["url"] + path,
        headers={"Authorization": f"token {server['token']}"},
        data=None if body is None else json.dumps(body).encode(),
        method=method,
    )
    with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
        return answer.url, answer.read().decode()
