"""Each tensor from a worker takes up a file descriptor in main, and the loop keeps too many.

Symptom: `RuntimeError: Too many open files. Communication with the workers is no longer possible`,
a few hundred batches into the epoch, or only in the validation loop. From older versions:
`RuntimeError: received 0 items of ancdata`, `OSError: [Errno 24] Too many open files`. If a single
batch has more tensors than a process may open files, the loop hangs.

NOTE [ One Tensor, One Descriptor ]

A worker sends a tensor as a piece of shared memory, and with the sharing strategy
`file_descriptor`, the default on Linux, main gets an open descriptor for it. torch closes the
descriptor when nothing refers to the tensor anymore. A loop that appends the labels of each batch
to a list, to look at all of them after the epoch, keeps one descriptor for every batch. A process
may usually have 1024 open.

One batch alone can be too much: a collate function that returns a list of 500 tensors needs 500
descriptors on both sides. Then it's the worker that fails, in the thread that feeds its queue. The
traceback goes to stderr, the batch is lost, and main waits forever.

Fix: keep a copy, `labels.clone()`, or what you want to know about the labels (`labels.tolist()`),
because a copy is in ordinary memory. Send few tensors, such as one with all sentences of a batch,
and one with their offsets. If that isn't enough, raise the limit (`ulimit -n`). Try the advice in
the message, the sharing strategy `file_system`, last (see `orphaned_segments`).

Seen in: pytorch#973, pytorch#11201, DEIMv2#93 (2025, with the older message).
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader

from dltutor.failures.data.sentences import CLASSES, Sentences, as_list, packed
from dltutor.failures.tools import Case, Failure, Says, facts_of, load

LENGTH = 800


def count_classes(loader: DataLoader[Any]) -> list[int]:
    """Count the sentences of each class at the end of the epoch."""
    seen = []
    for *_, labels in loader:
        seen.append(labels)
    return torch.bincount(torch.cat(seen), minlength=CLASSES).tolist()


def count_classes_of_copies(loader: DataLoader[Any]) -> list[int]:
    """Keep copies of the labels, and count the classes at the end of the epoch."""
    seen = []
    for *_, labels in loader:
        seen.append(labels.clone())
    return torch.bincount(torch.cat(seen), minlength=CLASSES).tolist()


def broken(*, workers: int = 2, start_method: str = "fork", batch_size: int = 4) -> Case:
    """Build a case whose batches are lists of tensors, for a loop that keeps the labels.

    With a `batch_size` of 4, the loop keeps the labels of too many batches. With 200, one batch has
    too many tensors.
    """
    options = {"batch_size": batch_size, "collate_fn": as_list}
    return Case(load(Sentences(LENGTH), workers, start_method, **options), count_classes)


def fixed(*, workers: int = 2, start_method: str = "fork", batch_size: int = 4) -> Case:
    """Build a case whose batches are three tensors each, for a loop that keeps copies."""
    options = {"batch_size": batch_size, "collate_fn": packed}
    return Case(load(Sentences(LENGTH), workers, start_method, **options), count_classes_of_copies)


FAILURE = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Says("raised", ("Too many open files. Communication with the workers",)),
    limits={"open_files": 128},
    deadline=15,
)
