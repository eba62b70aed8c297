"""Test a budget by running a loader with synthetic samples until the loader's queues are full.

The loader runs in a separate interpreter, so it can't harm the notebook, and the measurements don't
depend on what the notebook did before. Also, `observe` needs the main thread, and the callback of a
button in the notebook may run in another thread.
"""

from __future__ import annotations

import gc
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info

from dltutor.observation import torch_internals
from dltutor.observation.budget.prediction import Footprint, Prediction, Settings
from dltutor.observation.budget.usage import Lookout, Usage, room
from dltutor.observation.confinement.calling import answer, leave_call
from dltutor.observation.confinement.supervisor import run, workspace
from dltutor.observation.confinement.task import Task
from dltutor.observation.observing import observe
from dltutor.observation.texts import end_of_file
from dltutor.observation.time_limits import check_deadline

_START: Final = 60.0  # the most seconds for the child to import torch and clean up
_FOOTPRINT: Final = 60.0  # the most seconds for the run that measures a worker with tiny samples
_KEPT: Final = 2000  # the most characters to keep from the end of the child's output
_TAKEN: Final = 3  # batches that the loop takes, each followed by a wait for full queues
_PAUSE: Final = 3  # pause between two looks, as a multiple of the time that a look takes

_footprints: dict[str, Footprint] = {}


@dataclass(frozen=True)
class Trial:
    """A prediction, and the measurements from a real run.

    Args:
        prediction: The prediction, with the settings that the run used.
        looks: The measurements, in order. The first one is from before the loader started, and the
            last one is with full queues, while the loop held its last batch.
    """

    prediction: Prediction
    looks: tuple[Usage, ...]

    @property
    def before(self) -> Usage:
        return self.looks[0]

    @property
    def steady(self) -> Usage:
        return self.looks[-1]

    @property
    def peak_shared(self) -> int | None:
        """The most bytes that batches took up in `/dev/shm`, or None without a `/dev/shm`."""
        found = [look.shared for look in self.looks if look.shared is not None]
        return max(found, default=None)

    @property
    def peak(self) -> Usage:
        """The measurement with the most memory in total."""
        return max(self.looks, key=lambda look: look.total)


def footprint(start_method: str) -> Footprint:
    """Measure the memory that main and a worker use, with a real loader and tiny samples.

    The first call for a start method runs the loader in a child interpreter, for a few seconds.
    Later calls return the same Footprint. Its sizes are PSS without the part in shared memory, or
    USS if there is no PSS. They don't include the pages that a full garbage collection copies in a
    forked process.

    Raises:
        ValueError: This system has no such start method.
        RuntimeError: The run didn't finish.
    """
    settings = Settings(1, 1, 1, 1, start_method)
    if start_method not in _footprints:
        before, *_, then = _in_child(settings, _FOOTPRINT)
        worker = then.processes - then.once - before.processes
        _footprints[start_method] = Footprint(start_method, before.processes, then.once, worker)
    return _footprints[start_method]


def trial(prediction: Prediction, *, deadline: float = 60) -> Trial:
    """Run a loader with the predicted settings and synthetic samples in a child interpreter.

    After each batch, the loop waits until the workers have filled the queues. The deadline is in
    seconds, without the child's start.

    Raises:
        ValueError: The run would use more memory or more of `/dev/shm` than is safe now, or the
            deadline isn't a positive number of seconds.
        RuntimeError: The run didn't finish.
    """
    check_deadline(deadline)
    if refusal := prediction.refusal(room()):
        raise ValueError(refusal)
    return Trial(prediction, _in_child(prediction.settings, deadline))


def _in_child(settings: Settings, deadline: float) -> tuple[Usage, ...]:
    with workspace() as (folder, interrupts):
        argv = leave_call(folder, fill, settings, deadline)
        report, _ = run(Task(argv, str(folder), seconds=deadline + _START), interrupts)
        if report.stopped:
            raise RuntimeError("the run didn't finish in time, so its process was killed")
        try:
            looks: tuple[Usage, ...] = answer(folder)
        except FileNotFoundError:
            output = end_of_file(folder / "output")[-_KEPT:]
            ended = f"the run ended with exit code {report.exitcode}.\n{output}"
            raise RuntimeError(ended.strip()) from None
        return looks


class Synthetic(Dataset[torch.Tensor]):
    """A dataset that makes samples of one size on request, as a decoder does.

    Each worker counts the batches that it makes, so that `fill` knows when the queues are full.
    """

    def __init__(self, samples: int, sample_bytes: int, workers: int) -> None:
        self.samples = samples
        self.sample_bytes = sample_bytes
        # Each worker has its own counter, because workers could lose counts in a shared one.
        self._made = torch.zeros(workers, dtype=torch.int64).share_memory_()

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((self.sample_bytes,), index % 256, dtype=torch.uint8)

    def collate(self, samples: list[torch.Tensor]) -> Any:
        """Collate as torch does by default. In a worker, count the batch even if collate fails."""
        try:
            return default_collate(samples)
        finally:
            worker = get_worker_info()
            if worker is not None:
                self._made[worker.id] += 1

    @property
    def made(self) -> int:
        """How many batches all workers have made so far."""
        return int(self._made.sum())


def fill(settings: Settings, deadline: float) -> tuple[Usage, ...]:
    """Run a loader in this process, the child, and return the measurements for `Trial.looks`.

    After each batch, wait for full queues. Raise RuntimeError if the run doesn't finish.
    """
    # Have the OOM killer choose this process instead of the notebook.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    batches = settings.waiting + _TAKEN
    dataset = Synthetic(batches * settings.batch_size, settings.sample_bytes, settings.num_workers)
    loader = DataLoader(
        dataset,
        settings.batch_size,
        num_workers=settings.num_workers,
        prefetch_factor=settings.prefetch_factor,
        multiprocessing_context=settings.start_method,
        collate_fn=dataset.collate,
    )
    # A full collection after a fork copies the pages of all objects, and chance decides when one
    # runs. So collect now, and keep later collections away from these objects.
    gc.collect()
    gc.freeze()
    looking = Lookout()
    looks = [looking.look(set())]

    def consume(loader: DataLoader[Any]) -> None:
        # By now `observe` has started its sampler, which isn't part of the loader.
        looking.ignore_running()
        iterator = iter(loader)
        workers = {process.pid for process in torch_internals.workers_of(iterator) if process.pid}
        # torch requests another batch whenever the loop takes one, until all are requested.
        for taken, _ in enumerate(iterator, start=1):
            while dataset.made < settings.waiting + taken:
                started = time.perf_counter()
                looks.append(looking.look(workers))
                # Pause, because a look takes time from the workers.
                time.sleep(_PAUSE * (time.perf_counter() - started))
            looks.append(looking.look(workers))
            if taken == _TAKEN:
                break

    seen = observe(loader, deadline=deadline, consume=consume)
    if seen.end != "finished":
        raise RuntimeError(f"the run didn't finish.\n{seen}")
    return tuple(looks)
