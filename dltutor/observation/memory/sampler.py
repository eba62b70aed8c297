"""Run the helper process, which samples a process tree and writes a line for each sample.

The helper runs as `python -I -S sampler.py OPTIONS`, with only the standard library, so that it
stays small and shares no lock with the processes that it observes. On standard input, the helper
gets "now" (sample soon) or "end" (take a last, full sample). The helper ends when its input closes
or its parent ends. If the parent was killed, the helper first ends the workers and removes their
files.

The options and the lines are marshaled and hex-encoded. Importing json would take longer than the
rest of the helper's start, and take time from the workers, which start at the same moment.
"""

from __future__ import annotations

import marshal
import os
import select
import sys
import time

TYPE_CHECKING = False  # importing typing would take as long as the rest of the helper's start
if TYPE_CHECKING:
    import signal
    from typing import Any

    from dltutor.system.process_memory import Figures, Proc, Psutil
else:
    import _signal as signal  # `signal` imports enum, which takes a third of the helper's start

_SOON = 0.05  # the fewest seconds between two samples on request
_NEARLY = 0.9  # a full sample is due after this fraction of `memory_period`
_AT_ONCE = 0.02  # the most seconds to save up for full samples, and the savings at the start
_EARLY = 10.0  # seconds at the start with a larger budget, so that short runs get full samples
_EARLY_BUDGET = 0.15  # the fraction of a core for those seconds, for two 60 ms readings a second
_AWAKE = 1.0  # the most seconds between two checks that the parent is still alive
_DYING = 5.0  # seconds to wait for a parent to end after it has closed its pipes
_FLUSH = 2.0  # seconds to wait for the parent to read the last line


class Sampler:
    """A sampler of the memory and other figures of one process and all its descendants.

    A full sample also has each process's USS and PSS. Cheap samples count against `memory_budget`,
    a fraction of a core, but the budget never prevents one. At least half of the budget is for full
    samples.

    If `often`, the first sample is full, and the budget is larger for the first 10 s. Otherwise the
    sampler takes the first full sample when there are workers, or after `memory_period`, and the
    time that observed processes may have to wait counts against the budget.
    """

    def __init__(
        self,
        reader: Proc | Psutil,
        pid: int,
        memory_period: float,
        memory_budget: float,
        often: bool = True,
    ) -> None:
        self._reader = reader
        self._memory_period = memory_period
        self._memory_budget = memory_budget
        self._early_budget = _EARLY_BUDGET if often else 0.0
        # While Linux adds up a process's pages, the process can't map or unmap memory. If no core
        # is idle, the process waits for longer than the CPU time that the reading takes. So without
        # `often`, count the time on the clock.
        self._spent = time.process_time if often else time.monotonic
        observed = reader.process(pid)
        self._known = {pid: observed[0]} if observed else {}  # pid -> when it started
        self._newcomers = False
        self._savings = _AT_ONCE
        self._began = self._saved_at = time.monotonic()
        self._last_full = float("-inf") if often else self._began
        self._used = time.process_time()

    def look(self, *, full: bool = False) -> dict[str, Any]:
        """Take a sample, which is full if `full` is True, or if a full sample is due.

        A full sample is due, if the budget isn't overdrawn, after `memory_period`, and also when an
        earlier sample found new processes and this sample finds no more.

        Returns:
            `processes` (pid -> cheap figures), `gone` (the pids that are gone since the last
            sample), and `memory` (pid -> USS and PSS, or None if the sample isn't full).
        """
        began = time.monotonic()
        living = self._living()
        self._save()
        known, self._known = self._known, {pid: start for pid, (start, _) in living.items()}
        gone = [pid for pid, start in known.items() if self._known.get(pid) != start]
        new = len(self._known) > len(known) - len(gone)
        all_there = self._newcomers and not new
        # Samples aren't exactly on time, so accept a sample that is a little early.
        due = all_there or began >= self._last_full + _NEARLY * self._memory_period
        full = full or (due and self._savings > 0)
        self._newcomers = new or (self._newcomers and not full)
        return {
            "processes": {pid: figures for pid, (_, figures) in living.items()},
            "gone": gone,
            "memory": self._memory(began) if full else None,
        }

    def _living(self) -> dict[int, tuple[float, Figures]]:
        living = {}
        for pid, start in self._known.items():
            figures = self._reader.process(pid)
            if figures and figures[0] == start:  # otherwise another process has the pid
                living[pid] = figures
        # Start from all known processes, because an orphaned worker isn't main's descendant.
        family = self._reader.descendants(list(living))
        for pid in sorted(family - living.keys() - {os.getpid()}):
            if figures := self._reader.process(pid):
                living[pid] = figures
        return living

    def _save(self) -> None:
        # The cheap samples use up a part of the budget, or all of it with 64 workers. So reserve
        # half of the budget for full samples.
        now, used = time.monotonic(), time.process_time()
        early = self._saved_at < self._began + _EARLY
        budget = max(self._memory_budget, self._early_budget if early else 0.0)
        given = budget * (now - self._saved_at)
        saved = max(given - (used - self._used), given / 2)
        self._savings = min(self._savings + saved, _AT_ONCE)
        self._saved_at, self._used = now, used

    def _memory(self, began: float) -> dict[int, Figures]:
        start = self._spent()
        memory = {pid: self._reader.memory(pid) for pid in self._known}
        self._savings -= self._spent() - start
        self._last_full, self._used = began, time.process_time()
        return {pid: figures for pid, figures in memory.items() if figures}


