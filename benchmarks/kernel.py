"""Start a notebook kernel with a client that, like a browser, receives all its output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jupyter_client.manager import start_new_kernel

Message = dict[str, Any]


class Kernel:
    """A running notebook kernel that executes cells.

    Args:
        client: The kernel's client, with open channels.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.seen: Callable[[Message], None] = lambda message: None  # gets every output message

    def run(self, code: str, timeout: float = 600) -> None:
        """Run a cell, as `value` does, and wait until it has finished."""
        self.value(f"{code}\nNone", timeout)

    def value(self, code: str, timeout: float = 600) -> Any:
        """Run a cell whose last line is an expression, and return the expression's value.

        Args:
            code: The cell's source. The value must be something that JSON can hold.
            timeout: The most seconds that the cell may take (default 600).

        Raises:
            RuntimeError: The cell raised an exception.
            TimeoutError: The cell took longer than `timeout`.
        """
        *lines, last = code.strip().splitlines()
        cell = "\n".join([*lines, f"print('VALUE ' + __import__('json').dumps({last}))"])
        printed = ""

        def take(message: Message) -> None:
            nonlocal printed
            if message["msg_type"] == "stream":
                printed += message["content"]["text"]
            self.seen(message)

        reply = self.client.execute_interactive(
            cell, timeout=timeout, output_hook=take, store_history=False
        )
        if reply["content"]["status"] != "ok":
            raise RuntimeError("\n".join(reply["content"].get("traceback", [])))
        return json.loads(printed.partition("VALUE ")[2])

    def usage(self) -> int:
        """Return how many bytes the kernel and its children use, according to ipykernel."""
        message = self.client.session.msg("usage_request", {})
        self.client.control_channel.send(message)
        while True:
            reply = self.client.get_control_msg(timeout=30)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                return int(reply["content"]["kernel_memory"])


@contextmanager
def kernel() -> Iterator[Kernel]:
    """Start a notebook kernel in `benchmarks/`, so that its cells can import the benchmarks.

    Raises:
        RuntimeError: The kernel runs a different Python from this one.
    """
    # Without this option, the kernel warns that its channels aren't encrypted.
    quiet = ["--IPKernelApp.log_level=40"]
    manager, client = start_new_kernel(cwd=str(Path(__file__).parent), extra_arguments=quiet)
    try:
        here = Kernel(client)
        python = here.value("import sys\nsys.executable")
        if python != sys.executable:
            raise RuntimeError(f"the kernel runs {python}, not {sys.executable}")
        yield here
    finally:
        client.stop_channels()
        manager.shutdown_kernel()  # this also removes the kernel's connection file
