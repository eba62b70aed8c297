"""The workers only read a list of file names, but each gets its own copy, page by page.

Symptom: memory grows during each epoch, in every worker, until each uses as much as main. If memory
runs out, you get `DataLoader worker (pid N) is killed by signal: Killed`. The dataset is a long
list of names, dicts, or tuples that your code never writes to. `htop` shows the full size for each
worker from the start, because RES also counts shared pages. Only the private part (USS) grows.

NOTE [ Reading Is Writing ]

A forked worker shares main's pages until main or the worker writes to a page. Each Python object
begins with a count of the references to it, and any code that reads the object raises and lowers
this count. That's a write, so Linux copies the page. A page of 4096 bytes holds about fifty short
strings, so in shuffled order, the first few percent of the samples copy nearly all pages.

The kind of container makes no difference, because the counts are in the objects. A numpy array of
dtype `object` grows like the list, and so does a pandas column of strings, unless Arrow stores it
(pandas 3 with pyarrow). Under spawn and forkserver, nothing is shared in the first place, because
main pickles the list, and each worker has its private copy before the first sample. A torch tensor
isn't copied even then.

Fix: store the data without Python objects. One array of bytes that holds all strings, with an
array of offsets (`packed`), takes the least memory. Arrow stores strings like that. numpy's
fixed-width `S` is easiest if all strings are of similar length (`fixed_width`). A torch tensor is
shared under every start method (`tensor`), and so is a block of `multiprocessing.shared_memory`
(`shared_memory`). Python removes that block when its creator exits, or when an unrelated process
that attached to it without `track=False` (Python 3.13) exits. A file with `mmap` has no such
owner, and all ranks share it. `gc.freeze()` doesn't help.

Seen in: pytorch#13246, pytorch#20433, dlio_benchmark#165, referit3d#5.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.data.captions import LISTED, STORED, shared_captions
from dltutor.failures.tools import Case, Costs, Failure, Finding, facts_of, load
from dltutor.failures.tools.gauge import Gauge

ListedAs = Literal["list", "tuple", "dicts", "object_array", "pandas"]
StoredAs = Literal["packed", "fixed_width", "tensor", "shared_memory"]


def read_all(loader: DataLoader[str]) -> Finding:
    """Run one epoch, and measure the memory private to the average worker at the last batch.

    If there are no workers, measure main's private memory.
    """
    gauge = Gauge()
    private = 0.0
    for step, _batch in enumerate(loader, start=1):
        if step == len(loader):
            private = gauge.private()
    return Finding(private, "MB private to each worker")


def broken(*, workers: int = 2, start_method: str = "fork", kind: ListedAs = "list") -> Case:
    """Build a case with captions as Python objects, in the container that `kind` names."""
    return _case(LISTED[kind](shared_captions()), workers, start_method)


def fixed(*, workers: int = 2, start_method: str = "fork", kind: StoredAs = "packed") -> Case:
    """Build a case with captions as bytes, in the form that `kind` names."""
    return _case(STORED[kind](shared_captions()), workers, start_method)


def _case(dataset: Dataset[str], workers: int, start_method: str) -> Case:
    order = torch.Generator().manual_seed(0)
    loader = load(dataset, workers, start_method, batch_size=1000, shuffle=True, generator=order)
    return Case(loader, read_all)


FAILURE = Failure(
    **facts_of(__name__), broken=broken, fixed=fixed, sign=Costs(2.5), start_methods=("fork",)
)
