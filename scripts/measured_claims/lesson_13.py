"""Lesson 13: how many workers."""

from __future__ import annotations

import time
import warnings
from functools import cache
from statistics import median
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from dltutor.failures import nested_persistent
from dltutor.failures.cheap_samples import measurements
from dltutor.lessons.lesson_13 import processes_started
from dltutor.observation import machine
from dltutor.observation.throughput import how_many_workers
from measured_claims import DEEP_DIVE, Claim, Measured, Source

_EPOCHS: Final = 3
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


def _epoch(dataset: Dataset[Any], workers: int, batch: int) -> float:
    """The median of the seconds that an epoch takes, its workers' start included."""
    seconds = []
    for _ in range(_EPOCHS):
        loader = DataLoader(
            dataset,
            batch,
            num_workers=workers,
            multiprocessing_context="fork" if workers else None,
        )
        began = time.perf_counter()
        for _ in loader:
            pass
        seconds.append(time.perf_counter() - began)
    return median(seconds)


def _ten_times() -> Measured:
    waiting = _epoch(_Slow(), 0, 5) / _epoch(_Slow(), 8, 5)
    cheap = _epoch(measurements(), 0, 64) / _epoch(measurements(), 8, 64)
    return Measured(
        "An epoch without workers against one with 8 forked ones: samples that wait 10 ms take "
        f"{'more' if waiting > 1 else 'less'} time, "
        f"{'but less than ten times as much' if waiting < 10 else 'ten times as much or more'}; "
        f"rows of a tensor take {'less' if cheap < 1 else 'more'} time.",
        "depends on the sample: at most as many times slower as there are workers, where samples "
        "are slow to get; where they are cheap, 0 workers are faster."
        if 1 < waiting < 10 and cheap < 1
        else "other than expected.",
    )


@cache
def _rates() -> dict[str, dict[int, float]]:
    # Samples per second by number of workers, once they have started, for both kinds of samples.
    cores = machine().cores
    counts = sorted({0, 1, 4, 16, cores, 4 * cores})
    options: dict[str, Any] = {"num_workers": 1, "multiprocessing_context": "fork"}
    loaders = {
        "waiting": DataLoader(_Slow(4000), 4, **options),
        "rows": DataLoader(measurements(), 64, **options),
    }
    return {
        name: {
            speed.workers: speed.rate
            for speed in how_many_workers(loader, counts=counts, runs=3, batches=16).speeds
        }
        for name, loader in loaders.items()
    }


def _four_for_a_gpu() -> Measured:
    waiting, rows = _rates()["waiting"], _rates()["rows"]
    beaten = waiting[16] > 1.3 * waiting[4] and rows[0] > 1.3 * rows[4]
    return Measured(
        f"Against 4 workers: samples that wait come {_against(waiting[16], waiting[4])} with "
        f"16; rows of a tensor {_against(rows[0], rows[4])} with none.",
        "refuted: samples that wait want more, rows want none. It is a place to begin to measure."
        if beaten
        else "holds here.",
    )


def _one_for_a_core() -> Measured:
    cores = machine().cores
    waiting, rows = _rates()["waiting"], _rates()["rows"]
    beaten = waiting[4 * cores] > 1.5 * waiting[cores] and rows[0] > 1.3 * rows[cores]
    return Measured(
        "Against a worker for each core: samples that wait come "
        f"{_against(waiting[4 * cores], waiting[cores])} with four for each; rows of a tensor "
        f"{_against(rows[0], rows[cores])} with none.",
        "refuted for samples that wait, and for rows of a tensor." if beaten else "holds here.",
    )


def _slow_or_freeze() -> Measured:
    cores = machine().cores
    waiting = _rates()["waiting"]
    more = waiting[4 * cores] > 1.5 * waiting[cores]
    return Measured(
        "Samples that wait, with four times as many workers as cores: they come "
        f"{_against(waiting[4 * cores], waiting[cores])} than with as many as cores.",
        "refuted for samples that wait; it counts cores, and knows nothing of the samples."
        if more
        else "holds here.",
    )


def _against(rate: float, other: float) -> str:
    if rate > 1.3 * other:
        return "faster"
    return "slower" if rate < other / 1.3 else "no faster"


def _larger_prefetch() -> Measured:
    rates = {}
    for factor in (2, 16):
        loader = DataLoader(
            _Slow(4000), 4, num_workers=2, multiprocessing_context="fork", prefetch_factor=factor
        )
        rates[factor] = how_many_workers(loader, counts=(2,), runs=3, batches=16).best.rate
    gain = _against(rates[16], rates[2])
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
        f"The median of {_EPOCHS} epochs each, with 0 and 8 forked workers: 100 samples that wait "
        "10 ms each, and 10,000 rows of 16 numbers that are in memory already.",
        _ten_times,
        120,
    ),
    Claim(
        "Take four workers for each GPU.",
        _FORUM,
        "`how_many_workers`: samples that wait 10 ms, and rows of a tensor, with 0, 1, 4, 16, "
        "as many workers as cores, and four times as many; three runs each, in turns.",
        _four_for_a_gpu,
        120,
    ),
    Claim(
        "Take as many workers as there are cores.",
        _ADVICE,
        "The same measurement.",
        _one_for_a_core,
        120,
    ),
    Claim(
        "More workers than cores may make a loader slow, or freeze.",
        _WARNING,
        "The same measurement.",
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
