"""Try a budget: run a loader of synthetic samples until its queues are full.

It runs in an interpreter of its own, so it can't harm the notebook, and what it measures doesn't
depend on what the notebook did before. `observe` also needs a main thread, and a button's callback
may run in another one.
"""

from __future__ import annotations

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

_START: Final = 60.0  # seconds for the child to import torch, and to tidy up
_FOOTPRINT: Final = 60.0  # seconds for a worker with nothing to do
_SAID: Final = 2000  # characters of what it wrote, the last ones
_TAKEN: Final = 3  # batches that the loop takes: the first fills the queues, the others keep them
_PAUSE: Final = 3  # times as long as a look takes

_footprints: dict[str, Footprint] = {}


@dataclass(frozen=True)
class Trial:
    """A prediction, and what a real run held.

    Args:
        prediction: What was to be tried.
        looks: What was seen, in order: the first before the loader started; the last with full
            queues, the loop holding its last batch.
    """

    prediction: Prediction
    looks: tuple[Usage, ...]

    @property
    def before(self) -> Usage:
        """Before the loader started."""
        return self.looks[0]

    @property
    def steady(self) -> Usage:
        """With full queues, when the loop held its last batch."""
        return self.looks[-1]

    @property
    def peak_shared(self) -> int | None:
        """The most in `/dev/shm` at any look, in bytes; None where there is none."""
        found = [look.shared for look in self.looks if look.shared is not None]
        return max(found, default=None)

    @property
    def peak(self) -> Usage:
        """The look with the most memory in all."""
        return max(self.looks, key=lambda look: look.total)


def footprint(start_method: str) -> Footprint:
    """Measure what main and a worker take up: a real loader with one worker and empty samples.

    It is done once for each start method, in a child interpreter, and takes a few seconds.

    Args:
        start_method: fork, spawn or forkserver.

    Raises:
        ValueError: There is no such start method here.
        RuntimeError: The worker did not do its work.
    """
    settings = Settings(1, 1, 1, 1, start_method)
    if start_method not in _footprints:
        before, *_, then = _in_child(settings, _FOOTPRINT)
        worker = then.processes - then.once - before.processes
        _footprints[start_method] = Footprint(start_method, before.processes, then.once, worker)
    return _footprints[start_method]


def trial(prediction: Prediction, *, deadline: float = 60) -> Trial:
    """Run for real what was predicted, on synthetic samples, in a child interpreter.

    The loop takes a batch only when all others are made, so the queues are full.

    Args:
        prediction: What to try.
        deadline: Seconds for the run, without the start of the child.

    Returns:
        The Trial.

    Raises:
        ValueError: It would take more than is safe here now, or the deadline is not positive.
        RuntimeError: The run did not finish.
        KeyboardInterrupt: You pressed Stop; everything is cleaned up first.
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
            raise RuntimeError("the run did not finish: its process had to be killed")
        try:
            looks: tuple[Usage, ...] = answer(folder)
        except FileNotFoundError:
            said = end_of_file(folder / "output")[-_SAID:]
            ended = f"the run ended with exit code {report.exitcode}.\n{said}"
            raise RuntimeError(ended.strip()) from None
        return looks


class Synthetic(Dataset[torch.Tensor]):
    """Samples of one size, made when they are asked for as a decoder makes them.

    Args:
        samples: How many.
        sample_bytes: The size of each.
        workers: How many workers count what they make.
    """

    def __init__(self, samples: int, sample_bytes: int, workers: int) -> None:
        self.samples = samples
        self.sample_bytes = sample_bytes
        # One place for each worker: no two write to the same.
        self._made = torch.zeros(workers, dtype=torch.int64).share_memory_()

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((self.sample_bytes,), index % 256, dtype=torch.uint8)

    def collate(self, samples: list[torch.Tensor]) -> Any:
        """What torch does by default, counted; a batch that fails counts, too."""
        try:
            return default_collate(samples)
        finally:
            worker = get_worker_info()
            if worker is not None:
                self._made[worker.id] += 1

    @property
    def made(self) -> int:
        """Batches made so far by all workers."""
        return int(self._made.sum())


def fill(settings: Settings, deadline: float) -> tuple[Usage, ...]:
    """Run a loader in this process, the child, and take a batch only when all others are made.

    Args:
        settings: Of the loader.
        deadline: Seconds, as in `observe`.

    Returns:
        What was seen, as in Trial.

    Raises:
        RuntimeError: The run did not finish.
    """
    with suppress(OSError):  # if memory runs out after all, it is not the kernel that goes
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
    looking = Lookout()
    looks = [looking.look(set())]

    def consume(loader: DataLoader[Any]) -> None:
        # The sampler of `observe` runs by now, and is no part of the loader.
        looking.leave_out_others()
        iterator = iter(loader)
        workers = {process.pid for process in torch_internals.workers_of(iterator) if process.pid}
        # Torch asks for a batch more whenever the loop takes one, as long as there are any.
        for taken, _ in enumerate(iterator, start=1):
            while dataset.made < settings.waiting + taken:
                started = time.perf_counter()
                looks.append(looking.look(workers))
                # Seldom enough to leave the workers their cores and their memory.
                time.sleep(_PAUSE * (time.perf_counter() - started))
            looks.append(looking.look(workers))
            if taken == _TAKEN:
                break

    seen = observe(loader, deadline=deadline, consume=consume)
    if seen.end != "finished":
        raise RuntimeError(f"the run did not finish.\n{seen}")
    return tuple(looks)
