"""Main started the dataset's thread, and a forked worker doesn't have it.

Symptom: the epoch doesn't start, without an error: a worker waits in `future.result()` (of an
executor) or in `queue.get()` (of a thread that reads ahead). `SimpleQueue.get` is C and has no
frame, so the innermost line is the one that calls it. If the thread fills a queue, the first
samples still arrive, the same ones from every worker, and then no more.

Mechanism: fork copies main's memory, but only the thread that called fork. The executor in the
worker is a copy that thinks its thread is there. The copy puts the work into its queue and doesn't
start another thread, so nothing takes the work out. A thread that fills a queue is missing as well:
every worker has a copy of what was in the queue, and nothing follows. Under spawn and forkserver,
such a dataset can't be pickled: `TypeError: cannot pickle '_queue.SimpleQueue' object` (from Python
3.14 on `PicklingError: Can't pickle local object <function WorkerContext.prepare.<locals>...>`), an
error instead of a hang (see `unpicklable_handle`).

Fix: make executors and threads once in each process that uses them, and leave them out of the
pickle. Clients of cloud stores (s3fs, gcsfs) keep such a thread, so also make the client in the
worker, or don't fork.

Seen in: s3fs#369, gcsfs#379, Samudra#660.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Final

import torch
from torch.utils.data import Dataset

from dltutor.failures.tools import Case, Failure, PerProcess, Says, facts_of, load, own_folder

PAIRS: Final = 16
SIZE: Final = 8  # bytes in a file


class Pairs(Dataset[torch.Tensor]):
    """An image and its mask, read at the same time."""

    def __init__(self, folder: Path) -> None:
        self.images = sorted(folder.glob("*.image"))
        self.thread = ThreadPoolExecutor(max_workers=1)
        self.masks = list(self.thread.map(self.find_mask, self.images))

    def find_mask(self, image: Path) -> Path:
        return image.with_suffix(".mask").resolve(strict=True)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> torch.Tensor:
        mask = self.thread.submit(self.masks[index].read_bytes)
        image = self.images[index].read_bytes()
        return torch.tensor([list(image), list(mask.result())])


class OwnThreadPairs(Pairs):
    """A dataset of images and their masks, with an executor that each process makes for itself."""

    def __init__(self, folder: Path) -> None:
        self.images = sorted(folder.glob("*.image"))
        self.masks = [self.find_mask(image) for image in self.images]
        self.executor = PerProcess(partial(ThreadPoolExecutor, max_workers=1))

    @property
    def thread(self) -> ThreadPoolExecutor:  # type: ignore[override]  # an attribute in Pairs
        """This process's executor."""
        return self.executor.get()


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset starts its thread in main."""
    return Case(load(Pairs(pairs_folder()), workers, start_method))


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset starts a thread in each process that uses one."""
    return Case(load(OwnThreadPairs(pairs_folder()), workers, start_method))


@cache
def pairs_folder() -> Path:
    """Write 16 images and their masks, once per process, and return their folder."""
    folder = own_folder()
    for number in range(PAIRS):
        (folder / f"{number:02}.image").write_bytes(bytes([number] * SIZE))
        (folder / f"{number:02}.mask").write_bytes(bytes([number % 2] * SIZE))
    return folder


FAILURE: Final = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Says("hung", ("mask.result()",)),
    start_methods=("fork",),
    deadline=3,
)
