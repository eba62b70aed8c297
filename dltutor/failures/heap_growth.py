"""A worker grows until it has sent 128 tensors, because the C library doesn't reuse freed memory.

Symptom: each worker's memory grows with every sample although nothing is kept: no list, no cache,
no cycle. Samples are a megabyte or more, and decoding makes temporary tensors of that size. Memory
levels off after each worker has sent 128 tensors, at many times the size of a sample, but with
large samples the machine may run out of memory first. `gc.collect()` doesn't help, smaller batches
make the growth worse, and on another machine, or in another container, the same program's memory
may stay flat.

NOTE [ Why the Heap Grows, and Where It Stops ]

glibc gives each block above a size threshold its own mapping, and returns the mapping to the
operating system when the block is freed. At the first such free, glibc concludes that blocks of
this size come and go, and raises the threshold, so from then on it cuts such blocks from the heap.
torch asks for aligned blocks, for which glibc before 2.38 doesn't find a freed block of the same
size (glibc bug 14581). Instead, glibc needs a larger hole, made of freed blocks that have merged,
or the end of the heap.

Freed blocks can't merge in a worker. `torch.multiprocessing.reductions.shared_cache` has an entry
for each storage that was sent, and drops dead entries when there are more than 128. Each storage's
record is small, is also on the heap, and sits behind the freed sample. After 128 storages, the
holes merge, and glibc uses them from then on. Measured with glibc 2.36 and torch 2.13 on samples of
1.7 MB: dropping dead entries beyond 8, 32, 128, and 256 let a worker grow by 10, 70, 240, and 460
MB. Without workers, nothing is sent, so nothing grows. A forked worker first uses up the memory
that main has freed, so if main was busy, the worker grows later.

Holes that a worker's heap has from the start can also hide the growth. We made holes of up to 96 kB
on purpose. With samples of 1.2 MB, 8 of 20 runs hardly grew if recordings were 80 kB, and all 20
grew if they were 400 kB. With samples of 1.5 MB and recordings of 800 kB, 5 of 20 didn't grow. So
the sizes alone don't decide whether a worker grows.

Setting a threshold, with `mallopt` or `MALLOC_MMAP_THRESHOLD_`, stops it from rising, so large
blocks have their own mappings for good. `malloc_trim` gives free pages back from the middle of the
heap, too.

Fix: set the thresholds yourself, with `mallopt` in `worker_init_fn`, or for all processes with
`MALLOC_MMAP_THRESHOLD_=65536` in the environment before Python starts. Or preload jemalloc with
`LD_PRELOAD`, or call `malloc_trim(0)` every few samples. If you know a sample's size, write into
buffers that each worker allocates once. glibc 2.38 and later (Debian 13, Ubuntu 24.04) hardly shows
the growth.

Seen in: measured here, on glibc 2.36 and 2.41. We found no public report that names the cause.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.data.readings import shared_recordings
from dltutor.failures.tools import Case, Costs, Failure, Finding, facts_of, load
from dltutor.failures.tools.gauge import growth

_LENGTH: Final = 200_000  # int16 numbers in a recording, which make a file of 400 kB (see the note)
_FRAME: Final = 256


class Recordings(Dataset[torch.Tensor]):
    """A dataset of recordings, cut into overlapping frames that are scaled to the same peak."""

    step = 64  # numbers between the starts of two frames. With 64, a sample is 3 MB.

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        recording = torch.from_numpy(np.load(self.paths[index])).float()
        frames = recording.unfold(0, _FRAME, self.step)
        centred = frames - frames.mean(dim=1, keepdim=True)
        return centred / centred.abs().amax(dim=1, keepdim=True)


def return_freed_memory(worker_id: int) -> None:
    """Make the worker's C library return large blocks to Linux when they're freed."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # glibc has mallopt, but few other C libraries do
        libc.mallopt(-3, 65536)  # M_MMAP_THRESHOLD: larger blocks get their own mapping
        libc.mallopt(-1, 65536)  # M_TRIM_THRESHOLD: return free memory at the end of the heap


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run one epoch, and measure how much the average worker grew."""
    return Finding(growth(loader), "MB that each worker grew by")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that leaves the C library's settings at their defaults."""
    return Case(load(Recordings(_paths()), workers, start_method, batch_size=1), train)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose workers tell the C library to return freed memory."""
    loader = load(
        Recordings(_paths()),
        workers,
        start_method,
        batch_size=1,
        worker_init_fn=return_freed_memory,
    )
    return Case(loader, train)


def _paths() -> tuple[str, ...]:
    return shared_recordings(40, _LENGTH)


def reuses_memory() -> str | None:
    """Return why the heap doesn't grow on this machine, or None if the heap grows."""
    library = c_library()
    name, _, version = library.partition(" ")
    if name != "glibc":
        return f"the C library is {library}, not glibc"
    if tuple(map(int, version.split(".")[:2])) >= (2, 38):
        return f"{library} reuses aligned memory (glibc before 2.38 doesn't)"
    for setting in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"):
        if os.environ.get(setting):
            return f"{setting} is set"
    return None


def c_library() -> str:
    """Return "glibc" and its version, or else "of another kind" or "of an unknown kind"."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or "of an unknown kind"
    except (AttributeError, OSError, ValueError):  # confstr fails with musl and on macOS
        return "of another kind"


FAILURE = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Costs(3),
    isolated=True,  # a worker forked from a busy main uses up main's free memory before it grows
    absent=reuses_memory,
)
