"""A short training run, what was read of the memory meanwhile, and the curves of several."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import psutil
from matplotlib import rc_context
from torch.utils.data import DataLoader

from dltutor.display.figure import MemoryFigure
from dltutor.display.style import ALARM, MAIN, OTHER, STYLE, WORKERS
from dltutor.failures.kit.gauge import MEGABYTE, Gauge

EPOCHS: Final = 10
STEP: Final = 0.005  # seconds of training
READ_EVERY: Final = 4  # steps

_COLOURS: Final = {
    "each worker": WORKERS[0],
    "main": MAIN,
    "shared memory": OTHER,
    "broken": ALARM,
    "fixed": WORKERS[1],
}
_DASHES: Final = {"shared memory": (4, 2), "fixed": (4, 2)}


@dataclass(frozen=True)
class Readings:
    """What was read during a job, once every few steps.

    Args:
        workers: MB private to a worker, on average.
        main: MB private to main.
        shared: MB of batches in shared memory, on their way or kept.
        files: Descriptors that main has open.
        seconds: How long the job took from its first batch on.
    """

    workers: tuple[float, ...]
    main: tuple[float, ...]
    shared: tuple[float, ...]
    files: tuple[float, ...]
    seconds: float

    def growth(self, of: str) -> float:
        """From the first reading of "workers", "main", "shared" or "files" to the highest."""
        readings: tuple[float, ...] = getattr(self, of)
        return max(readings) - readings[0]

    def fall(self, of: str) -> float:
        """The deepest fall from one reading to a later one."""
        readings: tuple[float, ...] = getattr(self, of)
        return max(max(readings[: i + 1]) - low for i, low in enumerate(readings))

    def late(self, of: str) -> float:
        """From the lowest reading of the second half to the highest."""
        readings: tuple[float, ...] = getattr(self, of)
        half = readings[len(readings) // 2 :]
        return max(half) - min(half)


def train(
    loader: DataLoader[Any],
    *,
    keep: Callable[[Any], object] | None = None,
    epochs: int = EPOCHS,
    step: float = STEP,
    every: int = READ_EVERY,
) -> Readings:
    """A short training run, and what was read meanwhile.

    Args:
        loader: Any loader of tensors.
        keep: What the loop keeps of each batch, to the end.
        epochs: How many.
        step: Seconds that a training step takes.
        every: How many steps there are from one reading to the next.
    """
    gauge, main = Gauge(), psutil.Process()
    kept: list[object] = []
    workers, private, shared, files = [], [], [], []
    steps, start = 0, 0.0
    for _ in range(epochs):
        for batch in loader:
            start = start or time.perf_counter()
            if keep is not None:
                kept.append(keep(batch))
            if steps % every == 0:
                workers.append(gauge.private())
                private.append(main.memory_full_info().uss / MEGABYTE)
                shared.append(gauge.shared())
                files.append(float(main.num_fds()))
            steps += 1
            time.sleep(step)
    seconds = time.perf_counter() - start
    return Readings(tuple(workers), tuple(private), tuple(shared), tuple(files), seconds)


def draw_runs(runs: Mapping[str, Readings]) -> MemoryFigure:
    """By how much each worker, main and shared memory grew, step by step.

    Args:
        runs: By the letter of the job.
    """
    return _draw(
        {
            job: {"each worker": run.workers, "main": run.main, "shared memory": run.shared}
            for job, run in runs.items()
        }
    )


def draw_fixed(
    broken: Mapping[str, Readings], fixed: Mapping[str, Readings], grows: Mapping[str, str]
) -> MemoryFigure:
    """What grew in each job, before and after.

    Args:
        broken: By the letter of the job.
        fixed: Likewise.
        grows: Job -> what grew in it: a field of Readings.
    """
    return _draw(
        {
            job: {"broken": getattr(broken[job], of), "fixed": getattr(fixed[job], of)}
            for job, of in grows.items()
        }
    )


def _draw(panels: Mapping[str, Mapping[str, Sequence[float]]]) -> MemoryFigure:
    with rc_context(STYLE):
        figure = MemoryFigure(figsize=(7.2, 3.0))
        row = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
        for axes, (job, lines) in zip(row, panels.items(), strict=True):
            axes.set_title(job, fontweight="bold")
            axes.set_xlabel("steps")
            for name, readings in lines.items():
                steps = [READ_EVERY * number for number in range(len(readings))]
                dashes = {"dashes": _DASHES[name]} if name in _DASHES else {}
                more = [reading - readings[0] for reading in readings]
                axes.plot(steps, more, color=_COLOURS[name], label=name, linewidth=2, **dashes)
        row[0].set_ylabel("MB more than at first")
        marks, names = row[0].get_legend_handles_labels()
        figure.legend(marks, names, loc="outside lower center", ncols=3, frameon=False)
    return figure
