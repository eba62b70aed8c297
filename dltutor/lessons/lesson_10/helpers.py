"""Provide the notebook's four leaking jobs, A to D, and run experiments on them.

Each job is a failure mode from the catalog. A fork server forks D's workers, because workers forked
from main would first use up the memory that main has freed, and so begin to grow later.
"""

from __future__ import annotations

import gc
import multiprocessing
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset, Subset, get_worker_info

from dltutor.failures import growing_cache, heap_growth, kept_batches, reference_cycle
from dltutor.failures.data.readings import shared_recordings
from dltutor.lessons.engine.promised import promised
from dltutor.observation import Observation
from dltutor.observation.memory.moments import Moment
from dltutor.observation.memory.process_curves import Field, Floats
from dltutor.observation.observing import observe
from dltutor.system.heap import fill_holes
from dltutor.tables import MB, Table

_FILES: Final = 64  # samples in an epoch, each from a recording (in job B, from an image)
_LENGTH: Final = 781 * 256  # numbers in each recording, 0.8 MB as float32
_READ: Final = 10.0  # the most seconds to wait until the memory of every process has been read
_NOISE: Final = 8  # growth by up to this many MB or descriptors counts as flat
_LEAST: Final = 5  # with fewer readings of memory, you can't tell what stayed flat
# Job D's workers soon stop growing, so the first reading must be within this part of the run.
_EARLY: Final = 0.25
_LINES: Final[tuple[tuple[str, Field], ...]] = (
    ("W0", "uss"),
    ("W1", "uss"),
    ("main", "uss"),
    ("main", "pss_shm"),
    ("main", "fds"),
)
# Leave out descriptors, and main's USS, which also grows when a collection copies shared pages.
_LEAKS: Final = (*_LINES[:2], _LINES[3])
# `observe_memory` clears this event until every process's memory has been read after batch 2.
_all_read = threading.Event()
_all_read.set()

_STOPPED: Final = {"the same eight samples": "A", "gc.collect() before each sample": "C"}


class JobD(heap_growth.Recordings):
    """Job D's dataset: recordings, cut into frames that are scaled to the same peak.

    So that chance can't hide that a worker grows, a sample is as big as its recording, and a worker
    fills the holes in its heap before its first sample. We tried this with 400 holes of up to 96 kB
    that we made on purpose: each of 30 workers grew by at least 80% of what it sent. If only the
    holes were filled, some grew by 52%, and if only the sizes were equal, some grew by 2%.
    """

    step = 256  # numbers from one frame to the next
    _filled = False

    def __getitem__(self, index: int) -> torch.Tensor:
        if not self._filled and get_worker_info() is not None:
            fill_holes()
            self._filled = True
        return super().__getitem__(index)


class Collecting(Dataset[Any]):
    """A dataset that calls `gc.collect()` before it reads each sample of another dataset."""

    def __init__(self, dataset: Dataset[Any]) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]  # ours have a length

    def __getitem__(self, index: int) -> Any:
        gc.collect()
        return self.dataset[index]


def freeze(worker_id: int) -> None:
    """A `worker_init_fn` that makes later collections look only at what the worker makes itself."""
    gc.freeze()


@dataclass(frozen=True)
class Job:
    """A training job that leaks.

    Args:
        dataset: The dataset to train on.
        keep: A function that returns what the loop keeps from a batch.
        epochs: The number of epochs.
        step: Seconds that a training step takes.
        batch_size: The number of samples in a batch.
        method: The workers' start method, "fork" or "forkserver".
    """

    dataset: Dataset[Any]
    keep: Callable[[Any], object] = lambda batch: None
    epochs: int = 10
    step: float = 0.02
    batch_size: int = 4
    method: str = "fork"

    def loader(self, dataset: Dataset[Any] | None = None, **options: Any) -> DataLoader[Any]:
        """Return a loader with two persistent workers, unless `options` say otherwise.

        Args:
            dataset: A dataset to use instead of the job's.
            options: Arguments for the DataLoader, which override the job's.
        """
        gc.collect()  # a later collection would copy pages that main and the workers share
        if self.method == "forkserver":
            # The server imports this module, and so torch, once for all workers.
            multiprocessing.set_forkserver_preload([__name__])
            # Start the server now. Otherwise, importing torch would take up the first seconds of a
            # run, when memory is read most often.
            multiprocessing.get_context("forkserver").Pool(1).terminate()
        usual: dict[str, Any] = {"shuffle": True}
        if options.get("num_workers") != 0:
            usual |= {"num_workers": 2, "persistent_workers": True}
            usual["multiprocessing_context"] = self.method
        return DataLoader(dataset or self.dataset, self.batch_size, **usual | options)

    def train(self, loader: DataLoader[Any]) -> None:
        """Run the training loop over all epochs, and keep what `keep` returns until the end."""
        kept = []
        try:
            for _ in range(self.epochs):
                for batch in loader:
                    kept.append(self.keep(batch))
                    if len(kept) == 2:
                        gc.freeze()  # a collection would copy pages that main and the workers share
                        _all_read.wait(_READ)  # so that the chart begins before the leak
                    time.sleep(self.step)
        finally:
            gc.unfreeze()


