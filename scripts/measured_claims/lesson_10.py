"""Measure the claims for lesson 10: leaking loaders."""

from __future__ import annotations

import ctypes
import gc
import time
import tracemalloc
from typing import Any, Final

import psutil
import torch

from dltutor.failures import growing_cache, heap_growth
from dltutor.failures.data.readings import shared_recordings
from dltutor.failures.tools.contract import load
from dltutor.failures.tools.gauge import Gauge, growth
from dltutor.lessons.lesson_10.helpers import Collecting, JobD, make_jobs
from dltutor.lessons.lesson_10.transfer import make_model, scans_loader
from dltutor.tables import MB
from measured_claims import CannotMeasure, Facts, Samples

_EPOCHS: Final = 5  # epochs, each with 64 samples
_FEW: Final = 8  # the most batches in memory at once if none leaks


class _Trimmed(JobD):
    """Lesson 10's job D, with a call to `malloc_trim` before every tenth sample."""

    count = 0

    def __getitem__(self, index: int) -> torch.Tensor:
        self.count += 1
        if self.count % 10 == 0:
            ctypes.CDLL(None).malloc_trim(0)
        return super().__getitem__(index)


def _about(mb: float) -> str:
    return f"about {round(mb, -1):.0f} MB" if mb > 15 else "less than 15 MB"


def _recordings() -> tuple[str, ...]:
    return shared_recordings(64, 200_000)  # 64 files, 49 MB together as float32


def _growing_job() -> Any:
    if reason := heap_growth.reuses_memory():
        raise CannotMeasure(f"Memory doesn't grow on this machine: {reason}.")
    return make_jobs()["D"]


def collected() -> Facts:
    job = _growing_job()
    plain, collecting, mallopt, trimmed = (
        growth(loader, _EPOCHS)
        for loader in (
            job.loader(),
            job.loader(Collecting(job.dataset)),
            job.loader(worker_init_fn=heap_growth.return_freed_memory),
            job.loader(_Trimmed(job.dataset.paths)),
        )
    )
    return {
        "library": heap_growth.c_library(),
        "plain": _about(plain),
        "collected": _about(collecting),
        "mallopt": _about(mallopt),
        "trimmed": _about(trimmed),
        "times": _times_as_long(),
        "helps": collecting < plain / 2,
    }


def _times_as_long() -> int:
    healthy = growing_cache.Recordings(_recordings())
    seconds = []
    for dataset in (healthy, Collecting(healthy)):
        batches = iter(load(dataset, 1, "fork", batch_size=1))
        next(batches)
        began = time.perf_counter()
        for _ in batches:
            pass
        seconds.append(time.perf_counter() - began)
    ratio = seconds[1] / seconds[0]
    return next((least for least in (10, 5, 3, 2) if ratio > least), 1)


def piled_up() -> Facts:
    job = _growing_job()
    gauge, most, taken = Gauge(), 0.0, 0
    one = job.dataset[0].nbytes / MB
    loader = job.loader()
    for _ in range(4):
        for _batch in loader:
            most, taken = max(most, gauge.shared()), taken + 1
    return {"taken": taken, "few": most / one <= _FEW, "most": _FEW}


def percent() -> Facts:
    one = psutil.virtual_memory().total / 100 / MB
    both = 2 * growth(make_jobs()["A"].loader(), _EPOCHS)
    return {"percent": _about(one), "both": _about(both), "too coarse": both < one}


def traced() -> Facts:
    paths = _recordings()
    kept: list[torch.Tensor] = []

    def keep(index: int) -> int:
        kept.append(torch.ones(200_000))
        return index

    accounted = {}
    for name, dataset, workers in (
        (
            "numpy arrays in a cache, without workers",
            growing_cache.CachedRecordings(paths),
            0,
        ),
        ("tensors in a list, without workers", Samples(keep, len(paths)), 0),
        ("numpy arrays in a cache, in two workers", growing_cache.CachedRecordings(paths), 2),
    ):
        gc.collect()
        tracemalloc.start()
        for _ in load(dataset, workers, "fork", batch_size=1):
            pass
        share = tracemalloc.get_traced_memory()[0] / (len(paths) * 800_000)
        tracemalloc.stop()
        accounted[name] = "most" if share > 0.6 else "next to nothing" if share < 0.2 else "some"
    return {"accounted": accounted}


def top_ten() -> Facts:
    dataset = growing_cache.CachedRecordings(_recordings())
    try:
        tracemalloc.take_snapshot()
        first = "no error"
    except RuntimeError as error:
        first = f"RuntimeError: {error}"
    tracemalloc.start()
    for _ in load(dataset, 0, "", batch_size=1):
        pass
    top = tracemalloc.take_snapshot().statistics("lineno")[0].traceback[0]
    named = top.filename == growing_cache.__file__
    return {"first": first, "named": named, "as expected": named and first != "no error"}


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


def losses() -> Facts:
    return {"backward": _batches_kept(True), "without": _batches_kept(False)}


def not_persistent() -> Facts:
    grew = {}
    for persistent in (True, False):
        gauge = Gauge()
        dataset = growing_cache.CachedRecordings(_recordings())
        order = torch.Generator().manual_seed(0)
        options = {"persistent_workers": persistent, "shuffle": True, "generator": order}
        loader = load(dataset, 2, "fork", **options)
        epochs = [[gauge.private() for _ in loader] for _ in range(4)]
        grew[persistent] = [max(epoch) - epochs[0][0] for epoch in epochs]
        del loader
    kept, fresh = grew[True], grew[False]
    return {
        "first kept": _about(kept[0]),
        "last kept": _about(kept[-1]),
        "first": _about(fresh[0]),
        "last": _about(fresh[-1]),
        "flat": abs(fresh[-1] - fresh[0]) < 8,
    }
