"""Lesson 10: leaking loaders."""

from __future__ import annotations

import ctypes
import gc
import time
import tracemalloc
from typing import Any, Final

import psutil
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures import growing_cache, heap_growth
from dltutor.failures.data.readings import shared_recordings
from dltutor.failures.tools.gauge import Gauge, growth
from dltutor.lessons.lesson_10.material import Collecting, JobD, make_jobs
from dltutor.lessons.lesson_10.transfer import make_model, scans_loader
from dltutor.tables import MB
from measured_claims import DEEP_DIVE, CannotMeasure, Claim, Measured, Source

_LEPARD: Final = Source(
    "rabbityl/lepard#12", "2022-04-25", "https://github.com/rabbityl/lepard/issues/12"
)

_EPOCHS: Final = 5  # of 64 samples
_FEW: Final = 8  # batches: on their way, in the loop, and let go a moment ago


class _Trimmed(JobD):
    """The same; before every tenth sample the C library gives back what is free."""

    count = 0

    def __getitem__(self, index: int) -> torch.Tensor:
        self.count += 1
        if self.count % 10 == 0:
            ctypes.CDLL(None).malloc_trim(0)
        return super().__getitem__(index)


def _about(mb: float) -> str:
    return f"about {round(mb, -1):.0f} MB" if mb > 15 else "less than 15 MB"


def _collected() -> Measured:
    _needs_the_growth()
    job = make_jobs()["D"]
    plain = growth(job.loader(), _EPOCHS)
    collected = growth(job.loader(Collecting(job.dataset)), _EPOCHS)
    told = growth(job.loader(worker_init_fn=heap_growth.return_freed_memory), _EPOCHS)
    trimmed = growth(job.loader(_Trimmed(job.dataset.paths)), _EPOCHS)  # type: ignore[attr-defined]
    times = _times_as_long()
    helps = collected < plain / 2
    return Measured(
        f"320 samples of 0.9 MB, nothing kept, {heap_growth.c_library()}: each of two workers grew "
        f"by {_about(plain)}, with `gc.collect()` by {_about(collected)}, with `mallopt` by "
        f"{_about(told)}, with `malloc_trim(0)` before every tenth sample by {_about(trimmed)}. In "
        f"a fork of a process that has imported torch, an epoch of samples of a millisecond took "
        f"more than {times} times as long.",
        "it helps." if helps else "refuted, at a high price; what grows is the C library's heap.",
    )


def _times_as_long() -> int:
    healthy = growing_cache.Recordings(shared_recordings(64, 200_000))
    seconds = []
    for dataset in (healthy, Collecting(healthy)):
        loader: DataLoader[Any] = DataLoader(dataset, num_workers=1, multiprocessing_context="fork")
        batches = iter(loader)
        next(batches)
        began = time.perf_counter()
        for _ in batches:
            pass
        seconds.append(time.perf_counter() - began)
    ratio = seconds[1] / seconds[0]
    return next((least for least in (10, 5, 3, 2) if ratio > least), 1)


def _piled_up() -> Measured:
    _needs_the_growth()
    job = make_jobs()["D"]
    gauge, most, taken = Gauge(), 0.0, 0
    one = job.dataset[0].nbytes / MB
    loader = job.loader()
    for _ in range(4):
        for _batch in loader:
            most, taken = max(most, gauge.shared()), taken + 1
    few = most / one <= _FEW
    return Measured(
        f"Of {taken} batches, {'never' if few else 'at times'} more than {_FEW} were in shared "
        "memory at once. Two workers with a `prefetch_factor` of 2 may have 4 on their way.",
        "refuted; what waits is bounded, and it is not what grows." if few else "holds.",
    )


def _needs_the_growth() -> None:
    if reason := heap_growth.reuses_memory():
        raise CannotMeasure(f"Here nothing grows: {reason}.")


def _percent() -> Measured:
    percent = psutil.virtual_memory().total / 100 / MB
    job = make_jobs()["A"]
    both = 2 * growth(job.loader(), _EPOCHS)
    return Measured(
        f"One per cent of this machine's memory is {_about(percent)}. A leak that was seen at once "
        f"by process (USS), two workers with a growing cache, had {_about(both)}.",
        "too coarse for a short run, and it names no process; USS by process names it."
        if both < percent
        else "sees it, and names no process; USS by process names it.",
    )


class _Tensors(Dataset[Any]):
    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths, self.kept = paths, list[torch.Tensor]()

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> int:
        self.kept.append(torch.ones(200_000))
        return index


