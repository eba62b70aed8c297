"""A dataset that gives each sample, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.utils.data import Dataset, default_collate


@dataclass(frozen=True)
class Missing:
    """A sample that could not be loaded.

    Args:
        reason: Its index, and the type and text of the error.
    """

    reason: str


class Tolerant(Dataset[Any]):
    """The samples of a dataset; for one that raises, a Missing.

    The reason travels as text. An exception may not survive the way to the main process: some
    cannot be pickled, others cannot be unpickled.

    Args:
        dataset: The dataset that may raise.
        errors: What it may raise for a sample that is bad. Anything else is a mistake in the
            program, and is raised.
    """

    def __init__(self, dataset: Any, *errors: type[BaseException]) -> None:
        self.dataset = dataset
        self.errors = errors

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        try:
            return self.dataset[index]
        except self.errors as error:
            return Missing(f"sample {index}: {type(error).__name__}: {error}")


def collate_tolerant(samples: list[Any]) -> tuple[Any, list[str]]:
    """Join the samples that are there.

    Returns:
        The batch, or None where no sample is left; and the reasons of those that are missing.
    """
    present = [sample for sample in samples if not isinstance(sample, Missing)]
    reasons = [sample.reason for sample in samples if isinstance(sample, Missing)]
    return (default_collate(present) if present else None), reasons
