"""One slow sample holds up every batch behind it, even batches that are ready.

Symptom: now and then the loop stalls, then gets many batches at once. In between, most workers are
idle.

Mechanism: by default, the loop gets the batches in the order in which main asked for them. A batch
that another worker finished early waits in main for its turn. Meanwhile, the other workers run out
of work, because main hands out a new batch of indices only for each batch that it delivers. Once a
worker has made its `prefetch_factor` batches, it has nothing to do. The slowest sample sets the
pace for everything.

Fix: set `in_order=False` (torch 2.6 and later) if the order of the batches doesn't matter. Main
delivers each batch when it's ready, and the batch's worker gets the next one. But then the order
differs from run to run, and the samples that take long arrive later than they should, so a resumed
or repeated run isn't the same. The batches behind a slow one in the same worker's queue still have
to wait, though `prefetch_factor=1` keeps that queue short. Or make samples cost about the same: cut
long ones into pieces beforehand, or sort by length into batches.

Seen in: pytorch#105203, pytorch#135409, pytorch#78798.
"""

from __future__ import annotations

import re
import time
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.tools import Case, Costs, Failure, Finding, facts_of, load, own_folder

LENGTH = 32
BATCH = 2
LONG = 3  # the index of the long text, which is in W1's first batch


class Texts(Dataset[torch.Tensor]):
    """A dataset with the number of different words in each text of a folder."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*.txt"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        words: set[str] = set()
        with self.paths[index].open(encoding="utf-8") as file:
            for line in file:
                words.update(re.findall(r"\w+", line.lower()))
        return torch.tensor(len(words))


@cache
def shared_texts() -> Path:
    """Write 31 letters of 3 kB and a book of 18 MB, once per process, and return their folder."""
    folder = own_folder()
    random = np.random.default_rng(0)
    for number in range(LENGTH):
        words = [f"w{word}" for word in random.integers(0, 10_000, 500)]
        letter = "\n".join(" ".join(words[i : i + 10]) for i in range(0, 500, 10)) + "\n"
        text = letter * 6000 if number == LONG else letter
        (folder / f"{number:03}.txt").write_text(text, encoding="utf-8")
    return folder


def time_half_an_epoch(loader: DataLoader[torch.Tensor]) -> Finding:
    """Time the first half of the second epoch, because the first epoch also starts the workers."""
    for _ in loader:
        pass
    began = time.perf_counter()
    for number, _ in enumerate(loader, start=1):
        if number == len(loader) // 2:
            seconds = time.perf_counter() - began
    return Finding(1000 * seconds, "ms until half of the batches had arrived")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that delivers the batches in order."""
    return _case(workers, start_method, in_order=True)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that delivers each batch when it's ready."""
    return _case(workers, start_method, in_order=False)


def _case(workers: int, start_method: str, in_order: bool) -> Case:
    options = {"batch_size": BATCH, "prefetch_factor": 1, "persistent_workers": True}
    loader = load(Texts(shared_texts()), workers, start_method, in_order=in_order, **options)
    return Case(loader, time_half_an_epoch)


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Costs(3), ordered=False)
