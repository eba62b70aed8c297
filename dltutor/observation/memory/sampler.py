"""The helper program: samples a process tree and writes a line for each sample.

It runs on its own, `python -I -S sampler.py OPTIONS`, with the standard library only, so that it
stays small and shares no lock with what it observes. Its standard input tells it "now" (a sample
soon) or "end" (a last, full one). A closed input ends it, and so does the end of its parent. If
the parent was killed, it ends the workers first and removes their files.
Its options and its lines are marshalled, in hexadecimal: importing json would take longer than all
the rest of its start, while the workers start beside it.
"""

from __future__ import annotations

import marshal
import os
import select
import sys
import time

TYPE_CHECKING = False  # importing typing would cost the helper as much as all the rest
if TYPE_CHECKING:
    import signal
    from typing import Any

    from dltutor.system.process_memory import Figures, Proc
    from dltutor.system.psutil_reader import Psutil
else:
    import _signal as signal  # what `signal` imports for its enums is a third of the start

_SOON = 0.05  # seconds between two samples that were asked for
_NEARLY = 0.9  # of the time between two full samples
_AT_ONCE = 0.02  # seconds that full samples may cost before they have to be saved up
_EARLY = 10.0  # seconds in which they may cost more: a short run is to be seen, too
_EARLY_BUDGET = 0.15  # of a core, then: twice a second also where a reading takes 60 ms
_AWAKE = 1.0  # seconds between two looks whether the parent still lives
_DYING = 5.0  # seconds for a parent that has closed its pipes to be gone
_FLUSH = 2.0  # seconds for the last line to be taken


class Sampler:
    """Samples one process and all that descend from it.

    Args:
        reader: Where the figures come from.
        pid: The process to observe.
        memory_period: Seconds between two full samples, at least.
        memory_budget: The part of a core that all samples together may cost.
        often: Whether a short run is to have many full samples: the first sample is one, and until
            `_EARLY` has passed they may cost more. Else the first is when there are workers, and
            what the observed processes may have to wait counts as if it were computed.
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
        # While the kernel adds up the pages of a process, that process cannot map or unmap memory.
        # Where no core is idle this takes longer than it computes.
        self._spent = time.process_time if often else time.monotonic
        observed = reader.process(pid)
        self._known = {pid: observed[0]} if observed else {}  # pid -> when it started
        self._newcomers = False
        self._savings = _AT_ONCE
        self._began = self._saved_at = time.monotonic()
        self._last_full = float("-inf") if often else self._began
        self._used = time.process_time()

    def look(self, *, full: bool = False) -> dict[str, Any]:
        """One sample: figures by pid, and the pids that are gone since the last one.

        It comes with USS and PSS when these are due: after `memory_period`, or at the second
        sight of new processes, when no more come; but not while the budget is overdrawn. `full`
        asks for them now.
        """
        began = time.monotonic()
        living = self._living()
        self._save()
        known, self._known = self._known, {pid: start for pid, (start, _) in living.items()}
        gone = [pid for pid, start in known.items() if self._known.get(pid) != start]
        new = len(self._known) > len(known) - len(gone)
        all_there = self._newcomers and not new
        # Samples do not come to the millisecond: one that is a little early will do.
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
            if figures and figures[0] == start:  # else another process has its pid by now
                living[pid] = figures
        # Asked of all that are known: a worker that lost its parent is nobody's descendant.
        family = self._reader.descendants(list(living))
        for pid in sorted(family - living.keys() - {os.getpid()}):
            if figures := self._reader.process(pid):
                living[pid] = figures
        return living

    def _save(self) -> None:
        # Of what the budget gives, the cheap samples have used some: all of it, with 64 workers.
        # Half of it is for the full ones in any case.
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
    """The two pipes to the process that started this one."""

    def __init__(self, pid: int) -> None:
        self.done = False
        self._pid = pid
        self._unsent = b""
        os.set_blocking(1, False)  # a parent that does not read must not keep us forever

    def alive(self) -> bool:
        # Its end does not always close our input: processes that it forked may hold it open.
        return os.getppid() == self._pid

    def dies(self) -> bool:
        """Whether it is dead or just dying: its pipes are closed a moment before it is gone.

        A parent that lives has told us to end, and kills us if we do not.
        """
        until = time.monotonic() + _DYING
        while self.alive() and not self.done and time.monotonic() < until:
            time.sleep(0.01)
        return not self.alive()

    def wait(self, seconds: float) -> str:
        """What it says within `seconds`, "" for nothing; "end" if it will say no more."""
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

    def behind(self) -> bool:
        """Whether it has not yet taken the last line."""
        self._send()
        return bool(self._unsent)

    def tell(self, line: dict[str, Any]) -> None:
        self._unsent += marshal.dumps(line).hex().encode() + b"\n"
        self._send()

    def flush(self) -> None:
        until = time.monotonic() + _FLUSH
        while self.behind() and self.alive() and time.monotonic() < until:
            select.select([], [1], [], 0.1)

    def _send(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(1, self._unsent) :]
        except BlockingIOError:
            pass


def main(options: dict[str, Any]) -> None:
    """Sample until told to end.

    Args:
        options: See `Recorder.start`, which makes them.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = Parent(options["parent"])
    try:
        _sample(parent, options)
    except BrokenPipeError:
        pass  # nobody listens any more
    except Exception as error:
        parent.tell({"error": f"{type(error).__name__}: {error}"})
        parent.flush()
    if options.get("mark") and parent.dies():
        _tidy_up(options["mark"], options["folder"])


def _sample(parent: Parent, options: dict[str, Any]) -> None:
    # With -I the package is not on the path, and what its __init__ imports would cost too much.
    sys.path += options["path"]
    package = sys.modules["dltutor"] = type(sys)("dltutor")
    package.__path__ = [os.path.abspath(f"{__file__}/../../..")]
    from dltutor.system import cgroup_files, process_memory

    pid, period = options["pid"], options["period"]
    reader = process_memory.reader(options["proc"])
    rates = options["memory_period"], options["memory_budget"], options["often"]
    sampler = Sampler(reader, pid, *rates)
    charged, limit = reader.cgroup(pid)
    limits = {"machine": reader.total(), "cgroup": limit, "shm": process_memory.shared_memory()[1]}
    parent.tell({"source": reader.source, "limits": limits})
    due = last = time.monotonic()
    said = ""
    while said not in ("end", "gone"):
        said = parent.wait(due - time.monotonic())
        if said == "now":
            due = min(due, last + _SOON)
        if said == "end" or (said != "gone" and time.monotonic() >= due):
            due = max(due + period, time.monotonic())
            if said != "end" and parent.behind():
                continue  # it is busy: what is not sampled now is in the next sample
            line = sampler.look(full=said == "end")
            last = time.monotonic()
            line["seconds"] = last - options["origin"]
            line["last"] = said == "end"
            line["shm"] = process_memory.shared_memory()[0]
            line["available"] = reader.available()
            line["cgroup"] = cgroup_files.number(charged)
            parent.tell(line)
    if said == "end":
        parent.flush()


def _tidy_up(mark: int, folder: str) -> None:
    # The observed process was killed, and nobody else is left to do it. Imported only here: it
    # would double the helper's start.
    import shutil

    from dltutor.system import processes

    processes.end(mark=mark)
    # The folder has links to the temporary folders of multiprocessing.
    links = [entry.path for entry in os.scandir(folder) if entry.is_symlink()]
    for path in [*map(os.path.realpath, links), folder]:
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    main(marshal.loads(bytes.fromhex(sys.argv[1])))
