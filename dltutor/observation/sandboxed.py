"""Inside the sandbox: a fork of the kernel becomes a process of its own, and does some work."""

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

_FILE: Final = 512 << 20  # bytes that one file may have


class Folders(NamedTuple):
    """The folders of a sandboxed process.

    Args:
        own: For what we write about it.
        temporary: For its temporary files.
        empty: Whether it finds itself in an empty one.
    """

    own: str
    temporary: str
    empty: bool


def sandboxed_process(
    work: Callable[[Callable[[], None]], Any],
    guard: int,
    folders: Folders,
    say: int,
    words: int,
) -> NoReturn:
    """Be the main process of some work: do it, say what it returned, end.

    Args:
        work: As `sandbox.run` takes it.
        guard: The pid of the parent.
        folders: Where it is, and where its files go.
        say: The descriptor to say things on, one line of JSON each.
        words: The descriptor that stdout and stderr go to.
    """
    processes.die_with_parent(guard)
    processes.adopt_orphans(True)
    _streams(words)
    _limits()
    _own_multiprocessing()
    _own_folders(folders)
    torch.set_num_threads(1)  # OpenMP's other threads are not in a fork, and it would wait for them
    # A grader asks for as many workers as it needs, whatever this machine has.
    warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
    answer_when_asked(folders.own)
    tell(say, {"result": work(lambda: tell(say, "running"))})
    os._exit(0)


def tell(say: int, thing: object) -> None:
    """Say one thing to the kernel, as a line of JSON."""
    line = json.dumps(thing).encode() + b"\n"
    while line:
        line = line[os.write(say, line) :]


def _streams(words: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(words, 1)
    os.dup2(words, 2)
    os.close(nothing)
    os.close(words)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - the process's own, to its end
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    builtins.input = _no_input  # a kernel's would ask the browser


def _no_input(prompt: object = "") -> str:
    raise EOFError("input() has nobody to answer it here: this runs in a process of its own")


def _limits() -> None:
    signal.set_wakeup_fd(-1)  # the kernel's event loop listens there
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.disable()  # Jupyter and pytest turn it on; a death here is nothing new
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(ValueError, OSError):  # a lower limit is there already
        resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE, _FILE))


def _own_multiprocessing() -> None:
    # As multiprocessing does in a process that it forks itself, but this one stays a main process.
    process: Any = multiprocessing.process
    process._children.clear()  # the kernel's; to wait for them would fail
    process._current_process._config.pop("tempdir", None)
    helpers: Any = util
    helpers._finalizer_registry.clear()
    helpers._run_after_forkers()
    server: Any = forkserver._forkserver
    server._forkserver_address = server._forkserver_alive_fd = server._forkserver_pid = None
    tracker: Any = resource_tracker._resource_tracker
    tracker._fd = tracker._pid = None
    # `%reset -f` takes it from a notebook, and to start a process by spawn one reads it.
    main: Any = sys.modules["__main__"]
    main.__spec__ = getattr(main, "__spec__", None)


def _own_folders(folders: Folders) -> None:
    # Temporary files, and the folder where an answer finds itself: an empty one. What it removes or
    # writes by a bare name is not the learner's, whose modules can still be imported.
    tempfile.tempdir = os.environ["TMPDIR"] = folders.temporary
    sys.path[:] = [os.path.abspath(path) for path in sys.path]
    if folders.empty:
        os.chdir(tempfile.mkdtemp())
