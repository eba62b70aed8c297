"""Run a database server in threads of this process, and record which sessions processes share.

Unlike a client of the server in `store.py`, a client here ends its session with a goodbye message,
as most database clients do.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

ROWS: Final = 40
LATE: Final = 0.02  # the most seconds that a process leaves its answer for another process to read
_QUESTION: Final = struct.Struct("<2q")  # the question, and the pid of the process that asks
_ROW: Final = struct.Struct("<4q")
_COUNT, _HELLO, _GOODBYE = -1, -2, -3


class Connection:
    """A session with the server. Each question says which process asks.

    A process that asks leaves its own answer in the socket for a moment. So if two processes ask
    over one connection at the same time, each reliably reads the other's answer.

    Args:
        address: The host and port where the server listens.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._say(_HELLO)

    def count(self) -> int:
        """Ask the server how many rows it has."""
        return self._ask(_COUNT)[0]

    def ask(self, number: int) -> list[int]:
        """Ask for a row, which is four numbers. Raise IndexError if there's no such row."""
        if not 0 <= number < ROWS:
            raise IndexError(f"there is no row {number}")
        return self._ask(number)

    def close(self) -> None:
        """End the session with a goodbye, even if other processes use it, and close the socket."""
        with suppress(OSError):
            self._say(_GOODBYE)
        self.socket.close()

    def _say(self, what: int) -> None:
        self.socket.sendall(_QUESTION.pack(what, os.getpid()))

    def _ask(self, number: int) -> list[int]:
        self._say(number)
        until = time.monotonic() + LATE
        while self._next(socket.MSG_PEEK)[0] == (ROWS if number == _COUNT else number):
            if time.monotonic() > until:
                break
            time.sleep(0.001)
        return self._next()

    def _next(self, flags: int = 0) -> list[int]:
        answer = self.socket.recv(_ROW.size, socket.MSG_WAITALL | flags)
        if len(answer) < _ROW.size:
            raise ConnectionError("the server has ended this session")
        return list(_ROW.unpack(answer))


@dataclass
class Session:
    """The server's record of a session.

    Attributes:
        pid: The process that opened the session.
        others: How many messages came from other processes.
        ended: Whether another process ended the session.
    """

    pid: int
    others: int = 0
    ended: bool = False


class Server:
    """A server that answers each connection in its own thread of this process.

    Args:
        seed: A different seed gives different rows. You can set `seed` at any time.

    Attributes:
        sessions: The record of each session, in the order in which the sessions began.
        connect: Call this to open a Connection to the server from any process.
    """

    def __init__(self, seed: int = 0) -> None:
        self.sessions: list[Session] = []
        self.seed = seed
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.connect = partial(Connection, self._listener.getsockname())
        threading.Thread(target=self._accept, daemon=True).start()

    def row(self, number: int) -> list[int]:
        """Return the row that the server sends for this number."""
        return [number, *(number * factor + self.seed for factor in (7, 11, 13))]

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        session = Session(0)
        with connection, suppress(OSError):
            while said := connection.recv(_QUESTION.size, socket.MSG_WAITALL):
                what, pid = _QUESTION.unpack(said)
                if what == _HELLO:
                    self.sessions.append(session := Session(pid))
                    continue
                session.others += pid != session.pid
                if what == _GOODBYE:
                    session.ended = pid != session.pid
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                row = [ROWS] * 4 if what == _COUNT else self.row(what)
                connection.sendall(_ROW.pack(*row))
