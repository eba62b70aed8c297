"""Measure the claims for lesson 13: how many workers a loader needs."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from statistics import median
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from dltutor.failures import nested_persistent
from dltutor.failures.cheap_samples import measurements
from dltutor.failures.tools.contract import load
from dltutor.lessons.lesson_13 import processes_started
from dltutor.observation import machine, throughput
from dltutor.observation.throughput import how_many_workers
from measured_claims import CannotMeasure, Facts, Samples, gpu


def _waits(index: int) -> torch.Tensor:
    time.sleep(0.01)  # waits without computing, like a read from a slow disk
    return torch.zeros(1)


def _rates(dataset: Dataset[Any], batch: int, *counts: int, **options: Any) -> list[Any]:
    # For each number of workers, return each run's samples per second once all workers run.
    loader = load(dataset, 1, "fork", batch_size=batch, **options)
    try:
        speeds = how_many_workers(loader, counts=counts, runs=3, batches=16).speeds
    except throughput.CannotMeasure as reason:
        raise CannotMeasure(f"A loader was too slow on this machine: {reason}.") from None
    found = {speed.workers: speed.rates for speed in speeds}
    return [found[workers] for workers in counts]


def _compared(rates: Sequence[float], others: Sequence[float]) -> str:
    gains = [rate / other for rate, other in zip(rates, others, strict=False)]
    if min(gains) > 1.3:
        return "faster"
    if max(gains) < 1 / 1.3:
        return "slower"
    if max(gains) > 1.3:
        raise CannotMeasure(
            f"The runs vary from {min(gains):.1f} to {max(gains):.1f} times as fast."
        )
    return "no faster"


def _waiting(workers: int, others: int) -> str:
    return _compared(*_rates(Samples(_waits, 4000), 4, workers, others))


def _rows(workers: int, others: int) -> str:
    return _compared(*_rates(measurements(), 64, workers, others))


def ten_times() -> Facts:
    with_eight, without = _rates(Samples(_waits, 4000), 4, 8, 0)
    return {
        "waiting": _compared(with_eight, without),
        "less": median(with_eight) / median(without) < 10,
        "rows": _rows(8, 0),
    }


def _rule(workers: int) -> Facts:
    found = {
        "samples that wait": _waiting(4 * workers, workers),
        "rows of a tensor": _rows(0, workers),
    }
    waiting, rows = found.values()
    beaten = [kind for kind, gain in found.items() if gain == "faster"]
    return {"waiting": waiting, "rows": rows, "beaten": beaten, "best": not beaten}


def four_workers() -> Facts:
    return _rule(4)


def _shares(dataset: Dataset[Any], batch: int) -> list[float]:
    # Return the speeds with 2 and with 4 workers, as shares of the highest speed.
    none, two, four, many = map(median, _rates(dataset, batch, 0, 2, 4, 16))
    return [round(each / max(none, two, four, many), 1) for each in (two, four)]


def two_to_four() -> Facts:
    waiting, rows = _shares(Samples(_waits, 4000), 4), _shares(measurements(), 64)
    return {
        "waiting": " and ".join(f"about {share:.0%}" for share in waiting),
        "rows": " and ".join(f"about {share:.0%}" for share in rows),
        "good": min(*waiting, *rows) >= 0.7,
    }


def one_for_each_core() -> Facts:
    return _rule(machine().cores)


def larger_prefetch() -> Facts:
    few, many = (
        _rates(Samples(_waits, 4000), 4, 2, prefetch_factor=factor)[0] for factor in (2, 16)
    )
    return {"gain": _compared(many, few)}


def always_persistent() -> Facts:
    def started(persistent: bool) -> int:
        def epochs() -> None:
            dataset = TensorDataset(torch.arange(8))
            loader = load(dataset, 2, "fork", batch_size=1, persistent_workers=persistent)
            for _ in range(3):
                list(loader)

        return processes_started(epochs)

    broken = nested_persistent.broken()
    assert broken.consume is not None
    nested: Any = broken.consume(broken.loader)
    return {
        "fresh": started(False),
        "persistent": started(True),
        "nested": nested,
        "missing": bool(nested.value),
    }


def pinned() -> Facts:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        [batch] = next(iter(DataLoader(TensorDataset(torch.arange(8)), 4, pin_memory=True)))
    if torch.accelerator.is_available():
        raise CannotMeasure("This machine has an accelerator.")
    warns = any("no accelerator is found" in str(each.message) for each in caught)
    return {"warns": warns, "pinned": batch.is_pinned()}


def _image(index: int) -> torch.Tensor:
    return torch.full((3, 224, 224), float(index))


def _copied(batch: torch.Tensor, non_blocking: bool) -> tuple[float, float]:
    # Copy a batch to the GPU 20 times. Return the median seconds until the call returned, and until
    # the copy was complete.
    runs = []
    for _ in range(20):
        torch.cuda.synchronize()
        began = time.perf_counter()
        batch.to("cuda", non_blocking=non_blocking)
        returned = time.perf_counter() - began
        torch.cuda.synchronize()
        runs.append((returned, time.perf_counter() - began))
    return median(run[0] for run in runs), median(run[1] for run in runs)


def pinned_copies() -> Facts:
    on = gpu()
    ordinary = torch.zeros(64, 3, 224, 224)
    pinned = ordinary.pin_memory()
    model = torch.nn.Conv2d(3, 64, 7, 2).cuda()

    def step(batch: torch.Tensor) -> None:
        model(batch.to("cuda", non_blocking=True)).sum().backward()
        torch.cuda.synchronize()

    def rate(pin: bool) -> float:
        loader = DataLoader(Samples(_image, 4096), 64, num_workers=4, pin_memory=pin)
        return how_many_workers(loader, counts=(4,), runs=5, step=step).speeds[0].rate

    copied = {pin: _copied(batch, False)[1] for pin, batch in ((False, ordinary), (True, pinned))}
    returned = {
        pin: _copied(batch, True)[0] / copied[pin]
        for pin, batch in ((False, ordinary), (True, pinned))
    }
    return {
        "gpu": on,
        "times": copied[False] / copied[True],
        "faster": copied[False] > 2 * copied[True],
        "ordinary": returned[False],
        "pinned": returned[True],
        "needed": returned[False] > 0.5 > returned[True],
        "gain": rate(True) / rate(False),
    }
