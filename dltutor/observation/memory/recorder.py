"""The Recorder: starts the helper program, takes its samples, hands them on, ends it."""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from dltutor.observation.memory.collector import Collector
from dltutor.observation.memory.moments import Moment
from dltutor.observation.memory.process_curves import Bounds
from dltutor.observation.memory.timeline import Timeline

_SAMPLER: Final = Path(__file__).with_name("sampler.py")
_SELDOM: Final = 10.0  # seconds between two readings of USS and PSS if nobody looks, at least
_LAST_SAMPLE: Final = 3.0  # seconds that stop() waits for it
_KILLED: Final = 5.0  # seconds that it waits for the killed helper to be gone

_running: set[Recorder] = set()


class Recorder:
    """Records the memory of a process and of all that descend from it, until it is stopped.

    The sampling is done by a helper process: it needs no lock and no time of this one. A thread
    of this process only takes what the helper writes. It holds no lock that a forked worker could
    need, and a forked worker keeps nothing of it.

    Args:
        pid: The process to observe; None for this one.
        period: Seconds between two samples of what is cheap to read: RSS, minor faults, threads,
            descriptors, `/dev/shm`.
        memory_period: Seconds between two samples of USS and PSS, at least.
        memory_budget: The part of a core that the helper may use: the larger the processes, the
            more seldom USS and PSS are read. The last sample has them in any case.
        often: Whether somebody looks at USS and PSS: the first sample has them, too, and in the
            first 10 seconds the helper may use 15 % of a core, so that short runs are seen. If
            not, they are read when workers have been started, and at most every 10 seconds.
        listeners: Each is called with every Moment, in the thread. One that raises is called no
            more; the timeline's notes say so.
        roles: Asked, in the thread, for the role of each process that has none so far.
        proc: Where `/proc` is; where it is not, psutil stands in.
        mark: What the helper ends if this process is killed: all that carries this mark (see
            `dltutor.system.marks`); 0 for nothing.
        folder: What it removes then, or "".
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

        Where it cannot be started the run goes on unrecorded; the timeline's notes say why.
        """
        if self._started:
            raise RuntimeError("a Recorder records once: make another one")
        self._started = time.monotonic()
        self._owner = os.getpid()
        try:
            self._start_helper()
            self._reader.start()
        except (OSError, RuntimeError) as error:  # no descriptor, process or thread to be had
            self._notes.append(f"the memory sampler could not be started: {error}")
            self._end_helper()
        except BaseException:
            self._end_helper()
            raise

    def name(self, pid: int, role: str) -> None:
        """Say which role a process has, such as W0; it is sampled soon."""
        self._collector.names[pid] = role
        self._tell(b"now\n")

    def died(self, pid: int, how: str) -> None:
        """Say that a process did not end as it should, and how: "killed by SIGKILL"."""
        self._collector.deaths[pid] = how

    def stop(self) -> Timeline:
        """Take a last sample, end the helper, and return what was recorded. Never raises.

        It can be called again, and then returns the same timeline.
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
            # Its own session: Stop, which interrupts the whole process group, does not reach it.
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
            self._helper.kill()  # it has told all that it will tell
            with suppress(subprocess.TimeoutExpired):
                self._helper.wait(_KILLED)
        if not self._reader.is_alive():  # else the thread closes it
            self._close_from_helper()
        _running.discard(self)

    def _tell(self, word: bytes) -> None:
        if self._to_helper >= 0:
            with suppress(OSError):  # it is dead, or has as much to read already
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
        """Whether this was the last line."""
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
            except Exception as error:  # theirs, and no reason to stop recording
                self._listeners.remove(listener)
                self._notes.append(f"a listener raised {type(error).__name__}: {error}")
        return bool(line["last"])

    # Forgotten before it is closed: a fork may come in between, and its child closes it, too.
    def _close_to_helper(self) -> None:
        pipe, self._to_helper = self._to_helper, -1
        _close(pipe)

    def _close_from_helper(self) -> None:
        pipe, self._from_helper = self._from_helper, -1
        _close(pipe)


def _let_go() -> None:
    # A worker that kept the pipes would keep the helper waiting, and count two descriptors more.
    for recorder in _running:
        recorder._close_to_helper()
        recorder._close_from_helper()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


def _close(pipe: int) -> None:
    if pipe >= 0:
        os.close(pipe)