def make_jobs() -> dict[str, Job]:
    """Return the four jobs, by their letters."""
    paths = shared_recordings(_FILES, _LENGTH)
    return {
        "A": Job(growing_cache.CachedRecordings(paths), epochs=5, step=0.035),
        "B": Job(Subset(kept_batches.Images(), range(_FILES)), _view, step=0.015),
        "C": Job(reference_cycle.Recordings(paths), epochs=8, step=0.019),
        "D": Job(JobD(paths), epochs=6, step=0.008, batch_size=1, method="forkserver"),
    }


def _view(batch: Any) -> object:
    images, labels = batch
    images.numpy().mean()  # a training step reads the whole batch
    return images[0], labels[0]


def observe_memory(
    loader: DataLoader[Any],
    *,
    consume: Callable[[Any], object] | None = None,
    deadline: float = 60,
) -> Observation:
    """Observe a loader, and measure each process's memory as often as a live chart does.

    Args:
        loader: The loader to observe.
        consume: The loop, such as a job's `train`. By default, the loop drops the batches.
        deadline: Time limit for the run in seconds.
    """
    _all_read.clear()
    try:
        return observe(
            loader,
            consume=consume,
            deadline=deadline,
            often=True,
            listeners=[_note_reading],
        )
    finally:
        _all_read.set()


def _note_reading(moment: Moment) -> None:
    if moment.batches >= 2 and all(each.uss is not None for each in moment.processes.values()):
        _all_read.set()


def grown(seen: Observation, role: str, of: Field) -> float:
    """Return the most that a process grew by since the first batch, as `draw_growth` draws it.

    Args:
        seen: An observed job.
        role: "main", "W0", or "W1".
        of: "uss" or "pss_shm" for MB, or "fds" for a number of descriptors.
    """
    most = seen.timeline.since_first_batch(seen.timeline.series(role, of))[1].max(initial=0)
    return float(most) / (1 if of == "fds" else MB)


def _of_worker(seen: Observation) -> Floats:
    return seen.timeline.series("W1", "uss")


def _too_few_readings(*seen: Observation) -> bool:
    # Return whether the readings are too few, or too late, to tell what stayed flat.
    times = [each.timeline.since_first_batch(_of_worker(each))[0] for each in seen]
    return any(len(x) < _LEAST or x[0] > _EARLY * x[-1] for x in times)


def what_grew(runs: Mapping[str, Observation]) -> Table:
    """Show how much each job's workers and main grew at most since the first batch.

    Args:
        runs: The letter of each job -> its run.
    """
    least = {"A": 25, "B": 15, "C": 15, "D": 0 if heap_growth.reuses_memory() else 30}
    rows = []
    for job, seen in runs.items():
        grew = [grown(seen, *each) for each in _LINES]
        most = grew[3] if job == "B" else max(grew[:2])
        promised(most > least[job], (grew, str(seen)))
        flat = "too few readings" if _too_few_readings(seen) else "flat"
        rows.append((job, *(f"+{x:.0f}" if x > _NOISE else flat for x in grew)))
    header = ("job", "W0, MB", "W1, MB", "main, MB", "main, shared MB", "main, descriptors")
    return Table("Largest growth since the first batch", tuple(rows), header)


def what_stopped(
    runs: Mapping[str, Observation], others: Mapping[str, Observation], how: str
) -> Table:
    """Show how much each job still grew in a second run.

    Args:
        runs: The letter of each job -> its first run.
        others: The letter of each job -> its second run.
        how: What was different in the second runs, such as "the same eight samples".
    """
    rows = []
    for job, other in others.items():
        before, after = (max(grown(x, *each) for each in _LEAKS) for x in (runs[job], other))
        if _too_few_readings(runs[job], other):
            shown = "too few readings"
        elif before <= _NOISE:
            shown = "didn't grow before"
        else:
            shown = "stops" if after < before / 5 else "keeps growing"
        if job == "D" and (reason := heap_growth.reuses_memory()):
            shown = f"doesn't grow here: {reason}"
        else:
            found = (job, before, after, other.timeline.since_first_batch(_of_worker(other)))
            promised((shown == "stops") == (job in _STOPPED.get(how, "")), found)
        rows.append((job, f"+{before:.0f} MB", f"+{after:.0f} MB", shown))
    return Table(f"Largest growth with {how}", tuple(rows), ("job", "before", "now", ""))