class Parent:
    """The connection to the parent process, over standard input and standard output."""

    def __init__(self, pid: int) -> None:
        self.done = False
        self._pid = pid
        self._unsent = b""
        os.set_blocking(1, False)  # so that a parent that doesn't read can't block us forever

    def alive(self) -> bool:
        # After the parent ends, its forks may still hold our input open.
        return os.getppid() == self._pid

    def was_killed(self) -> bool:
        """Return whether the parent is gone. If so, and it hasn't told us to end, it was killed.

        Wait up to 5 s for the parent to go, because a killed parent's pipes close a moment before
        the parent is gone. If the parent has told us to end, don't wait.
        """
        until = time.monotonic() + _DYING
        while self.alive() and not self.done and time.monotonic() < until:
            time.sleep(0.01)
        return not self.alive()

    def wait(self, seconds: float) -> str:
        """Wait for a message from the parent, and return "now", "end", or "" if there is none.

        Wait up to `seconds`, but at most 1 s. Return "gone" if the parent ended or closed its pipe.
        """
        writing = [1] if self._unsent else []
        ready, _, _ = select.select([0], writing, [], max(0, min(seconds, _AWAKE)))
        self._send()
        if not self.alive():
            return "gone"
        if not ready:
            return ""
        text = os.read(0, 4096)
        self.done = b"end" in text
        return "gone" if not text else "end" if self.done else "now"

    def has_unsent(self) -> bool:
        self._send()
        return bool(self._unsent)

    def tell(self, line: dict[str, Any]) -> None:
        self._unsent += marshal.dumps(line).hex().encode() + b"\n"
        self._send()

    def flush(self) -> None:
        until = time.monotonic() + _FLUSH
        while self.has_unsent() and self.alive() and time.monotonic() < until:
            select.select([], [1], [], 0.1)

    def _send(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(1, self._unsent) :]
        except BlockingIOError:
            pass


def main(options: dict[str, Any]) -> None:
    """Sample, with options from the Recorder, until the parent ends or tells us to end.

    If the options have a mark and the parent was killed, end the processes that carry the mark, and
    remove the parent's files.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = Parent(options["parent"])
    try:
        _sample(parent, options)
    except BrokenPipeError:
        pass  # the parent has closed its end
    except Exception as error:
        parent.tell({"error": f"{type(error).__name__}: {error}"})
        parent.flush()
    if options.get("mark") and parent.was_killed():
        _clean_up(options["mark"], options["folder"])


def _sample(parent: Parent, options: dict[str, Any]) -> None:
    # With -I, the package isn't on the path, and its `__init__` would import too much.
    sys.path += options["path"]
    package = sys.modules["dltutor"] = type(sys)("dltutor")
    package.__path__ = [os.path.abspath(f"{__file__}/../../..")]
    from dltutor.system import cgroup_files, process_memory

    pid, period = options["pid"], options["period"]
    reader = process_memory.reader(options["proc"])
    rates = options["memory_period"], options["memory_budget"], options["often"]
    sampler = Sampler(reader, pid, *rates)
    charged, limit = cgroup_files.memory(pid, proc=options["proc"])
    limits = {"machine": reader.total(), "cgroup": limit, "shm": process_memory.shared_memory()[1]}
    parent.tell({"source": reader.source, "limits": limits})
    due = last = time.monotonic()
    message = ""
    while message not in ("end", "gone"):
        message = parent.wait(due - time.monotonic())
        if message == "now":
            due = min(due, last + _SOON)
        if message == "end" or (message != "gone" and time.monotonic() >= due):
            due = max(due + period, time.monotonic())
            if message != "end" and parent.has_unsent():
                continue  # the parent is busy, so skip this sample
            line = sampler.look(full=message == "end")
            last = time.monotonic()
            line["seconds"] = last - options["origin"]
            line["last"] = message == "end"
            line["shm"] = process_memory.shared_memory()[0]
            line["available"] = reader.available()
            line["cgroup"] = cgroup_files.number(charged)
            parent.tell(line)
    if message == "end":
        parent.flush()


def _clean_up(mark: int, folder: str) -> None:
    # The observed process was killed, so it can't clean up. Import these modules only here, because
    # importing them would double the time that the helper takes to start.
    import shutil

    from dltutor.system import processes

    processes.end(mark=mark)
    # The folder has links to multiprocessing's temporary folders, which we remove, too.
    links = [entry.path for entry in os.scandir(folder) if entry.is_symlink()]
    for path in [*map(os.path.realpath, links), folder]:
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    main(marshal.loads(bytes.fromhex(sys.argv[1])))
