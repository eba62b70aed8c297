"""Provide datasets, jobs, tables, and a figure for notebook 13."""

from __future__ import annotations

import io
import os
import time
import warnings
from collections.abc import Mapping
from functools import cache, partial
from statistics import median
from typing import Any, Final

import numpy as np
import torch
from matplotlib import rc_context
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from dltutor.display.figure import MemoryFigure
from dltutor.display.style import MAIN, STYLE, WORKERS
from dltutor.failures.data.sentences import Sentences, as_list
from dltutor.failures.tools.contract import load
from dltutor.lessons.engine.promised import promised
from dltutor.observation import machine, observe
from dltutor.observation.speeds import Throughput
from dltutor.tables import Table

_SAMPLES: Final = 64
_STEP: Final = 0.02  # seconds that a training step of job C takes
_BATCH: Final = 0.5  # seconds that a batch takes in `step_costs`
_PROCESSES: Final = 251
_COUNTS: Final = (0, 2, 8)


@cache
def photo() -> bytes:
    """Return the bytes of a JPEG file of 320 x 240 pixels, the same bytes each time."""
    noise = np.random.default_rng(0).integers(0, 255, (150, 200, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).resize((320, 240)).save(file, "JPEG")
    return file.getvalue()


class Reviews(Dataset[tuple[torch.Tensor, int]]):
    """A dataset of labeled reviews, as word numbers. It counts how many samples each process makes.

    All reviews differ, and one is empty.
    """

    def __init__(self, length: int = 90, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.reviews = [random.integers(0, 5000, size) for size in random.integers(4, 30, length)]
        self.reviews[length // 3] = np.zeros(0, dtype=np.int64)
        self.labels = random.integers(0, 2, length).tolist()
        # How many samples each process has made. Any 251 pids in a row have separate slots.
        self._made = torch.zeros(_PROCESSES, dtype=torch.int64).share_memory_()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        words = torch.from_numpy(self.reviews[index].copy())
        self._made[os.getpid() % _PROCESSES] += 1
        return words, self.labels[index]

    def made(self) -> int:
        """Return how many samples all processes have made."""
        return int(self._made.sum())

    def made_here(self) -> int:
        """Return how many samples this process has made."""
        return int(self._made[os.getpid() % _PROCESSES])


class Curves(MemoryFigure):
    """A figure of throughput curves, which a notebook shows as an image."""

    def __repr__(self) -> str:
        return "<Figure: samples per second by number of workers>"


def draw_curves(found: Mapping[str, Throughput]) -> Curves:
    """Draw throughput against workers, with a bar for the middle half of the runs at each point.

    Args:
        found: A loader's name -> its throughput with several numbers of workers.
    """
    cores = machine().cores
    with rc_context(STYLE):
        figure = Curves(figsize=(7.2, 2.6))
        panels = figure.subplots(1, len(found), squeeze=False)[0]
        for axes, (name, each), color in zip(panels, found.items(), (MAIN, *WORKERS), strict=False):
            numbers = [speed.workers for speed in each.speeds]
            rates = np.array([speed.rate for speed in each.speeds])
            low, high = np.array([speed.spread for speed in each.speeds]).T
            axes.errorbar(
                range(len(numbers)), rates, (rates - low, high - rates), color=color, capsize=4
            )
            axes.set_xticks(range(len(numbers)), [str(number) for number in numbers])
            axes.set_ylim(bottom=0)
            axes.set_title(name)
            axes.set_xlabel("workers")
        panels[0].set_ylabel("samples/s")
        figure.suptitle(f"Throughput on {cores} core{'s' * (cores > 1)}", x=0.01, ha="left")
    return figure


def eight_against_none(found: Mapping[str, Throughput]) -> Table:
    """Show how much faster 8 workers are than none.

    Args:
        found: A loader's name -> its throughput with 0 and 8 workers, for a loader that waits,
            one that computes, and one whose samples are in memory, in this order.
    """
    times = {}
    for name, each in found.items():
        rates = {speed.workers: speed.rate for speed in each.speeds}
        times[name] = rates[8] / rates[0]
    waits, computes, rows = times
    promised(times[waits] > 2 and times[rows] < 0.8, times)
    return Table(
        "8 workers compared with none",
        (
            (waits, "many times as fast" if times[waits] > 2 else "not many times as fast here"),
            (computes, "depends on your cores (see the figure)"),
            (rows, "slower" if times[rows] < 1 else "not slower here"),
        ),
    )


def smallest_good(measured: Mapping[int, list[float]]) -> int:
    """Return the smallest number of workers that the fastest doesn't clearly beat.

    Args:
        measured: Number of workers -> the seconds per batch in each run.
    """
    fastest = min(measured, key=lambda workers: median(measured[workers]))
    enough = max(*measured[fastest], 1.1 * median(measured[fastest]))
    return min(workers for workers, runs in measured.items() if median(runs) <= enough)


class _Waits(Dataset[torch.Tensor]):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return _SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.seconds)
        return torch.tensor(index)


class _Decodes(_Waits):
    def __getitem__(self, index: int) -> torch.Tensor:
        image = Image.open(io.BytesIO(photo())).resize((64, 64))
        return torch.from_numpy(np.array(image))


def _epoch(loader: DataLoader[Any], step: float) -> float:
    # Return how many seconds a second epoch takes with the same workers.
    began = 0.0
    for _ in range(2):
        began = time.perf_counter()
        for _ in loader:
            time.sleep(step)
    return time.perf_counter() - began


def _quickest(dataset: Any) -> tuple[float, float]:
    # Return the seconds that the quickest of 20 samples took, and that sample's CPU time.
    seconds = []
    for index in range(20):
        began, cpu = time.perf_counter(), time.thread_time()
        dataset[index]
        seconds.append((time.perf_counter() - began, time.thread_time() - cpu))
    return min(seconds)


def step_costs() -> Table:
    """Show how long a step of next(iter(loader)) takes, without and with persistent workers."""
    took = []
    for persistent in (False, True):
        loader = load(_Waits(_BATCH / 4), 2, "fork", persistent_workers=persistent)
        began = 0.0
        for _ in range(2 if persistent else 1):  # the first epoch doesn't wait for an earlier one
            began = time.perf_counter()
            next(iter(loader))
        took.append((time.perf_counter() - began) / _BATCH)
    # Round up from three quarters, because a busy main notices the first batch late, so that the
    # second step looks shorter.
    counts = [int(each + 0.25) for each in took]
    promised(counts == [2, 3], took)
    rows = zip(("without persistent workers", "with persistent workers"), counts, strict=True)
    return Table(
        "One step of next(iter(loader)) with 2 workers",
        tuple((how, f"as long as {count} batches") for how, count in rows),
    )


def four_jobs() -> Table:
    """Show how long a sample takes in each of four jobs, and an epoch with 0, 2, and 8 workers."""
    reviews = {"batch_size": 128, "collate_fn": as_list}
    jobs: dict[str, tuple[Any, dict[str, Any], float]] = {
        "A": (Sentences(6 * 128), reviews, 0),
        "B": (_Waits(0.01), {}, 0),
        "C": (_Waits(0.001), {}, _STEP),
        "D": (_Decodes(0), {}, 0),
    }
    rows, found = [], []
    for job, (dataset, options, step) in jobs.items():
        shown = [f"{1000 * each:.3f} ms" for each in _quickest(dataset)]
        seconds: list[Any] = []
        for workers in _COUNTS:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "This DataLoader will create")
                options["persistent_workers"] = workers > 0
                loader = load(dataset, workers, "fork", **options)
                loop = partial(_epoch, step=step)
                seconds.append(observe(loader, consume=loop, deadline=60).result)
        found.append(seconds)
        shown += [f"{each:.3f} s" for each in seconds]
        rows.append((job, *shown, f"{1000 * step:.0f} ms"))
    a, b, c, _ = found
    promised(a[2] > 2 * a[0] and b[2] < b[0] / 2 and c[2] > c[0] / 2, found)
    epochs = (f"{number} workers" for number in _COUNTS)
    header = ("job", "a sample", "its CPU time", *epochs, "training step")
    return Table("Four jobs: a sample, and an epoch by number of workers", tuple(rows), header)
