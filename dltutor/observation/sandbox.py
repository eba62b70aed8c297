"""Run code in a process that may die, hang, or do harm, while the notebook's process carries on.

    notebook  ->  guard  ->  the code's process  ->  workers, and whatever else the code starts

The guard is the parent of the code's process, so if the code sends a signal to its parent, the
signal doesn't reach the notebook. Both processes are forks, so the code finds the notebook's
modules, classes, and data, but only one thread. The notebook waits and reads messages from both
processes. At the end, or at a limit, the notebook kills both and everything they started. It finds
even a process in another session, because every process inherits the guard's mark (see
`dltutor.system.marks`). If the notebook itself is killed, the guard ends the other processes and
removes their files.

The course's checks run the learner's answers here, and the doctor runs its experiments here.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import selectors
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from dltutor.observation import own_files, own_mappings, stacks
from dltutor.observation.cut_connections import CutConnections
from dltutor.observation.interrupts import interrupts_held
from dltutor.observation.sandboxed import Folders, sandboxed_process, send
from dltutor.observation.time_limits import deadline
from dltutor.system import marks, processes
from dltutor.system.process_memory import pss, reader
from dltutor.tables import MB

LOOKING: Final = 20.0  # the most seconds before the timed part, while a check looks at the answer
MEMORY: Final = 1.2 * 1024 * MB  # the most memory for all processes in a run, in bytes (PSS)
PROCESSES: Final = 256  # the most processes in a run
_TICK: Final = 0.05  # the most seconds between two checks of the limits
_NOTEBOOK_CHECK: Final = 0.5  # the most seconds between two checks that the notebook is alive
_STEP: Final = 50 * MB  # bytes (RSS) of growth before re-reading PSS, which is expensive
_KEPT: Final = 20_000  # the most characters to keep from the end of the output
_HANDLERS: Final = 2.0  # the most seconds for functions that libraries run at a fork

_at_fork = deadline(_HANDLERS)
# The deadline is for functions that run before a fork, so turn it off after those that a learner's
# cells register. Python runs the functions in reverse order, and the cells register theirs later
# than we do, so ours runs after them.
os.register_at_fork(before=lambda: _at_fork.stop())


@dataclass
class Ended:
    """The result of a sandboxed run, and how the run's processes ended.

    Args:
        result: What the code returned, or None if it didn't return.
        status: The exit code of the code's process, negative for a signal, if the process ended
            without a result before the sandbox ended it. Otherwise None.
        guard: If the guard itself failed or was killed, its exit code. Otherwise None.
        stopped: Why the sandbox ended the code: "limit" (for time), "memory", "processes",
            "handlers" (a function that was registered to run at a fork didn't return), or "" if the
            code ended by itself.
        stood: Where the code was at the time limit, as a sentence after a space, or "" if unknown.
        printed: The end of what the code and its workers wrote to stdout and stderr.
        used: The descriptors of the connections that the code used even though they were cut.
    """

    result: Any = None
    status: int | None = None
    guard: int | None = None
    stopped: str = ""
    stood: str = ""
    printed: str = ""
    used: tuple[int, ...] = ()


Work = Callable[[Callable[[], None]], Any]


def run(
    work: Work,
    *,
    at_most: float,
    announce: Callable[[], None] = lambda: None,
    memory: float | None = None,
    own_folder: bool = True,
    temporary: str = "",
    before_fork: Callable[[], object] = lambda: None,
    cut: bool = False,
) -> Ended:
    """Call a function in a separate process, under limits on time, memory, and processes.

    Args:
        work: The function, which takes a function to call when its timed part begins, and returns
            something that JSON can hold.
        at_most: The time limit in seconds, from the moment when the timed part begins. The part
            before that may take LOOKING seconds.
        announce: A function to call in this process when the timed part begins.
        memory: The most memory for all processes, in bytes (PSS). If None, it's MEMORY.
        own_folder: Whether to run in an empty folder, where files with relative paths do no harm.
        temporary: A folder for temporary files, which the caller removes. If "", the sandbox makes
            a folder and removes it afterward.
        before_fork: A function to call right before this process forks.
        cut: Whether to cut this process's connections in the fork (see CutConnections).

    Returns:
        What the function returned, and how its process ended.

    Raises:
        KeyboardInterrupt: You pressed Stop. By then, all processes are gone.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # a program without a terminal may have none
            stream.flush()
    with interrupts_held() as interrupts, CutConnections(cut) as connections:
        folder = tempfile.mkdtemp(prefix="dlt-")  # short, because a socket's path can't be long
        folders = Folders(folder, temporary or folder, own_folder)
        run = _Run(work, folders, at_most, announce, MEMORY if memory is None else memory)
        try:
            run.start(before_fork, connections)
            try:
                with interrupts.let_through():
                    run.wait()
            finally:
                run.close()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        run.ended.used = connections.used()
    return run.ended


def _fork() -> int:
    # Any library may have registered a function to run at a fork, and the function may wait
    # forever. After the deadline has interrupted such a function, Python carries on with the fork.
    global _at_fork
    _at_fork = deadline(_HANDLERS)
    with warnings.catch_warnings(), _at_fork:
        # Python 3.12 and later, and JAX, warn that a fork may wait forever for a lock of another
        # thread. Ignore the warnings, because the time limit ends such a wait.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        return processes.fork()


def _pipe() -> tuple[int, int]:
    # Make a pipe without the descriptors 0 to 2. If stdin is closed, os.pipe() would use 0, which
    # the sandboxed process opens again as its stdin.
    near, far = os.pipe()
    pair = fcntl.fcntl(near, fcntl.F_DUPFD_CLOEXEC, 3), fcntl.fcntl(far, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(near)
    os.close(far)
    return pair


def _wait(pid: int, notebook: int) -> int | None:
    # Return the wait status of the code's process, or None if the notebook's process is gone.
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    while os.getppid() == notebook:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended == pid:
            return status
        if not ended:  # any other process that ended was an orphan that the code left
            select.select([woken], [], [], _NOTEBOOK_CHECK)
            with suppress(BlockingIOError):
                os.read(woken, 4096)
    return None


@dataclass
class _Run:
    """The notebook's view of one run: its processes, its pipes, and the result so far."""

    work: Work
    folders: Folders
    at_most: float
    announce: Callable[[], None]
    memory: float
    mark: int = field(default_factory=marks.new)
    ended: Ended = field(default_factory=Ended)
    guard: processes.Process = field(init=False)
    ends: tuple[int, ...] = ()  # our ends of three pipes: messages, exit status, output
    positions: dict[int, int] = field(init=False)  # descriptor -> position in its file at the fork
    shared: list[int] = field(default_factory=list)  # descriptors whose positions the fork shares
    until: float = 0.0
    rss_at_last_pss: float = 0.0
    has_result: bool = False

    def start(self, before_fork: Callable[[], object], connections: CutConnections) -> None:
        """Fork the guard, which forks the code's process."""
        notebook = os.getpid()
        self.ends, far = zip(*(_pipe() for _ in range(3)), strict=True)
        self.positions = own_files.positions()
        before_fork()
        guard = _fork()
        if guard == 0:
            try:
                for end in self.ends:
                    os.close(end)
                if not _at_fork.passed:
                    marks.put(self.mark)
                    connections.cut()
                    self._guard(notebook, *far)
            finally:
                os._exit(1)
        for end in far:
            os.close(end)
        self.guard = processes.known(guard)

    def _guard(self, notebook: int, messages: int, status_to: int, output: int) -> NoReturn:
        os.setsid()
        processes.adopt_orphans(True)
        send(messages, {"shared": own_files.open_again()})
        own_mappings.make_private()
        me = os.getpid()
        pid = processes.fork()
        if pid == 0:
            try:
                os.close(status_to)
                sandboxed_process(self.work, me, self.folders, messages, output)
            finally:
                os._exit(1)
        os.close(messages)
        os.close(output)
        os.write(status_to, b"%d " % pid)
        status = _wait(pid, notebook)
        if status is not None:
            os.write(status_to, b"%d" % os.waitstatus_to_exitcode(status))
        processes.end_descendants(self.mark)
        if os.getppid() != notebook:
            for each in (self.folders.own, self.folders.temporary):
                shutil.rmtree(each, ignore_errors=True)
        os._exit(0)

    def wait(self) -> None:
        """Read messages until there is a result, the guard ends, or the code reaches a limit."""
        if _at_fork.passed:
            self.ended.stopped = "handlers"
            return
        messages, status, output = self.ends
        unread = numbers = b""
        self.until = time.monotonic() + LOOKING
        with selectors.DefaultSelector() as ready:
            for end in self.ends:
                ready.register(end, selectors.EVENT_READ)
            while not self.has_result and time.monotonic() < self.until:
                for key, _ in ready.select(_TICK):
                    got = os.read(key.fd, 1 << 16)
                    if key.fd == output:
                        self._print(got)
                    elif key.fd == messages:
                        *lines, unread = (unread + got).split(b"\n")
                        for line in lines:
                            self._take_message(line)
                    else:
                        numbers += got
                    if not got:
                        ready.unregister(key.fd)
                    if key.fd == status and not got:
                        self._take_status(numbers)
                        return
                self.ended.stopped = self._limit_reached()
                if self.ended.stopped:
                    return
        if not self.has_result:
            self.ended.stopped = "limit"
            frames = stacks.ask(self.folders.own, int(numbers.split()[0])) if numbers else None
            self.ended.stood = f" It was at {frames[0]}." if frames else ""

    def close(self) -> None:
        """End all processes in the run, and read the rest of their output.

        In an open file that shared its position with the fork, put the position back.
        """
        processes.end(self.guard, mark=self.mark)
        own_files.put_back({each: self.positions[each] for each in self.shared})
        output = self.ends[2]
        os.set_blocking(output, False)
        with suppress(OSError):
            while got := os.read(output, 1 << 16):
                self._print(got)
        for end in self.ends:
            os.close(end)

    def _take_message(self, line: bytes) -> None:
        with suppress(ValueError, KeyError, TypeError):  # the code may write anything to this pipe
            message = json.loads(line)
            if message == "running":
                self.until = time.monotonic() + self.at_most
                self.announce()
            elif "shared" in message:
                self.shared = [each for each in message["shared"] if each in self.positions]
            else:
                self.ended.result = message["result"]
                self.has_result = True

    def _take_status(self, numbers: bytes) -> None:
        words = numbers.split()  # the pid, and the exit code if the process has ended
        self.ended.status = int(words[1]) if len(words) > 1 else None
        with suppress(ChildProcessError):
            code = os.waitstatus_to_exitcode(os.waitpid(self.guard.pid, 0)[1])
            self.ended.guard = code or None

    def _print(self, got: bytes) -> None:
        text = self.ended.printed + got.decode(errors="replace")
        self.ended.printed = text[-_KEPT:]

    def _limit_reached(self) -> str:
        figures = reader()
        pids = processes.descendants(self.guard.pid)
        if len(pids) > PROCESSES:
            return "processes"
        # RSS counts a shared page once for each process, so the sum is an upper bound for PSS.
        found = [figures.process(pid) for pid in pids]
        rss = sum(process[1]["rss"] or 0 for process in found if process)
        if rss < max(self.memory, self.rss_at_last_pss + _STEP):
            return ""
        self.rss_at_last_pss = rss
        return "memory" if sum(map(pss, pids)) > self.memory else ""
