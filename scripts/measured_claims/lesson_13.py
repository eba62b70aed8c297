"""Lesson 13: how many workers."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from dltutor.failures import nested_persistent
from dltutor.failures.cheap_samples import measurements
from dltutor.lessons.lesson_13 import processes_started
from dltutor.observation import machine, throughput
from dltutor.observation.throughput import how_many_workers
from measured_claims import DEEP_DIVE, CannotMeasure, Claim, Measured, Source

_FORUM: Final = Source(
    "Guidelines for assigning num_workers to DataLoader, PyTorch forum",
    "",
    "https://discuss.pytorch.org/t/guidelines-for-assigning-num-workers-to-dataloader/813",
)
_WARNING: Final = Source(
    "torch's own warning, dataloader.py",
    "v2.13",
    "https://github.com/pytorch/pytorch/blob/v2.13.0/torch/utils/data/dataloader.py",
)
_ADVICE: Final = Source("common advice")


class _Slow(Dataset[torch.Tensor]):
    """Samples that each wait for a disk: 10 ms, and no computation."""

    def __init__(self, length: int = 100) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.01)
        return torch.zeros(1)


def _rates(dataset: Dataset[Any], batch: int, *counts: int, **options: Any) -> list[Any]:
    # Samples per second of each run, for each number of workers, once they have started.
    options = {"num_workers": 1, "multiprocessing_context": "fork"} | options
    loader = DataLoader(dataset, batch, **options)
    try:
        speeds = how_many_workers(loader, counts=counts, runs=3, batches=16).speeds
    except throughput.CannotMeasure as reason:
        raise CannotMeasure(f"A loader was too slow here: {reason}.") from None
    found = {speed.workers: speed.rates for speed in speeds}
    return [found[workers] for workers in counts]


def _compared(rates: Sequence[float], others: Sequence[float]) -> str:
    gains = [rate / other for rate, other in zip(rates, others, strict=False)]
    if min(gains) > 1.3:
        return "faster"
    if max(gains) < 1 / 1.3:
        return "slower"
    if max(gains) > 1.3:
        told = " and ".join(f"{gain:.1f}" for gain in (min(gains), max(gains)))
        raise CannotMeasure(f"The runs scatter: between {told} times as fast.")
    return "no faster"


def _waiting(workers: int, others: int) -> str:
    return _compared(*_rates(_Slow(4000), 4, workers, others))


def _rows(workers: int, others: int) -> str:
    return _compared(*_rates(measurements(), 64, workers, others))


def _ten_times() -> Measured:
    with_eight, without = _rates(_Slow(4000), 4, 8, 0)
    waiting, times = _compared(with_eight, without), median(with_eight) / median(without)
    rows = _rows(8, 0)
    return Measured(
        f"With 8 workers instead of none, samples that wait 10 ms come {waiting}, but "
        f"{'less' if times < 10 else 'more'} than ten times as fast; rows of a tensor come {rows}.",
        "holds for slow samples, though not ten times with 8 workers; refuted for cheap ones, "
        "which come faster without."
        if (waiting, rows) == ("faster", "slower") and times < 10
        else "refuted here.",
    )


def _rule(name: str, workers: int) -> Measured:
    found = {
        "samples that wait": _waiting(4 * workers, workers),
        "rows of a tensor": _rows(0, workers),
    }
    beaten = [kind for kind, gain in found.items() if gain == "faster"]
    waiting, rows = found.values()
    return Measured(
        f"Against {name}: samples that wait come {waiting} with four times as many; rows of a "
        f"tensor come {rows} with none.",
        f"refuted for {', and for '.join(beaten)}; a place to begin to measure."
        if beaten
        else "holds here.",
    )


def _slow_or_freeze() -> Measured:
    cores = machine().cores
    gain = _waiting(4 * cores, cores)
    return Measured(
        f"Samples that wait come {gain} with four times as many workers as cores than with as many "
        "as cores.",
        "refuted for samples that wait; it counts cores, and knows nothing of the samples."
        if gain == "faster"
        else "holds here.",
    )


def _larger_prefetch() -> Measured:
    few, many = (_rates(_Slow(4000), 4, 2, prefetch_factor=factor)[0] for factor in (2, 16))
    gain = _compared(many, few)
    return Measured(
        f"Samples that wait 10 ms each, by 2 workers: with `prefetch_factor=16` they come {gain}.",
        "refuted for samples that cost the same: it is a buffer, which evens out slow and quick "
        "batches, and takes memory."
        if gain == "no faster"
        else "holds here.",
    )


def _always_persistent() -> Measured:
    def epochs(persistent: bool) -> None:
        loader = DataLoader(
            TensorDataset(torch.arange(8)),
            num_workers=2,
            multiprocessing_context="fork",
            persistent_workers=persistent,
        )
        for _ in range(3):
            list(loader)

    started = [processes_started(lambda each=each: epochs(each)) for each in (False, True)]  # type: ignore[misc]
    broken = nested_persistent.broken()
    assert broken.consume is not None
    found: Any = broken.consume(broken.loader)
    return Measured(
        f"Three epochs with 2 workers start {started[0]} processes, with `persistent_workers=True` "
        f"{started[1]}. Two nested loops over such a loader: {found}.",
        "refuted as always: it saves the start of the workers, and breaks loops over the same "
        "loader that overlap; what workers keep (lessons 04, 10) they keep for longer."
        if started == [6, 2] and found.value
        else "holds here.",
    )


def _pinned() -> Measured:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        [batch] = next(iter(DataLoader(TensorDataset(torch.arange(8)), 4, pin_memory=True)))
    if torch.accelerator.is_available():
        return Measured("This machine has an accelerator.", "not measured here.")
    said = any("no accelerator is found" in str(each.message) for each in heard)
    return Measured(
        f"Without a GPU: torch {'warns' if said else 'is silent'}, and the batch is "
        f"{'pinned' if batch.is_pinned() else 'not pinned'}.",
        "without a GPU it does nothing; with one it was not measured."
        if said and not batch.is_pinned()
        else "other than expected.",
    )


CLAIMS: Final = (
    Claim(
        "With `num_workers=0` loading can be ten times slower.",
        DEEP_DIVE,
        "`how_many_workers`, with 8 forked workers and with none: samples that wait 10 ms, and "
        "rows of a tensor; three runs each, in turns, once the workers have started.",
        _ten_times,
        120,
    ),
    Claim(
        "Take four workers for each GPU.",
        _FORUM,
        "The same, with 4 workers, 16 and none.",
        partial(_rule, "4 workers", 4),
        120,
    ),
    Claim(
        "Take as many workers as there are cores.",
        _ADVICE,
        "The same, with a worker for each core, four for each, and none.",
        partial(_rule, "a worker for each core", machine().cores),
        120,
    ),
    Claim(
        "More workers than cores may make a loader slow, or freeze.",
        _WARNING,
        "The same, with a worker for each core and four for each.",
        _slow_or_freeze,
        120,
    ),
    Claim(
        "A larger `prefetch_factor` makes the loader faster.",
        _ADVICE,
        "`how_many_workers`: samples that wait 10 ms, with 2 workers and a factor of 2 and of 16, "
        "once the workers have started.",
        _larger_prefetch,
    ),
    Claim(
        "`persistent_workers=True` is always better.",
        _ADVICE,
        "The processes that three epochs start are counted; then two nested loops over a loader of "
        "4 batches compare each batch with each.",
        _always_persistent,
    ),
    Claim(
        "`pin_memory=True` makes loading faster.",
        _ADVICE,
        "A batch of a loader with `pin_memory=True` on a machine without a GPU, with torch's "
        "warnings kept.",
        _pinned,
    ),
)
