"""Lesson 03: workers that die."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from torch.utils.data import Dataset

from dltutor.failures import dead_worker, misleading_exit
from dltutor.failures.data import scans
from dltutor.failures.tools.contract import load
from dltutor.observation import Observation, confine, observe
from measured_claims import DEEP_DIVE, EXITING, CannotMeasure, Claim, Measured, Source

_TORCH: Final = Source(
    "torch's own error for an exit code, DataLoader.cpp",
    "v2.13",
    "https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/DataLoader.cpp",
)
_TQDM: Final = Source(
    "pytorch#149837 and threads like it",
    address="https://github.com/pytorch/pytorch/issues/149837",
)


def _without_workers() -> Measured:
    def end(make: Callable[..., Any], **options: Any) -> Observation:
        return confine(make, workers=0, **options)

    dead = [end(dead_worker.broken, how=how).end for how in ("killed", "segfault", "abort")]
    said = end(misleading_exit.broken)
    named = bool(said.chain) and "009.json" in said.chain[0][1]
    refuted = dead == ["main died"] * 3
    return Measured(
        f"{dead.count('main died')} of 3 signals end the whole program, without an error; the exit "
        f"{'arrives as SystemExit and names the file' if named else 'does not name the file'}.",
        "holds for `sys.exit`, refuted for a signal." if refuted and named else "undecided.",
    )


def _gone() -> Measured:
    ends = [confine(dead_worker.broken, workers=0, how=how).end for how in ("killed", "segfault")]
    died = ends.count("main died")
    return Measured(
        f"With 0 workers {died} of 2 programs end with the first bad sample.",
        "refuted where the sample is the cause: main dies in place of the worker."
        if died == 2
        else "holds.",
    )


def _kernels_line() -> Measured:
    limits = confine(scans.broken, memory="400M").confinement
    if limits is None or limits.stand_in or limits.kernel_log is None:
        raise CannotMeasure("No cgroup can be made here, or the kernel's log may not be read.")
    line = re.sub(r"\).*", ")", limits.kernel_log[0]) if limits.kernel_log else "no line"
    return Measured(
        f"A worker in a cgroup of 400 MB is killed; the kernel's log has `{line}`, and the cgroup "
        f"counts {limits.oom_kills}.",
        "holds, where the log may be read." if "out of memory" in line else "refuted.",
    )


def _usually_memory() -> Measured:
    runs = {how: observe(dead_worker.broken(how=how).loader) for how in dead_worker.ACCIDENTS}
    same = [how for how, seen in runs.items() if "exited unexpectedly" in seen.raw]
    memory = [how for how in same if "memory" in runs[how].raw]
    return Measured(
        f"The same headline for {len(same)} of {len(runs)} deaths ({', '.join(same)}), none of "
        f"them of memory. {len(memory)} of the errors speak of memory.",
        "not decided: the headline does not tell, the exit code does. How often it is memory at "
        "work was not measured.",
    )


class _Caught(Dataset[int]):
    """A sample with an accident, and an `except` around it."""

    def __init__(self, accident: Callable[[int], object], kind: type[BaseException]) -> None:
        self.accident, self.kind = accident, kind

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        with suppress(self.kind):
            self.accident(3)
        return index


def _handled() -> Measured:
    accidents = dead_worker.ACCIDENTS | {"sys.exit": sys.exit}
    dead = {
        kind: [
            how
            for how, accident in accidents.items()
            if observe(load(_Caught(accident, kind), 1, "fork")).end == "worker died"
        ]
        for kind in (Exception, BaseException)
    }
    shown = "; ".join(f"`except {kind.__name__}`: {', '.join(dead[kind])}" for kind in dead)
    return Measured(
        f"What still ends the worker. With {shown}.",
        "refuted: a signal or an exit of the process is not an exception."
        if set(dead[BaseException]) == set(dead_worker.ACCIDENTS)
        else "holds.",
    )


def _tqdm() -> Measured:
    script = (
        "import gc, multiprocessing as mp, sys\n"
        "from dltutor.failures import leftover_iterator as left\n"
        "gc.disable()\n"
        "left.train(left.broken(workers=1).loader)\n"
        "child = mp.get_context('fork').Process(target=gc.collect)\n"
        "child.start(); child.join()\n"
        "print('tqdm' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    noise = "can only test a child process" in run.stderr
    without = run.stdout.strip() == "False"
    return Measured(
        f"A child forked while an unfinished iterator is garbage "
        f"{'prints it' if noise else 'does not print it'}; tqdm was "
        f"{'not imported' if without else 'imported'}.",
        "refuted as the only cause: it comes without tqdm." if noise and without else "undecided.",
    )


CLAIMS: Final = (
    Claim(
        "Rerunning with `num_workers=0` may give a better error trace.",
        _TORCH,
        "SIGKILL, SIGSEGV, SIGABRT and `sys.exit` in `__getitem__`, with 0 workers, each in a new "
        "Python.",
        _without_workers,
        seconds=120,
    ),
    Claim(
        "Set `num_workers=0`, and the issue is gone.",
        DEEP_DIVE,
        "The article quotes it as what the web advises, and warns of it. SIGKILL and SIGSEGV in "
        "`__getitem__`, with 0 workers, each in a new Python.",
        _gone,
        seconds=120,
    ),
    Claim(
        "`dmesg -T` shows that the real cause is out of memory.",
        DEEP_DIVE,
        "A worker takes 700 MB in a cgroup of 400 MB; then the kernel's log is read.",
        _kernels_line,
        seconds=120,
    ),
    Claim(
        '"exited unexpectedly" usually means out of memory.',
        DEEP_DIVE,
        "Four deaths that have nothing to do with memory, each in a forked worker.",
        _usually_memory,
    ),
    Claim(
        "Handle exceptions in the loading code, and workers no longer exit unexpectedly.",
        EXITING,
        "Five ways to end a worker, with `except Exception` and with `except BaseException` around "
        "each in `__getitem__`.",
        _handled,
    ),
    Claim(
        "`AssertionError: can only test a child process` comes from tqdm.",
        _TQDM,
        "A worker's error is caught, which leaves its iterator; then a child is forked, and "
        "collects its garbage.",
        _tqdm,
    ),
)
