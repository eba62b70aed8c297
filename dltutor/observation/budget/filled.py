"""A loader of synthetic samples, run until its queues are full, and what it holds then."""

from __future__ import annotations

import pickle
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info

from dltutor.observation import torch_internals
from dltutor.observation.budget.settings import Settings
from dltutor.observation.budget.usage import Lookout, Usage
from dltutor.observation.observing import observe
from dltutor.observation.report import Observation

_TAKEN: Final = 3  # batches that the loop takes: the first fills the queues, the others keep them
_PAUSE: Final = 3  # times as long as a look takes


@dataclass(frozen=True)
class Filled:
    """A run until the queues were full.

    Args:
        before: Before the loader started.
        looks: What was seen from then on, in order; the last one with full queues, the loop
            holding its last batch.
        observation: The run itself.
    """

    before: Usage
    looks: tuple[Usage, ...]
    observation: Observation


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


def fill(settings: Settings, deadline: float) -> Filled:
    """Run a loader in this process, and take a batch only when all others are made.

    Args:
        settings: Of the loader.
        deadline: Seconds, as in `observe`.

    Raises:
        RuntimeError: The run did not finish.
    """
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
    before = looking.look(set())

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

    looks: list[Usage] = []
    seen = observe(loader, deadline=deadline, consume=consume)
    if seen.end != "finished":
        raise RuntimeError(f"the run did not finish.\n{seen}")
    return Filled(before, tuple(looks), seen)


def main(folder: str) -> None:
    """What the child of a trial does: fill the queues, and leave what it saw in the folder."""
    with suppress(OSError):  # if memory runs out after all, it is not the kernel that goes
        Path("/proc/self/oom_score_adj").write_text("1000")
    settings, deadline = pickle.loads((Path(folder) / "task").read_bytes())
    result: Filled | str
    try:
        result = fill(settings, deadline)
    except RuntimeError as error:
        result = str(error)
    (Path(folder) / "result").write_bytes(pickle.dumps(result))
