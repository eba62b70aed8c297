"""Define a dataset that returns each sample, or the reason why the sample couldn't be loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.utils.data import Dataset, default_collate


@dataclass(frozen=True)
class Missing:
    """A stand-in for a sample that couldn't be loaded, with the reason.

    Args:
        reason: The sample's index, and the error's type and message.
    """

    reason: str


class Tolerant(Dataset[Any]):
    """A dataset with another dataset's samples, and a Missing for each one that fails to load.

    The reason travels as a string, because some exceptions can't be pickled and others can't be
    unpickled in the main process.

    Args:
        dataset: The dataset whose samples may fail to load.
        errors: The types of exception that a bad sample may cause. Any other exception is a bug,
            so the dataset raises that exception.
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
    """Collate the samples that could be loaded.

    Returns:
        The batch (None if no sample is left), and the reason for each missing sample.
    """
    present = [sample for sample in samples if not isinstance(sample, Missing)]
    reasons = [sample.reason for sample in samples if isinstance(sample, Missing)]
    return (default_collate(present) if present else None), reasons
