"""Define the Recorder, which starts the helper process, collects its samples, and ends it."""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from dltutor.observation.memory.collector import Collector
from dltutor.observation.memory.moments import Moment
from dltutor.observation.memory.process_curves import Bounds
from dltutor.observation.memory.timeline import Timeline

_SAMPLER: Final = Path(__file__).with_name("sampler.py")
_SELDOM: Final = 10.0  # the fewest seconds between two readings of USS and PSS without `often`
_LAST_SAMPLE: Final = 3.0  # the most seconds that stop() waits for the last sample
_KILLED: Final = 5.0  # the most seconds that stop() waits for the killed helper to end

_running: set[Recorder] = set()


class Recorder:
    """A recorder for the memory of a process and all its descendants.

    A helper process does the sampling, so sampling needs no lock and no time from this process. A
    thread in this process turns what the helper writes into Moments. The thread holds no lock that
    a forked worker could need, and a forked worker closes its copies of the pipes.

    Args:
        pid: The process to observe. If None, it's this process.
        period: Seconds between two samples of the figures that are cheap to read: RSS, minor
            faults, threads, descriptors, `/dev/shm`.
        memory_period: The fewest seconds between two samples of USS and PSS, unless processes have
            started in between. Without `often`, it's at least 10 s.
        memory_budget: The fraction of a core that the helper may use. The larger the processes are,
            the less often the helper reads USS and PSS, except for the last sample, which always
            has both.
        often: Whether to read USS and PSS as often as the budget allows. If so, the first sample
            has both, and in the first 10 s the helper may use 15 percent of a core, so that short
            runs get readings. Otherwise the helper reads both after workers have started, and apart
            from that at most every `memory_period`.
        listeners: Functions to call, in the thread, with every Moment. After a function has raised
            an exception, the thread doesn't call it anymore, and the timeline's notes say so.
        roles: A function to call, in the thread, with the pid of each process that has no role. The
            function returns the role, or None.
        proc: Where `/proc` is mounted. If there is no `/proc`, psutil replaces it.
        mark: If not 0, and this process is killed, the helper ends every process that carries this
            mark (see `dltutor.system.marks`).
        folder: The folder that the helper removes after it has ended the processes with the mark.

    Attributes:
        batches: How many batches have been delivered so far. The caller sets this number.
    """

    def __init__(
        self,
        *,
        pid: int | None = None,
        period: float = 0.25,
        memory_period: float = 0.5,
        memory_budget: float = 0.01,
        often: bool = True,
        listeners: Sequence[Callable[[Moment], None]] = (),
        roles: Callable[[int], str | None] | None = None,
        proc: str = "/proc",
        mark: int = 0,
        folder: str = "",
    ) -> None:
        memory_period = memory_period if often else max(memory_period, _SELDOM)
        self.batches = 0
        self._pid = os.getpid() if pid is None else pid
        self._options = {
            "pid": self._pid,
            "period": period,
            "memory_period": memory_period,
            "memory_budget": memory_budget,
            "often": often,
            "proc": proc,
            "mark": mark,
            "folder": folder,
            "path": [str(folder) for folder in sys.path],
        }
        self._listeners = list(listeners)
        self._collector = Collector(self._pid, memory_period, roles)
        self._notes: list[str] = []
        self._owner = 0
        self._started = 0.0
        self._ended = False
        self._helper: subprocess.Popen[bytes] | None = None
        self._reader = threading.Thread(target=self._read, name="dltutor-recorder", daemon=True)
        self._to_helper = self._from_helper = -1
        self._timeline: Timeline | None = None

    def start(self) -> None:
        """Start the helper, without waiting for its first sample.

        If the helper can't start, the timeline has no samples, and its notes say why.

        Raises:
            RuntimeError: This Recorder was started before.
        """
        if self._started:
            raise RuntimeError("a Recorder records only once, so make a new one")
        self._started = time.monotonic()
        self._owner = os.getpid()
        try:
            self._start_helper()
            self._reader.start()
        except (OSError, RuntimeError) as error:  # we're out of descriptors, processes, or threads
            self._notes.append(f"the memory sampler couldn't be started: {error}")
            self._end_helper()
        except BaseException:
            self._end_helper()
            raise

    def name(self, pid: int, role: str) -> None:
        """Set the role of a process, such as W0, and have the helper take a sample soon."""
        self._collector.names[pid] = role
        self._tell(b"now\n")

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Leave processes without a role out of the Moments while the block starts workers.

        The timeline still has these processes.
        """
        self._collector.starting += 1
        try:
            yield
        finally:
            self._collector.starting -= 1

    def died(self, pid: int, how: str) -> None:
        """Record how a process died, such as "killed by SIGKILL"."""
        self._collector.deaths[pid] = how

    def stop(self) -> Timeline:
        """Take a last sample, end the helper, and return the record, even if the helper is dead.

        Further calls return the same timeline.
        """
        if self._timeline is None:
            try:
                self._tell(b"end\n")
                if self._reader.is_alive():
                    self._reader.join(_LAST_SAMPLE)
                if self._reader.is_alive():
                    self._notes.append(f"the last sample took more than {_LAST_SAMPLE:g} s")
            finally:
                self._end_helper()
            self._timeline = self._collector.timeline(self._notes)
        return self._timeline

    def _start_helper(self) -> None:
        pipes: list[int] = []
        try:
            pipes += os.pipe()
            pipes += os.pipe()
            theirs_in, self._to_helper, self._from_helper, theirs_out = pipes
            os.set_blocking(self._to_helper, False)
            _running.add(self)
            options = {**self._options, "parent": self._owner, "origin": self._started}
            # Start the helper in its own session, because Stop interrupts the whole process group.
            self._helper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SAMPLER), marshal.dumps(options).hex()],
                stdin=theirs_in,
                stdout=theirs_out,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            for pipe in pipes:
                if pipe not in (self._to_helper, self._from_helper):
                    os.close(pipe)
        helpers = {each._helper.pid for each in _running if each._helper is not None}
        for recorder in _running:
            recorder._collector.hidden |= helpers

    def _end_helper(self) -> None:
        self._ended = True
        self._close_to_helper()
        if self._helper is not None and self._owner == os.getpid():
            self._helper.kill()  # the helper has sent its last sample, or took too long
            with suppress(subprocess.TimeoutExpired):
                self._helper.wait(_KILLED)
        if not self._reader.is_alive():  # otherwise the thread closes the pipe
            self._close_from_helper()
        _running.discard(self)

    def _tell(self, word: bytes) -> None:
        if self._to_helper >= 0:
            with suppress(OSError):  # the helper is dead, or its pipe is full
                os.write(self._to_helper, word)

    def _read(self) -> None:
        unread = b""
        try:
            while chunk := os.read(self._from_helper, 1 << 16):
                *lines, unread = (unread + chunk).split(b"\n")
                if any([self._take(marshal.loads(bytes.fromhex(line.decode()))) for line in lines]):
                    return
            if not self._ended:
                seconds = time.monotonic() - self._started
                self._notes.append(f"the memory sampler died after {seconds:.1f} s")
        finally:
            self._close_from_helper()

    def _take(self, line: dict[str, Any]) -> bool:
        """Handle a line from the helper, and return whether it was the last line."""
        if "limits" in line:
            self._collector.source = line["source"]
            self._collector.limits = Bounds(**line["limits"])
            return False
        if "error" in line:
            self._notes.append(f"the memory sampler stopped: {line['error']}")
            return True
        moment = self._collector.add(line, self.batches)
        for listener in tuple(self._listeners):
            try:
                listener(moment)
            except Exception as error:  # an error in a listener isn't a reason to stop recording
                self._listeners.remove(listener)
                self._notes.append(f"a listener raised {type(error).__name__}: {error}")
        return bool(line["last"])

    # Forget the descriptor before closing it. Otherwise, after a fork in between, the child would
    # close the same number again.
    def _close_to_helper(self) -> None:
        pipe, self._to_helper = self._to_helper, -1
        _close(pipe)

    def _close_from_helper(self) -> None:
        pipe, self._from_helper = self._from_helper, -1
        _close(pipe)


def _close_in_child() -> None:
    # A worker that kept the pipes would keep the helper waiting and have two more descriptors.
    for recorder in _running:
        recorder._close_to_helper()
        recorder._close_from_helper()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


def _close(pipe: int) -> None:
    if pipe >= 0:
        os.close(pipe)
