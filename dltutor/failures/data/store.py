"""Run a store of embeddings as a server in its own process, and connect to the server.

The server is this file, run as a script, and needs only Python's standard library.
"""

from __future__ import annotations

import os
import socket
import socketserver
import struct
import subprocess
import sys
import threading
import time
import weakref
from typing import Any, Final

WIDTH: Final = 16  # numbers in an embedding
LATENCY: Final = 0.002  # seconds before an answer, so that another worker has time to ask

_QUESTION = struct.Struct("<q")
_ANSWER = struct.Struct(f"<{WIDTH}f")

Address = tuple[str, int]


class Store:
    """A client with one connection, which sends a key and gets an embedding back.

    Args:
        address: The server's host and port.
    """

    def __init__(self, address: Address) -> None:
        self.connection = socket.create_connection(address)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def get(self, key: int) -> tuple[float, ...]:
        """Return the embedding for a key, which in this store is the key repeated 16 times."""
        self.connection.sendall(_QUESTION.pack(key))
        return _ANSWER.unpack(self.connection.recv(_ANSWER.size, socket.MSG_WAITALL))

    def __del__(self) -> None:
        if hasattr(self, "connection"):
            self.connection.close()


def start_server(owner: object) -> Address:
    """Start a server that ends when its owner is freed or this process exits, whichever is sooner.

    Returns:
        The address on the loopback interface where the server listens.
    """
    server = subprocess.Popen(
        [sys.executable, "-I", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    weakref.finalize(owner, _stop, server, os.getpid())
    assert server.stdout is not None
    return ("127.0.0.1", int(server.stdout.readline()))


def _stop(server: subprocess.Popen[bytes], started_by: int) -> None:
    if os.getpid() == started_by:  # false in a forked worker, which inherits the owner
        server.kill()
        server.communicate()


class _Answers(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while question := self.request.recv(_QUESTION.size, socket.MSG_WAITALL):
            time.sleep(LATENCY)
            (key,) = _QUESTION.unpack(question)
            self.request.sendall(_ANSWER.pack(*[key] * WIDTH))


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # ignore clients that are killed in the middle of a question


def _serve() -> None:
    server = _Server(("127.0.0.1", 0), _Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()  # returns once no process has the other end open, and the server exits


if __name__ == "__main__":
    _serve()
