"""Lesson 04: what a worker changes stays in the worker."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import get_context
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, DistributedSampler, get_worker_info

from dltutor.failures import global_state, mutated_in_place, stale_epoch
from dltutor.lessons.lesson_04 import SlowMotion
from dltutor.observation import observe
from measured_claims import DEEP_DIVE, EXITING, Claim, Measured, Source

_VALUE: Final = Source(
    "pytorch#97326: Change worker process's attribute while set persistent_worker = True",
    "2023-03-28",
    "https://github.com/pytorch/pytorch/issues/97326",
)
_DOCS: Final = Source(
    "PyTorch documentation, torch.utils.data.distributed.DistributedSampler",
    address="https://docs.pytorch.org/docs/stable/data.html",
)


def _loader(dataset: Any, workers: int = 2, **options: Any) -> DataLoader[Any]:
    context = "fork" if workers else None
    return DataLoader(dataset, 8, num_workers=workers, multiprocessing_context=context, **options)


class _Witness(global_state.Readings):
    # Each sample tells who made it, and what the global variable of that process says.
    lock = get_context("fork").Lock()

    def __getitem__(self, index: int) -> tuple[str, int]:  # type: ignore[override]
        with self.lock:
            super().__getitem__(index)
            return f"W{get_worker_info().id}", global_state.replaced  # type: ignore[union-attr]


def _without_race() -> Measured:
    global_state.replaced = 0
    said: dict[str, int] = {}
    for names, counts in _loader(_Witness()):
        said |= dict(zip(names, counts.tolist(), strict=True))
    said = {"main": global_state.replaced, **dict(sorted(said.items()))}
    shown = ", ".join(f"{who} {count}" for who, count in said.items())
    alone = said["main"] == 0 and said["W0"] + said["W1"] == global_state.MISSING
    return Measured(
        f"Both workers took one lock for each of {global_state.MISSING} counts. At the end the "
        f"variable says: {shown}.",
        "refuted for a global variable: each process has its own, and a lock changes nothing."
        if alone
        else "holds.",
    )


class _WithoutLock(global_state.ReadingsWithValue):
    def count(self) -> None:
        self.replaced.value += 1


def _shared_object() -> Measured:
    counted = {}
    for made in (_WithoutLock, global_state.ReadingsWithValue):
        dataset = made("fork")
        observe(_loader(dataset, worker_init_fn=SlowMotion(2)), deadline=40)
        counted[made] = int(dataset.replaced.value)
    without, with_lock = counted.values()
    return Measured(
        f"Of {global_state.MISSING} counts, a shared `Value` has {without} without its lock and "
        f"{with_lock} with it.",
        "holds: without a lock, counts get lost."
        if without < with_lock == global_state.MISSING
        else "refuted.",
    )


def _wrong(module: Any, **options: Any) -> int:
    case = module.broken(**options)
    return int(observe(case.loader, consume=case.consume, deadline=40).result.value)  # type: ignore[attr-defined]


def _goes_away() -> Measured:
    counter = [_wrong(global_state, workers=workers) for workers in (2, 0)]
    data = [_wrong(mutated_in_place, workers=w, persistent=False) for w in (2, 0)]
    return Measured(
        f"A global counter: {counter[0]} of 8 counts missing with 2 workers, {counter[1]} with 0. "
        f"Samples changed in place, fresh workers: {data[0]} of 64 wrong with 2, {data[1]} with 0.",
        "holds for the counter; refuted for data changed in place, which goes wrong with 0 workers."
        if counter[0] > counter[1] == 0 and data[1] > data[0] == 0
        else "other than expected.",
    )


class _ValueClips(stale_epoch.Clips):
    def __init__(self, method: str) -> None:
        super().__init__()
        self.shared: Any = get_context(method).Value("q", 0)

    def set_epoch(self, epoch: int) -> None:
        self.shared.value = epoch

    def __getitem__(self, index: int) -> torch.Tensor:
        self.epoch = torch.tensor(self.shared.value)
        return super().__getitem__(index)


def _epoch_in_a_value() -> Measured:
    found = {}
    for of, method in (("fork", "fork"), ("fork", "spawn"), ("spawn", "fork"), ("spawn", "spawn")):
        dataset = _ValueClips(of)
        loader: DataLoader[Any] = DataLoader(
            dataset,
            4,
            num_workers=1,
            persistent_workers=True,
            multiprocessing_context=method,
        )
        seen = observe(loader, consume=_four_epochs(dataset), deadline=40)
        found[of, method] = str(seen.result) if seen.end == "finished" else seen.chain[0][0]
    shown = "; ".join(f"of {of}, {to}ed worker: {what}" for (of, to), what in found.items())
    right = str([0, 32, 64, 96])
    works = [pair for pair, what in found.items() if what == right]
    return Measured(
        f"Where the stretch begins in four epochs. `Value` {shown}.",
        "holds, of the spawn context under both start methods; one of fork fails under spawn."
        if works == [("fork", "fork"), ("spawn", "fork"), ("spawn", "spawn")]
        else f"holds for {works} only.",
    )


def _four_epochs(dataset: Any) -> Callable[[DataLoader[Any]], list[int]]:
    def train(loader: DataLoader[Any]) -> list[int]:
        begun = []
        for epoch in range(4):
            dataset.set_epoch(epoch)
            begun.append(int(torch.cat(list(loader))[0, 0]))
        return begun

    return train


def _samplers_epoch() -> Measured:
    sampler: DistributedSampler[Any] = DistributedSampler(range(32), num_replicas=2, rank=0)  # type: ignore[arg-type]
    loader = _loader(range(32), sampler=sampler, persistent_workers=True)

    def order() -> list[int]:
        return torch.cat(list(loader)).tolist()  # type: ignore[no-any-return]

    unset = [order() for _ in range(2)]
    orders = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        orders.append(order())
    same, other = unset[0] == unset[1], orders[0] != orders[1]
    return Measured(
        f"Two persistent workers. Two epochs have {'the same order' if same else 'other orders'} "
        f"without the call and {'another order' if other else 'the same order'} with it.",
        "holds, with persistent workers too: the sampler runs in main."
        if same and other
        else "refuted.",
    )


CLAIMS: Final = (
    Claim(
        "A global variable that `__getitem__` changes is a structure that the workers share, and "
        "leads to race conditions.",
        EXITING,
        "Two forked workers count in a global variable, and each sample tells who made it and what "
        "the variable of that process says.",
        _without_race,
    ),
    Claim(
        "Workers that change one shared object need a mechanism for simultaneous access.",
        EXITING,
        "Two forked workers count in one shared `Value`, in slow motion: they take each sample "
        "together and wait before each write.",
        _shared_object,
    ),
    Claim(
        "`num_workers=0` makes the issue go away.",
        DEEP_DIVE,
        "For two failures of this lesson: a counter in a global variable, and samples that are "
        "changed in place, in two epochs.",
        _goes_away,
    ),
    Claim(
        "Persistent workers can be told the epoch through a `multiprocessing.Value`.",
        _VALUE,
        "A persistent worker reads the epoch from a `Value` for each sample; main sets it before "
        "each of four epochs.",
        _epoch_in_a_value,
        120,
    ),
    Claim(
        "A `DistributedSampler` shuffles each epoch in another order only if `set_epoch` is called "
        "before the loader is iterated.",
        _DOCS,
        "The order of one rank of two, in two epochs without the call and in two with it.",
        _samplers_epoch,
    ),
)
