"""A pytest plugin: a temporary folder of their own for the tests, in which nothing may be left.

What a run leaves there it would leave in anybody's `/tmp`. Looked at once the test processes are
gone, since some of it is theirs until they end; so a run without `-n` doesn't look.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from multiprocessing.util import Finalize
from pathlib import Path

import pytest

OWN = "DLTUTOR_TESTS_TMP"
"""The environment variable with the folder, for the processes that `-n` starts."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if OWN not in os.environ:
        # pytest's own folders stay where they were: with them, paths of sockets would be too long.
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
        os.environ[OWN] = tempfile.mkdtemp(prefix="dlt-")
        # After multiprocessing has removed its own from there.
        Finalize(None, shutil.rmtree, [os.environ[OWN]], {"ignore_errors": True}, exitpriority=-999)
    folder = Path(os.environ[OWN], os.environ.get("PYTEST_XDIST_WORKER", "all"))
    folder.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    # Which test made what: the name of the folder's entry, in a line of its own.
    before = {*os.listdir(tempfile.gettempdir())}
    result = yield
    if made := {*os.listdir(tempfile.gettempdir())} - before:
        with Path(os.environ[OWN], "made").open("a") as file:
            file.writelines(f"{name} {item.nodeid}\n" for name in made)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    result = yield  # xdist waits here for the processes
    if os.environ.get("PYTEST_XDIST_WORKER") or not session.config.getoption("numprocesses", None):
        return result
    folder = Path(os.environ[OWN])
    made = (folder / "made").read_text() if (folder / "made").exists() else ""
    makers = dict(line.split(" ", 1) for line in made.splitlines())
    # The folder of sockets of a worker stays wherever it's killed, by torch too, which waits for it
    # for 5 s: what `observe` does about these is tested by itself.
    if left := sorted(set(folder.glob("*/*")) - set(folder.glob("*/pymp-*"))):
        lines = [f"  {path.name}, since {makers.get(path.name, 'no test')}" for path in left]
        print("\nleft among temporary files:", *lines, sep="\n")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return result