def _traced() -> Measured:
    paths = shared_recordings(64, 200_000)
    shares = {}
    for name, kind, workers in (
        ("numpy arrays in a cache, without workers", growing_cache.CachedRecordings, 0),
        ("tensors in a list, without workers", _Tensors, 0),
        ("numpy arrays in a cache, in two workers", growing_cache.CachedRecordings, 2),
    ):
        dataset: Any = kind(paths)
        loader: DataLoader[Any] = DataLoader(
            dataset, num_workers=workers, multiprocessing_context="fork" if workers else None
        )
        gc.collect()
        tracemalloc.start()
        for _ in loader:
            pass
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        shares[name] = size / (len(paths) * 800_000)
    shown = "; ".join(f"{name}: {_words(share)}" for name, share in shares.items())
    return Measured(
        f"Of 49 MB that were kept, `tracemalloc` in main accounted for: {shown}.",
        "holds for Python's and numpy's memory in the same process; torch's tensors and workers "
        "it does not see."
        if [*map(_words, shares.values())] == ["most", "next to nothing", "next to nothing"]
        else "holds in other parts than expected.",
    )


def _words(share: float) -> str:
    return "most" if share > 0.6 else "next to nothing" if share < 0.2 else "some"


def _top_ten() -> Measured:
    dataset = growing_cache.CachedRecordings(shared_recordings(64, 200_000))
    try:
        tracemalloc.take_snapshot()
        first = "no error"
    except RuntimeError as error:
        first = f"RuntimeError: {error}"
    tracemalloc.start()
    for _ in DataLoader(dataset):
        pass
    top = tracemalloc.take_snapshot().statistics("lineno")[0].traceback[0]
    named = top.filename == growing_cache.__file__
    return Measured(
        f"As printed: `{first}`. After `tracemalloc.start()`, the line in which a dataset without "
        f"workers makes the arrays that it keeps {'comes first' if named else 'is not the first'}.",
        "refuted as printed; holds after `tracemalloc.start()`, for arrays made in main."
        if named and first != "no error"
        else "other than expected.",
    )


def _losses() -> Measured:
    kept = [_batches_kept(backward) for backward in (True, False)]
    return Measured(
        f"Of 16 batches whose losses were kept, {kept[0]} were still in shared memory after "
        f"`backward()`, and {kept[1]} without it, as in a validation.",
        "holds without `backward()` only." if kept == [0, 16] else "neither as expected.",
    )


def _batches_kept(backward: bool) -> int:
    gauge, model, losses = Gauge(), make_model(), []
    one = 0.0
    for images, labels in scans_loader():
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        if backward:
            loss.backward()
        losses.append(loss)
        one = images.nbytes / MB
        del images, labels, loss
    return round(gauge.shared() / one)


def _not_persistent() -> Measured:
    grew = {}
    for persistent in (True, False):
        gauge = Gauge()
        dataset = growing_cache.CachedRecordings(shared_recordings(64, 200_000))
        loader: DataLoader[Any] = DataLoader(
            dataset,
            batch_size=4,
            shuffle=True,
            generator=torch.Generator().manual_seed(0),
            num_workers=2,
            persistent_workers=persistent,
            multiprocessing_context="fork",
        )
        epochs = [[gauge.private() for _ in loader] for _ in range(4)]
        grew[persistent] = [max(epoch) - epochs[0][0] for epoch in epochs]
        del loader
    first, last = grew[False][0], grew[False][-1]
    flat = abs(last - first) < 8
    return Measured(
        f"Four epochs over 49 MB of recordings, cached in each of two workers. With "
        f"`persistent_workers=True` a worker has {_about(grew[True][0])} more after the first "
        f"epoch and {_about(grew[True][-1])} after the last; without, {_about(first)} and "
        f"{_about(last)}.",
        "holds from epoch to epoch; within each epoch the cache grows as before, and serves nobody "
        "afterwards."
        if flat
        else "refuted.",
    )


CLAIMS: Final = (
    Claim(
        "With large samples, `gc.collect()` at the top of `__getitem__` ends the growth of memory.",
        DEEP_DIVE,
        "Two workers read samples of 0.9 MB of which nothing is kept, 320 times. Their private "
        "memory is read with every batch.",
        _collected,
        seconds=500,
    ),
    Claim(
        "Memory grows because the workers load faster than they release.",
        DEEP_DIVE,
        "The same loader; with each batch, the segments of shared memory that any of its processes "
        "has open are counted.",
        _piled_up,
    ),
    Claim(
        "`psutil.virtual_memory().percent` shows that memory is leaking.",
        DEEP_DIVE,
        "One per cent of this machine's memory, beside the growth of a leak that a reading by "
        "process shows.",
        _percent,
    ),
    Claim(
        "`tracemalloc` gives more detailed information.",
        DEEP_DIVE,
        "What it accounts for in main, of memory that a dataset keeps, without workers and with "
        "two.",
        _traced,
    ),
    Claim(
        "Three lines with `tracemalloc.take_snapshot()` list what takes memory.",
        DEEP_DIVE,
        "The call as in the article; then after `tracemalloc.start()` and an epoch with a cache.",
        _top_ten,
    ),
    Claim(
        "`losses.append(loss)` keeps the whole batch.",
        _LEPARD,
        "The losses of 16 batches are kept, and the batches that are left in shared memory are "
        "counted.",
        _losses,
    ),
    Claim(
        "`persistent_workers=False` stops a leak in the workers.",
        Source("a common answer in forums"),
        "A dataset with a cache that has no bound, four shuffled epochs, two workers.",
        _not_persistent,
    ),
)
