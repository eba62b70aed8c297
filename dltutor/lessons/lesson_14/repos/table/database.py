"""The customer database: a server in a process of its own, and its client."""

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
    """A connection to the server of a folder, which is started if it does not run."""

    def __init__(self, folder):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(serve(folder))

    def row(self, customer):
        """The numbers of a customer, a tuple of COLUMNS floats."""
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
    """Where the server of a folder listens; it ends with the process that started it."""
    folder = os.path.abspath(folder)
    if folder not in _servers:
        command = [sys.executable, "-I", os.path.abspath(__file__), folder]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        _servers[folder] = server, server.stdout.readline().strip()
    return _servers[folder][1]


class Handler(socketserver.BaseRequestHandler):
    """Answers the questions of one connection, one after the other."""

    def handle(self):
        """Until the client closes it."""
        self.server.note()
        while len(asked := self.request.recv(QUESTION.size, socket.MSG_WAITALL)) == QUESTION.size:
            time.sleep(0.002)  # it is a busy server
            self.request.sendall(ANSWER.pack(*self.server.rows[QUESTION.unpack(asked)[0]]))


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Serves the rows of a folder, and counts its connections in `connections.log`."""

    daemon_threads = True

    def __init__(self, folder):
        self.folder, self.rows = folder, np.load(os.path.join(folder, "rows.npy"))
        super().__init__(f"\0customers-{os.getpid()}", Handler)

    def note(self):
        """One more."""
        with open(os.path.join(self.folder, "connections.log"), "a") as log:
            log.write("connected\n")

    def handle_error(self, request, client_address):
        """A client that is gone."""


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Stop is meant for the notebook
    server = Server(sys.argv[1])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"\0customers-{os.getpid()}", flush=True)
    sys.stdin.read()  # until the process that started this one ends
