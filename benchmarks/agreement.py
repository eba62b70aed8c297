"""Compare the memory that `observe` reports with other tools' figures and our own readings."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from statistics import median

import numpy as np
import psutil
from kernel import kernel
from measure import MB, Table, benchmark, spread
from torch.utils.data import DataLoader
from work import Made, names

from dltutor.observation.memory import sampler as program
from dltutor.observation.memory.moments import Moment, Reading
from dltutor.observation.memory.recorder import Recorder
from dltutor.observation.memory.worker_names import WorkerNames

Figures = dict[str, float]


class Tape:
    """A recording of the memory of this process and its descendants that keeps every sample.

    `options` are keyword arguments for the Recorder, such as `period`, in seconds.
    """

    def __init__(self, **options: float) -> None:
        self.samples: list[Moment] = []
        self._recorder = Recorder(listeners=[self.samples.append], roles=WorkerNames(), **options)
        self._began = time.monotonic()
        self._recorder.start()

    def end(self) -> None:
        self._recorder.stop()

    def of(self, role: str) -> tuple[list[float], list[Reading]]:
        """Return when a process was sampled, in `time.monotonic` seconds, and its Readings."""
        found = [each for each in self.samples if role in each.processes]
        return [self._began + each.seconds for each in found], [
            each.processes[role] for each in found
        ]


def dense() -> Tape:
    """Make a Tape that reads USS and PSS in every sample, ten times a second."""
    return Tape(period=0.1, memory_period=0.1, memory_budget=1.0)


def names_loader(megabytes: int) -> DataLoader[int]:
    """Make a loader with two forked workers for `megabytes` MB of file names.

    A worker that reads a name copies the name's page, because Python writes the name's reference
    count there.
    """
    listed = names(megabytes * MB)

    def opened(index: int) -> int:
        time.sleep(20e-6)  # stands in for opening the file
        return len(listed[index])

    dataset = Made(opened, len(listed))
    return DataLoader(dataset, batch_size=512, num_workers=2, multiprocessing_context="fork")


class Held:
    """A loader paused halfway through its epoch, so that several tools can read the total PSS."""

    def __init__(self, megabytes: int) -> None:
        loader = names_loader(megabytes)
        self._batches = iter(loader)
        for _ in range(len(loader) // 2):
            next(self._batches)
        time.sleep(0.5)  # until the workers have filled their queues
        self._tape = dense()
        time.sleep(1.0)

    def figures(self) -> Figures:
        """Return the total PSS that `observe` ("ours") and smem ("smem") read, in bytes.

        Neither total includes the helper process that reads memory for `observe`. Its PSS is under
        "helper". If smem isn't installed, "smem" is 0.
        """
        time.sleep(0.7)  # until there are samples without an earlier call's smem process
        me = psutil.Process()
        family = [me, *me.children(recursive=True)]
        helpers = [process for process in family if program.__file__ in process.cmdline()]
        read = [
            each.processes.values() for each in self._tape.samples if each.processes["main"].pss
        ]
        ours = sum(process.pss or 0 for process in read[-1])
        smem = _smem({process.pid for process in family} - {helper.pid for helper in helpers})
        helper = sum(each.memory_full_info().pss for each in helpers)
        return {"ours": ours, "smem": smem, "helper": helper}

    def end(self) -> None:
        """End the Tape and the loader."""
        self._tape.end()
        del self._batches


def _smem(pids: set[int]) -> float:
    command = shutil.which("smem")
    if command is None:
        return 0
    table = subprocess.run(
        [command, "--no-header", "--columns", "pid pss"], check=True, stdout=subprocess.PIPE
    )
    lines = [line.split() for line in table.stdout.decode().splitlines()]
    return sum(1024 * int(pss) for pid, pss in lines if int(pid) in pids)


def totals(rounds: int, megabytes: int) -> Table:
    """Compare the total PSS of a kernel and two workers, as `observe` and other tools read it.

    Args:
        rounds: How many times each tool reads the total.
        megabytes: The size of the list of file names that the loader reads, in MB.
    """
    found: list[Figures] = []
    with kernel() as notebook:
        notebook.run(f"from agreement import Held\nheld = Held({megabytes})")
        for _ in range(rounds):
            usage = notebook.usage()
            figures: Figures = notebook.value("held.figures()")
            found.append({**figures, "ipykernel": usage - figures["helper"]})
        notebook.run("held.end()")
    ours = [figures["ours"] for figures in found]
    rows = [["`observe`: total PSS", spread([each / MB for each in ours], "{:.1f} MB"), ""]]
    for name, title in (
        ("ipykernel", "ipykernel's `usage_request`, without our helper"),
        ("smem", "`smem`"),
    ):
        theirs = [figures[name] for figures in found]
        if not all(theirs):
            rows.append([title, "not installed here", ""])
            continue
        ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
        rows.append(
            [title, spread([each / MB for each in theirs], "{:.1f} MB"), spread(ratios, "{:.4f}")]
        )
    return Table(
        "Total PSS of a kernel and two workers, read by others",
        ["tool", "total PSS", "ours divided by it"],
        rows,
        f"{rounds} readings while the loader waits halfway through a list of {megabytes} MB. "
        "ipykernel counts our helper, which is a child of the kernel, so we subtract its PSS. smem "
        "rounds each mapping down to whole kilobytes.",
    )


def curves(megabytes: int) -> Table:
    """Compare the live chart's estimate of private memory with frequent readings of USS.

    `megabytes` is the size of the list that two workers copy as they read it, in MB.
    """
    live, often = Tape(), dense()
    try:
        for _ in names_loader(megabytes):
            pass
    finally:
        live.end()
        often.end()
    rows = [_beside(role, live, often) for role in ("W0", "W1")]
    return Table(
        "The live curve between two readings, compared with USS",
        ["worker", "USS", "samples", "live curve is off by", "the last reading would be off by"],
        rows,
        f"Two forked workers read a list of {megabytes} MB that they inherited, and copy it page "
        "by page. For the samples in which `observe` didn't read USS, the table shows how far its "
        "estimate of private memory from page faults is from USS, which a second recorder reads "
        "ten times a second: the median and the maximum, in percent of USS.",
    )


def _beside(role: str, live: Tape, often: Tape) -> list[str]:
    at, truth = often.of(role)
    known = [(when, each.uss) for when, each in zip(at, truth, strict=True) if each.uss]
    whens, sizes = zip(*known, strict=True)
    off, held_off, last = [], [], None
    for when, each in zip(*live.of(role), strict=True):
        if each.uss is not None:
            last = each.uss
        elif last is not None and each.private is not None and whens[0] <= when <= whens[-1]:
            uss = float(np.interp(when, whens, sizes))
            off.append(abs(each.private - uss) / uss)
            held_off.append(abs(last - uss) / uss)
    return [
        role,
        f"{sizes[0] / MB:.0f} to {sizes[-1] / MB:.0f} MB",
        str(len(off)),
        *(f"{100 * median(each):.1f} %, {100 * max(each):.1f} %" for each in (off, held_off)),
    ]


def measure(quick: bool) -> Iterator[Table]:
    """Yield the tables for total PSS and for the live chart."""
    yield totals(2 if quick else 7, 50 if quick else 300)
    yield curves(20 if quick else 150)


if __name__ == "__main__":
    benchmark("agreement", measure)
