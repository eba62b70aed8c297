"""A worker starts processes of its own with `multiprocessing`, which doesn't allow that.

Symptom: `AssertionError: daemonic processes are not allowed to have children`, under `Caught
AssertionError in DataLoader worker process 0`. With `num_workers=0`, the same code works.

Mechanism: torch starts its workers as daemons, so that they end with main even if main doesn't
clean up. `multiprocessing` doesn't let a daemon start processes, because nothing would end them
after the daemon ends. So a worker can't use a `multiprocessing.Pool`, a `ProcessPoolExecutor`, or a
DataLoader with workers. Often a library starts the processes. `subprocess` isn't affected.

Fix: let the loader's workers be the only ones. Process each sample step by step, and use more
workers. Threads are allowed, for work that waits or that releases the GIL (see `lost_thread` for
where to make them).

Seen in: pytorch#15950 ("This isn't a bug"), datasets#6089, returnn#1495.
"""

from __future__ import annotations

from multiprocessing import Pool
from typing import Final

import torch
from torch.utils.data import Dataset

from dltutor.failures.tools import Case, Failure, Says, facts_of, load

DOCUMENTS: Final = [
    [f"page {page} of document {number}" for page in range(4)] for number in range(8)
]


def count_letters(page: str) -> int:
    """Count a page's letters, which stands in for real work such as recognizing its text."""
    return sum(letter.isalpha() for letter in page)


class Documents(Dataset[torch.Tensor]):
    """A dataset of documents, which processes a document's pages in parallel."""

    def __init__(self, documents: list[list[str]]) -> None:
        self.documents = documents

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, index: int) -> torch.Tensor:
        with Pool(2) as pool:
            return torch.tensor(pool.map(count_letters, self.documents[index]))


class PageByPage(Documents):
    """A dataset of documents, which processes a document's pages one by one."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([count_letters(page) for page in self.documents[index]])


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset starts a pool for each sample."""
    return Case(load(Documents(DOCUMENTS), workers, start_method))


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case in which only the loader starts processes."""
    return Case(load(PageByPage(DOCUMENTS), workers, start_method))


FAILURE: Final = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Says("raised", ("AssertionError: daemonic processes are not allowed to have children",)),
)
