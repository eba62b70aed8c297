"""Measure the claims for lesson 04: what a worker changes stays in the worker."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

import torch
from torch.utils.data import DataLoader, DistributedSampler, get_worker_info

from dltutor.failures import global_state, mutated_in_place, stale_epoch
from dltutor.failures.tools.contract import load
from dltutor.lessons.lesson_04 import SlowMotion
from dltutor.observation import observe
from measured_claims import Facts, ended, numbers


class _Witness(global_state.Readings):
    # Each sample says which worker made it, and the global variable's value in that worker.
    lock = get_context("fork").Lock()

    def __getitem__(self, index: int) -> tuple[str, int]:  # type: ignore[override]
        with self.lock:
            super().__getitem__(index)
            return f"W{get_worker_info().id}", global_state.replaced  # type: ignore[union-attr]


def without_race() -> Facts:
    global_state.replaced = 0
    said: dict[str, int] = {}
    for names, counts in load(_Witness(), 2, "fork", batch_size=8):
        said |= dict(zip(names, counts.tolist(), strict=True))
    said = {"main": global_state.replaced, **dict(sorted(said.items()))}
    alone = said["main"] == 0 and said["W0"] + said["W1"] == global_state.MISSING
    shown = [f"{who} {count}" for who, count in said.items()]
    return {"counts": global_state.MISSING, "said": shown, "each its own": alone}


class _WithoutLock(global_state.ReadingsWithValue):
    def count(self) -> None:
        self.replaced.value += 1


def shared_object() -> Facts:
    counted = []
    for made in (_WithoutLock, global_state.ReadingsWithValue):
        dataset = made("fork")
        slow = load(dataset, 2, "fork", batch_size=8, worker_init_fn=SlowMotion(2))
        observe(slow, deadline=40)
        counted.append(int(dataset.replaced.value))
    without, with_lock = counted
    lost = without < with_lock == global_state.MISSING
    return {"counts": global_state.MISSING, "without": without, "with": with_lock, "lost": lost}


def _wrong(module: Any, **options: Any) -> int:
    case = module.broken(**options)
    return int(observe(case.loader, consume=case.consume, deadline=40).result.value)  # type: ignore[attr-defined]


def goes_away() -> Facts:
    counter = [_wrong(global_state, workers=workers) for workers in (2, 0)]
    data = [_wrong(mutated_in_place, workers=w, persistent=False) for w in (2, 0)]
    as_expected = counter[0] > counter[1] == 0 and data[1] > data[0] == 0
    return {"counter": counter, "data": data, "opposite": as_expected}


class _ValueClips(stale_epoch.Clips):
    def __init__(self, method: str) -> None:
        super().__init__()
        self.shared: Any = get_context(method).Value("q", 0)

    def set_epoch(self, epoch: int) -> None:
        self.shared.value = epoch

    def __getitem__(self, index: int) -> torch.Tensor:
        self.epoch = torch.tensor(self.shared.value)
        return super().__getitem__(index)


def _four_epochs(dataset: Any) -> Callable[[DataLoader[Any]], list[int]]:
    def train(loader: DataLoader[Any]) -> list[int]:
        begun = []
        for epoch in range(4):
            dataset.set_epoch(epoch)
            begun.append(int(torch.cat(list(loader))[0, 0]))
        return begun

    return train


def epoch_in_a_value() -> Facts:
    found = {}
    for of in ("fork", "spawn"):
        for method in ("fork", "spawn"):
            dataset = _ValueClips(of)
            loader = load(dataset, 1, method, persistent_workers=True)
            seen = observe(loader, consume=_four_epochs(dataset), deadline=40)
            end = str(seen.result) if seen.end == "finished" else ended(seen)
            found[f"of {of}, {method}ed worker"] = end
    works = [pair for pair, what in found.items() if what == "[0, 32, 64, 96]"]
    return {"found": found, "works": works}


def samplers_epoch() -> Facts:
    sampler: DistributedSampler[Any] = DistributedSampler(range(32), num_replicas=2, rank=0)  # type: ignore[arg-type]
    records: Any = range(32)
    loader = load(records, 2, "fork", batch_size=8, sampler=sampler, persistent_workers=True)
    unset = [numbers(loader) for _ in range(2)]
    orders = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        orders.append(numbers(loader))
    return {"without": unset[0] == unset[1], "with": orders[0] == orders[1]}
