"""Serve the customer database in its own process, and connect to the server."""

import os
import signal
import socket
import socketserver
import struct
import subprocess
import sys
import threading
import time

import numpy as np

COLUMNS = 8
QUESTION, ANSWER = struct.Struct("<q"), struct.Struct(f"<{COLUMNS}d")


class Connection:
    """A connection to a folder's server, which starts with the first connection."""

    def __init__(self, folder):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(serve(folder))

    def row(self, customer):
        """Return a customer's numbers, as a tuple of COLUMNS floats."""
        self.socket.sendall(QUESTION.pack(customer))
        answer = self.socket.recv(ANSWER.size, socket.MSG_WAITALL)
        if len(answer) < ANSWER.size:
            raise ValueError(f"row {customer} was cut short")
        return ANSWER.unpack(answer)

    def close(self):
        """End this process's use of the connection."""
        self.socket.close()

    __del__ = close


_servers = {}


def serve(folder):
    """Return the address of a folder's server, which ends with the process that started it."""
    folder = os.path.abspath(folder)
    if folder not in _servers:
        command = [sys.executable, "-I", os.path.abspath(__file__), folder]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        _servers[folder] = server, server.stdout.readline().strip()
    return _servers[folder][1]


class Handler(socketserver.BaseRequestHandler):
    """A handler that answers one connection's questions, one after the other."""

    def handle(self):
        """Answer questions until the client closes the connection."""
        self.server.note()
        while len(asked := self.request.recv(QUESTION.size, socket.MSG_WAITALL)) == QUESTION.size:
            time.sleep(0.002)  # pretends that the server is busy
            self.request.sendall(ANSWER.pack(*self.server.rows[QUESTION.unpack(asked)[0]]))


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """A server for a folder's rows, with a line in `connections.log` for each connection."""

    daemon_threads = True

    def __init__(self, folder):
        self.folder, self.rows = folder, np.load(os.path.join(folder, "rows.npy"))
        super().__init__(f"\0customers-{os.getpid()}", Handler)

    def note(self):
        """Write a line for a new connection to the log."""
        with open(os.path.join(self.folder, "connections.log"), "a") as log:
            log.write("connected\n")

    def handle_error(self, request, client_address):
        """Ignore errors, such as the one after a client has disconnected."""


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # because Stop is meant for the notebook
    server = Server(sys.argv[1])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"\0customers-{os.getpid()}", flush=True)
    sys.stdin.read()  # returns when the process that started this one ends
