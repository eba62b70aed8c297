"""Make nbval run kernels like a learner's, and check what the cells' tags promise.

Only `notebook_runs.validate` uses this pytest plugin, with `-p nbval_kernels`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from queue import Empty
from typing import Any

import nbval.kernel
import nbval.plugin
import pytest
from jupyter_client.manager import KernelManager
from nbval.kernel import RunningKernel
from nbval.plugin import IPyNbCell
from tag_promises import broken_promises

IDLE_TIMEOUT = 30
"""Seconds to wait for a kernel's `idle` message. nbval's 5 s is too short on a busy machine."""


class PrivateSockets(KernelManager):
    """A kernel manager with Unix sockets, whose paths begin with the one in DLTUTOR_SOCKETS."""

    def __init__(self, **options: Any) -> None:
        super().__init__(transport="ipc", ip=os.environ["DLTUTOR_SOCKETS"], **options)


class LearnersKernel(RunningKernel):
    """A kernel that behaves like one in JupyterLab, and whose crash nbval reports right away."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Hide this variable, because with it, ipykernel doesn't capture file descriptors 1 and 2.
        current_test = os.environ.pop("PYTEST_CURRENT_TEST")
        try:
            super().__init__(*args, **kwargs)
        finally:
            os.environ["PYTEST_CURRENT_TEST"] = current_test

    def execute_cell_input(self, cell_input: str, allow_stdin: bool | None = None) -> str:
        # Store history, unlike nbval. Without history, a final semicolon doesn't hide the result.
        return self.kc.execute(cell_input, allow_stdin=allow_stdin, stop_on_error=False)

    def await_reply(self, msg_id: str, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while True:
            try:
                return super().await_reply(msg_id, timeout=1)
            except Empty:
                if not self.is_alive():
                    raise RuntimeError("the kernel died") from None
                if time.monotonic() > deadline:
                    raise

    def stop(self) -> None:
        # nbval's own `stop` kills the kernel's whole process group, including the resource tracker
        # that would have unlinked the kernel's semaphores. So ask the kernel to exit instead.
        self.kc.stop_channels()
        self.km.shutdown_kernel(now=False)


nbval.plugin.RunningKernel = LearnersKernel
nbval.kernel.KernelManager = PrivateSockets


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, IPyNbCell):
            item.output_timeout = IDLE_TIMEOUT


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    yield
    if isinstance(item, IPyNbCell):
        solved = os.environ.get("DLTUTOR_STRICT") == "1"
        for promise in broken_promises(item.cell, item.test_outputs, solved=solved):
            item.raise_cell_error(f"cell {item.cell.id}: {promise}")
