"""What a learner's dataset delivers, and which of the files end its epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, default_collate

from dltutor.lessons.lesson_01.fresh import Folder
from dltutor.observation import Observation, observe
from dltutor.observation.time_limits import DeadlinePassed, deadline

PATIENCE: Final = 10  # seconds for each thing that the answer does
BATCH_SIZE: Final = 8


@dataclass(frozen=True)
class Delivery:
    """What a loader with this dataset brought.

    Args:
        workers: How many it had.
        dataset: The dataset, as it is after the run.
        observation: How the run ended.
        epochs: For each epoch the batches; tensors are arrays, copied out of shared memory.
    """

    workers: int
    dataset: Any
    observation: Observation
    epochs: tuple[list[Any], ...]


def run(dataset: Any, *, workers: int, epochs: int) -> Delivery:
    """Run a loader over the dataset, under `observe`."""
    loader = DataLoader(
        dataset,
        batch_size=BATCH_SIZE,
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,
    )
    seen: list[list[Any]] = []

    def collect(loader: DataLoader[Any]) -> None:
        seen.append([])
        for batch in loader:
            seen[-1].append(_own(batch))

    observation = observe(loader, consume=collect, epochs=epochs, deadline=PATIENCE)
    return Delivery(workers, dataset, observation, tuple(seen))


def odd_files_that_end_it(answer: type, folder: Folder) -> dict[str, str]:
    """Path of each odd file that by itself ends an epoch -> the type of the exception.

    Empty where an epoch without any odd file ends too: then the files are not the reason.
    """
    if _error_with(answer, folder, ""):
        return {}
    errors = {path: _error_with(answer, folder, path) for path in folder.odd}
    return {path: error for path, error in errors.items() if error}


def _error_with(answer: type, folder: Folder, path: str) -> str:
    with folder.with_one_odd_file(path):
        try:
            with deadline(1):
                dataset = answer(folder.root)
                default_collate([dataset[i] for i in range(len(dataset))])
        except Exception as error:
            return type(error).__name__
        except DeadlinePassed:
            return "too slow"
    return ""


def missing_samples(dataset: Any) -> int:
    """How many samples are None, or hold a None."""
    count = 0
    try:
        with deadline(PATIENCE):
            for i in range(len(dataset)):
                sample = dataset[i]
                parts = sample if isinstance(sample, (tuple, list)) else (sample,)
                count += any(part is None for part in parts)
    except (Exception, DeadlinePassed):
        return count
    return count


def _own(batch: Any) -> Any:
    # A batch from a worker lies in shared memory, which should not outlive the run.
    if isinstance(batch, torch.Tensor):
        return batch.detach().numpy().copy()
    if isinstance(batch, (list, tuple)):
        return [_own(part) for part in batch]
    return batch
