"""The data is in a module global that main fills, and the worker's global is still empty.

Symptom: `TypeError: 'NoneType' object is not subscriptable`, under `Caught TypeError in DataLoader
worker process 0`, in a line that reads a global. The same script runs with `num_workers=0`, and
under fork.

Mechanism: a global lives in a module, and each process has its own modules. A forked worker has a
copy of main's memory, where the global was already filled. A worker started by spawn or forkserver
imports the module again, which sets the worker's global to None. Main sends the dataset to the
worker, but not the global that the dataset reads, and nothing in the code shows that.

Fix: make the data an attribute of the dataset, so that main sends the data with the dataset. Pass
large arrays as torch tensors, because tensors go through shared memory, but main copies a numpy
array or a list to each worker.

Seen in: measured here. We found no public report that names this cause. An article in the course's
sources shows this code and says that it may hang, but it doesn't.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import torch
from torch.utils.data import Dataset

from dltutor.failures.tools import Case, Failure, Says, facts_of, load, own_folder

EMBEDDINGS: torch.Tensor | None = None


def load_embeddings(path: Path) -> None:
    """Load the table of embeddings from a file, for all datasets in this process."""
    global EMBEDDINGS
    EMBEDDINGS = torch.load(path)


class Words(Dataset[torch.Tensor]):
    """A dataset with the embedding of each word."""

    def __init__(self, words: list[int]) -> None:
        self.words = words

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> torch.Tensor:
        return EMBEDDINGS[self.words[index]]  # type: ignore[index]  # None until load_embeddings runs


class WordsWithEmbeddings(Words):
    """A dataset with the embedding of each word, and with the table of all embeddings."""

    def __init__(self, words: list[int], embeddings: torch.Tensor) -> None:
        super().__init__(words)
        self.embeddings = embeddings

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.embeddings[self.words[index]]


WORDS: Final = [number * 7 % 32 for number in range(16)]


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case in which main fills a global table of embeddings."""
    load_embeddings(embeddings_file())
    return Case(load(Words(WORDS), workers, start_method))


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset holds the table of embeddings."""
    dataset = WordsWithEmbeddings(WORDS, torch.load(embeddings_file()))
    return Case(load(dataset, workers, start_method))


@cache
def embeddings_file() -> Path:
    """Write a table of 32 embeddings to a file, once per process, and return its path."""
    path = own_folder() / "embeddings.pt"
    torch.save(torch.arange(32 * 4).reshape(32, 4), path)
    return path


FAILURE: Final = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Says("raised", ("TypeError: 'NoneType' object is not subscriptable",)),
    start_methods=("spawn", "forkserver"),
)
