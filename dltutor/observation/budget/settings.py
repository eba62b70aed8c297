"""The settings of a loader that decide how much it holds."""

from __future__ import annotations

import mmap
import multiprocessing
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """The settings of a loader that decide what it holds.

    Args:
        num_workers: 1 or more.
        prefetch_factor: Batches that each worker makes ahead.
        batch_size: Samples in a batch.
        sample_bytes: The size of one sample, a single tensor, in bytes.
        start_method: fork, spawn or forkserver, as far as the system has them.

    Raises:
        ValueError: One of them is out of its range.
    """

    num_workers: int
    prefetch_factor: int
    batch_size: int
    sample_bytes: int
    start_method: str

    def __post_init__(self) -> None:
        why = ": with 0 workers nothing is prefetched" if self.num_workers == 0 else ""
        _check_count("num_workers", self.num_workers, why)
        _check_count("prefetch_factor", self.prefetch_factor)
        _check_count("batch_size", self.batch_size)
        _check_count("sample_bytes", self.sample_bytes)
        check_start_method(self.start_method)

    @property
    def batch_bytes(self) -> int:
        """One batch in shared memory, in bytes: whole pages."""
        pages = -(-self.batch_size * self.sample_bytes // mmap.PAGESIZE)
        return pages * mmap.PAGESIZE

    @property
    def waiting(self) -> int:
        """Batches that are made, or being made, when the queues are full."""
        return self.prefetch_factor * self.num_workers

    @property
    def shared(self) -> int:
        """Bytes in `/dev/shm` when the queues are full and the loop holds a batch."""
        return (self.waiting + 1) * self.batch_bytes

    @property
    def peak_shared(self) -> int:
        """Bytes in `/dev/shm` for a moment: the loop gets a batch before it lets go of the last."""
        return self.shared + self.batch_bytes


def check_start_method(start_method: object) -> None:
    """Raise a ValueError for what is no start method here."""
    known = multiprocessing.get_all_start_methods()
    if start_method not in known:
        raise ValueError(f"start_method must be one of {', '.join(known)}, got {start_method!r}")


def _check_count(name: str, value: object, why: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a whole number of 1 or more, got {value!r}{why}")
