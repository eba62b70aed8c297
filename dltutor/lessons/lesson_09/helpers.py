"""Measure and draw each process's private memory while a loader runs, and write captions."""

from __future__ import annotations

import ctypes
import gc
from dataclasses import dataclass
from multiprocessing import active_children
from os import getpid
from pathlib import Path
from sys import getsizeof
from typing import Any, Final

import numpy as np
import psutil
from matplotlib import rc_context
from torch.utils.data import DataLoader, Dataset

from dltutor.display.figure import MemoryFigure
from dltutor.display.style import MAIN, STYLE, TEXT, color_of
from dltutor.failures.data import captions
from dltutor.failures.tools import load
from dltutor.failures.tools.gauge import sent_to_spawned
from dltutor.observation import observe
from dltutor.system.process_memory import mapped
from dltutor.tables import MB, Table, size

_MARK: Final = 30_000  # after this many samples, a reading gets its own column
_PLACES: Final = ("a lake", "the Café", "\N{GREEK SMALL LETTER OMEGA} Square", "a very long wall")


@dataclass(frozen=True)
class Reading:
    """A reading of memory between two batches, in bytes.

    Args:
        samples: How many samples had arrived.
        own: The USS of each worker, or of main if there are no workers.
        seen: The RSS of W0, or of main if there are no workers, as `htop` shows it.
        together: The sum of PSS over main and the workers, or NaN if the system has no PSS. Files
            don't count, because any other process that runs torch here shares torch's files.
    """

    samples: int
    own: tuple[int, ...]
    seen: int
    together: float

    @property
    def rest(self) -> float:
        """With workers, the bytes that are main's own, or that main and the workers share."""
        return self.together - sum(self.own)


@dataclass(frozen=True)
class Memory:
    """A record of how much memory a loader's run used.

    Args:
        curve: All readings, in order.
        columns: Column heading -> reading, for the table.
    """

    curve: tuple[Reading, ...]
    columns: dict[str, Reading]

    @property
    def first(self) -> Reading:
        """The first reading after each worker has delivered a batch."""
        return self.columns["first batch"]

    @property
    def last(self) -> Reading:
        """The reading near the end of the first epoch, or when the run stopped."""
        return self.columns["end of the epoch"]

    def part_of(self, listed: int) -> str:
        """Describe the workers' average growth as a part of `listed` bytes, such as "about half".

        Without workers, describe main's growth.
        """
        share = (sum(self.last.own) - sum(self.first.own)) / len(self.last.own) / listed
        limits = ((0.1, "next to nothing"), (0.4, "a small part"), (0.7, "about half"))
        return next((words for limit, words in limits if share < limit), "nearly all")

    def table(self, listed: int) -> Table:
        """Show each process's memory, with a title that compares the growth with `listed` bytes."""
        found = self.columns.values()
        rows: dict[str, list[float]] = {
            f"W{number}'s own (USS)": [each.own[number] for each in found]
            for number in range(len(self.last.own))
        }
        if not np.isnan(self.last.together):
            rows["main's, and what they share"] = [each.rest for each in found]
            rows["all of them (PSS)"] = [each.together for each in found]
        rows["W0 in htop (RES)"] = [each.seen for each in found]
        return Table(
            f"In the first epoch, each worker grew by {self.part_of(listed)} of the list",
            tuple((name, *map(size, sizes)) for name, sizes in rows.items()),
            ("", *self.columns),
        )


def memory_of(loader: DataLoader[Any], *, epochs: int = 1, until: int = 0) -> Memory:
    """Run a loader, and measure each process's memory now and then.

    Args:
        loader: The loader to run.
        epochs: The number of epochs.
        until: How many samples to stop after. If 0, the run takes all of them.

    Raises:
        RuntimeError: The run didn't finish.
    """
    curve: list[Reading] = []
    columns: dict[str, Reading] = {}

    def train(loader: DataLoader[Any]) -> None:
        others, samples = set(active_children()), 0
        started = max(loader.num_workers - 1, 0)  # after this batch, each worker has sent one
        end = len(loader) - 10  # before the sampler frees its shuffled order
        for epoch in range(1, epochs + 1):
            for number, batch in enumerate(loader):
                samples += len(batch)
                stop = 0 < until <= samples
                heading = ""
                if number == started:
                    heading = "first batch" + (f" of epoch {epoch}" if epoch > 1 else "")
                elif epoch == 1 and (stop or number == end):
                    heading = "end of the epoch"
                elif epoch == 1 and samples - len(batch) < _MARK <= samples:
                    heading = f"{_MARK:,} samples"
                # Measure often at first, because that's when a worker grows fast.
                if heading or (number > started and not number & number - 1) or not number % 200:
                    curve.append(_read(samples, set(active_children()) - others))
                    if heading:
                        columns[heading] = curve[-1]
                if stop:
                    return

    gc.collect()  # otherwise, a new worker may collect soon, which would copy pages
    ended = observe(loader, consume=train)
    if ended.end != "finished":
        raise RuntimeError(f"the run didn't finish:\n{ended}")
    return Memory(tuple(curve), columns)


