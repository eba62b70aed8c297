"""Give the tests their own temporary folder, and fail if they leave anything in it.

Without this pytest plugin, tests would leave files in the user's `/tmp`. With `-n`, the plugin
checks after the processes that ran the tests have exited, because they remove some files only when
they exit. Without `-n`, the process that ran the tests is still alive then, so the plugin doesn't
check.
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
        # Keep pytest's folders out of ours, because paths of sockets in them would be too long.
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
        os.environ[OWN] = tempfile.mkdtemp(prefix="dlt-")
        # Remove the folder after multiprocessing has removed its own files from it.
        Finalize(None, shutil.rmtree, [os.environ[OWN]], {"ignore_errors": True}, exitpriority=-999)
    folder = Path(os.environ[OWN], os.environ.get("PYTEST_XDIST_WORKER", "all"))
    folder.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    # Record which test made which entry of the folder, one per line.
    before = {*os.listdir(tempfile.gettempdir())}
    result = yield
    if made := {*os.listdir(tempfile.gettempdir())} - before:
        with Path(os.environ[OWN], "made").open("a") as file:
            file.writelines(f"{name} {item.nodeid}\n" for name in made)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    result = yield  # xdist waits here until its test processes exit
    if os.environ.get("PYTEST_XDIST_WORKER") or not session.config.getoption("numprocesses", None):
        return result
    folder = Path(os.environ[OWN])
    made = (folder / "made").read_text() if (folder / "made").exists() else ""
    makers = dict(line.split(" ", 1) for line in made.splitlines())
    # Allow the pymp-* folders of sockets that killed workers leave behind, because torch itself
    # kills workers that don't exit within 5 s. Also allow the cache of torch's compiler, which
    # Lightning has torch make.
    allowed = {*folder.glob("*/pymp-*"), *folder.glob("*/torchinductor_*")}
    # A process that needs its first temporary file tries the folder with a file that has four bytes
    # (`tempfile._get_default_tempdir`). If the process is killed right then, the file stays.
    allowed |= {
        path
        for path in folder.glob("*/????????")
        if path.is_file() and path.read_bytes() in (b"", b"blat")
    }
    if left := sorted(set(folder.glob("*/*")) - allowed):
        lines = [
            f"  {path.name}{'/' * path.is_dir()}, {path.lstat().st_size} bytes, "
            f"since {makers.get(path.name, 'no test')}"
            for path in left
        ]
        print("\nleft among temporary files:", *lines, sep="\n")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return result
