"""Turn a fork of the notebook's process into an independent process that runs sandboxed code."""

from __future__ import annotations

import builtins
import faulthandler
import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import forkserver, resource_tracker, util
from typing import Any, Final, NamedTuple, NoReturn

import torch

from dltutor.observation.stacks import answer_when_asked
from dltutor.system import processes

_FILE: Final = 512 << 20  # the most bytes that sandboxed code may write to one file


class Folders(NamedTuple):
    """The folders for a sandboxed process.

    Args:
        own: The folder for our files about the process, such as its stacks.
        temporary: The folder for the process's temporary files.
        empty: Whether to run the process in an empty folder.
    """

    own: str
    temporary: str
    empty: bool


def sandboxed_process(
    work: Callable[[Callable[[], None]], Any],
    guard: int,
    folders: Folders,
    messages: int,
    output: int,
) -> NoReturn:
    """Set this fork up as a main process of its own, call `work`, send the result, and exit.

    `guard` is the pid of this process's parent. The descriptor `messages` takes messages, each a
    line of JSON, and the descriptor `output` takes stdout and stderr.
    """
    processes.die_with_parent(guard)
    processes.adopt_orphans(True)
    _streams(output)
    _limits()
    _own_multiprocessing()
    _own_folders(folders)
    torch.set_num_threads(1)  # OpenMP would wait for its other threads, which a fork doesn't have
    # Don't warn if the code asks for more workers than this machine has cores. The checks and the
    # doctor choose how many workers they need.
    warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
    answer_when_asked(folders.own)
    send(messages, {"result": work(lambda: send(messages, "running"))})
    os._exit(0)


def send(messages: int, message: object) -> None:
    """Send a message to the notebook's process, as a line of JSON."""
    line = json.dumps(message).encode() + b"\n"
    while line:
        line = line[os.write(messages, line) :]


def _streams(output: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    if nothing > 0:  # it's 0 if stdin was closed
        os.close(nothing)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - open until the process ends
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    builtins.input = _no_input  # the notebook's input() would ask the browser


def _no_input(prompt: object = "") -> str:
    raise EOFError("input() can't get an answer here, because this code runs in a separate process")


def _limits() -> None:
    signal.set_wakeup_fd(-1)  # the notebook's event loop listens to the inherited descriptor
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # or no child would have an exit code
    faulthandler.disable()  # Jupyter and pytest turn faulthandler on, but a crash here is expected
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(ValueError, OSError):  # there is a lower limit already
        resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE, _FILE))


def _own_multiprocessing() -> None:
    # Do what multiprocessing does in a process that it forks, but stay a main process.
    process: Any = multiprocessing.process
    process._children.clear()  # the notebook's children, which only the notebook can reap
    process._current_process._config.pop("tempdir", None)
    helpers: Any = util
    helpers._finalizer_registry.clear()
    helpers._run_after_forkers()
    server: Any = forkserver._forkserver
    server._forkserver_address = server._forkserver_alive_fd = server._forkserver_pid = None
    tracker: Any = resource_tracker._resource_tracker
    tracker._fd = tracker._pid = None
    # In a notebook, `%reset -f` removes `__spec__`, but spawn reads it.
    main: Any = sys.modules["__main__"]
    main.__spec__ = getattr(main, "__spec__", None)


def _own_folders(folders: Folders) -> None:
    # In an empty folder, code that removes or writes files by a relative path doesn't touch the
    # learner's files. Absolute paths in `sys.path` keep the learner's modules importable.
    tempfile.tempdir = os.environ["TMPDIR"] = folders.temporary
    sys.path[:] = [os.path.abspath(path) for path in sys.path]
    if folders.empty:
        os.chdir(tempfile.mkdtemp())