def _read(samples: int, workers: set[Any]) -> Reading:
    read = [_sizes(pid) for pid in (getpid(), *sorted(worker.pid for worker in workers))]
    own = read[1:] or read
    together = sum(pss for _uss, _rss, pss in read)
    return Reading(samples, tuple(uss for uss, _rss, _pss in own), own[0][1], together)


def _sizes(pid: int) -> tuple[int, int, float]:
    # Return USS, RSS, and PSS without files, all from one reading, because readings are expensive.
    sizes = mapped(pid)
    if not sizes:
        full = psutil.Process(pid).memory_full_info()
        return full.uss, full.rss, float("nan")
    uss = sizes["Private_Clean"] + sizes["Private_Dirty"]
    return uss, sizes["Rss"], sizes["Pss_Anon"] + sizes["Pss_Shmem"]


def draw(listed: int, **runs: Memory) -> MemoryFigure:
    """Draw how much each worker's own memory, and all other memory, grew since the first batch.

    Several runs share one scale.

    Args:
        listed: The bytes of the list, which the figure marks with a line for each worker.
        runs: Title -> run.
    """
    with rc_context(STYLE):
        figure = MemoryFigure(figsize=(7.2, 3.2))
        panels = figure.subplots(1, len(runs), sharex=True, sharey=True, squeeze=False)[0]
        for axes, (title, run) in zip(panels, runs.items(), strict=True):
            x = [each.samples / 1000 for each in run.curve]
            own = np.array([each.own for each in run.curve]) - run.first.own
            roles = [f"W{number}" for number in range(own.shape[1])]
            axes.stackplot(x, own.T.clip(min=0) / MB, labels=roles, colors=[*map(color_of, roles)])
            rest = [(each.rest - run.first.rest) / MB for each in run.curve]
            axes.plot(x, rest, color=MAIN, linewidth=2, label="main's, and what they share")
            lists = [copies * listed / MB for copies in range(1, len(roles) + 1)]
            for copies in lists:
                axes.axhline(copies, color=TEXT, linestyle=":", linewidth=1)
            axes.text(0, lists[-1], "one list for each worker", va="bottom", in_layout=False)
            axes.set(title=title, xlabel="thousands of samples", ymargin=0.12)
        panels[0].set_ylabel("MB more than at the first batch")
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)
    return figure


def size_of(listed: Any) -> int:
    """Return the bytes of a list, including its pointers, its objects, and nested lists."""
    return getsizeof(listed) + (sum(map(size_of, listed)) if isinstance(listed, list) else 0)


def count_in(thing: object) -> int:
    """Return the reference count in an object's memory.

    The count includes references that the call itself adds, so compare two calls.
    """
    return ctypes.c_uint32.from_address(id(thing)).value


#: Name -> dataset class: one that keeps captions in a list, the five from "09.diagnose", and two
#: that keep packed bytes.
KEPT: Final = {
    "the list": captions.Captions,
    "A, a tuple": captions.CaptionTuple,
    "B, numpy of dtype object": captions.CaptionObjects,
    "C, numpy of dtype S": captions.FixedWidthCaptions,
    "D, the list, but lengths are read": captions.CaptionLengths,
    "E, dicts": captions.CaptionDicts,
    "packed bytes": captions.PackedCaptions,
    "packed bytes, in tensors": captions.TensorCaptions,
}


def growth_of_each() -> Table:
    """Show how much a forked worker grows with each of `KEPT`, and how much a spawned one gets."""
    path = captions.shared_captions(100_000)
    listed = size_of(captions.Captions(path).captions)
    rows = []
    for name, kind in KEPT.items():
        dataset: Dataset[Any] = kind(path)
        loader = load(dataset, 1, "fork", batch_size=100, shuffle=True)
        grows = memory_of(loader, until=10_000).part_of(listed)
        sent = sent_to_spawned(dataset)
        rows.append((name, grows, size(sent) if sent > 1024 else "a descriptor"))
    header = ("kept as", "a forked worker grows by", "main sends a spawned worker")
    return Table("One worker, 10,000 of 100,000 captions", tuple(rows), header)


def write_captions(path: Path, number: int) -> captions.PackedCaptions:
    """Write 50,000 captions to a file, one on each line.

    Some have letters beyond ASCII, a few have spaces at an edge, and at least one is empty. If
    `number` isn't 0, the first and the last caption are empty, and one has 300 characters.

    Args:
        path: The file to write.
        number: A number that shifts the images' numbers in the captions.

    Returns:
        The captions, stored without Python objects.
    """
    count, third = 50_000, 50_000 // 3
    lines = [
        f"{(number + n * 31) % count:06}.png shows {n % 97} boats at {_PLACES[n % 4]}"
        for n in range(count)
    ]
    lines[0], lines[-1] = f" {lines[0]}", f"{lines[-1]}  "
    if number:
        lines[0] = lines[-2] = lines[-1] = ""
        lines[third - 1] = " and ".join(lines[8:18])[:300]
    lines[third : third + 4] = ["", f" {lines[5]} ", lines[7], " and ".join(lines[:3])]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return captions.PackedCaptions(path)
