"""Grade "12.fix": noise that depends on seed, epoch, and index, and on nothing else.

Three datasets exist at the same time. Two have the same seed, but one of them has other signals and
more of them. The third has the next seed. They run in different orders, with different numbers of
workers. Each noise is compared with all others. Some indices are far apart, because a packed key
such as epoch * 1000 + index repeats there.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from unittest.mock import patch

import torch
from torch.utils.data import get_worker_info

from dltutor.lessons.engine.endings import Ending, ended_well, run_loader, where
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_class
from dltutor.lessons.engine.outcomes import Rejected, Result, correct, error_in_your_code, not_yet
from dltutor.lessons.engine.running import made
from dltutor.lessons.lesson_12.material import Signals, hash_without_texts, moved_in, states

_LENGTHS: Final = (1200, 1200, 1300)  # of three datasets
_READ: Final = (*range(99), *range(100, 1200, 100), *range(128, 1200, 128), 1199)  # 120 of them
_LONG: Final = 8  # seconds for each thing that the answer does
_SEEDS: Final = (3, 4, 3)
Plan = tuple[int, int, tuple[int, ...]]  # workers, the number of the dataset, and its epochs
_RUNS: Final = ((2, 0, (0, 1, 0)), (0, 2, (1, 0, 11)), (4, 0, (11, 100)), (2, 1, (0, 1, 2)))
_EQUAL: Final = 1e-4  # by which two may differ: a sample may be float32

Noise = tuple[float, ...]
Came = dict[int, Noise | str]  # by index; a string is the form of a sample that has no noise
Key = tuple[int, int, int]  # seed, epoch, index


@dataclass(frozen=True)
class Run:
    """What a run of one dataset delivered.

    Args:
        workers: How many there were; two are persistent.
        signals: How many the dataset has.
        seed: The dataset's.
        end: How the run ended.
        epochs: The number of each epoch, and what arrived in it.
        moved: The global generators that moved during the run.
        changed: Whether the signals were changed, in main or in a worker.
    """

    workers: int
    signals: int
    seed: int
    end: Ending
    epochs: tuple[tuple[int, Came], ...] = ()
    moved: tuple[str, ...] = ()
    changed: bool = False


def gather(answer: type) -> tuple[Run, ...]:
    """Make three datasets and run them, up to the first run that isn't right."""
    base = torch.arange(4.0 * max(_LENGTHS), dtype=torch.float64).reshape(-1, 4) % 17 - 8
    signals = [each[:n] for each, n in zip((base, base, base.flip(0)), _LENGTHS, strict=True)]
    before, given = states(), [each.clone() for each in signals]
    call = f"{answer.__name__}(signals, seed)"
    pairs = zip(given, _SEEDS, strict=True)
    datasets = [made(answer, *pair, call=call, within=_LONG) for pair in pairs]
    if moved := moved_in([before, states()]):
        not_yet("moved-globals-at-the-start", call=call, generators=_listed(moved))
    runs: list[Run] = []
    for plan in _RUNS:
        dataset, of = datasets[plan[1]], signals[plan[1]]
        if (length := made(partial(len, dataset), call="len(dataset)", within=_LONG)) != len(of):
            not_yet("other-length", signals=len(of), length=length)
        with patch("builtins.hash", hash_without_texts()):
            runs.append(_run(dataset, given[plan[1]], of, plan))
        try:
            judge(runs)
        except Rejected:
            break
    return tuple(runs)


def _run(dataset: Any, given: torch.Tensor, signals: torch.Tensor, plan: Plan) -> Run:
    (workers, which, epochs), came = plan, list[tuple[int, Came]]()
    order, moved, began, intact = list(_READ), set[str](), list[list[int]](), set[bool]()

    def begin(_: object = None) -> None:  # in main, and in each worker once torch has seeded it
        began[:] = [states()]

    def collate(samples: list[Any]) -> Any:  # in the worker
        info = get_worker_info()
        told = [_told(sample) for sample in samples]
        return info.id if info else 0, [*began, states()], torch.equal(given, signals), told

    def epoch(loader: Any) -> None:
        number = epochs[len(came)]
        random.Random(number + workers).shuffle(order)
        before = states()
        dataset.set_epoch(number)
        moved.update(moved_in([before, states()]))
        noise: Came = {}
        of_workers: dict[int, list[list[int]]] = {}
        indices, batches = iter(order), iter(loader)
        begin()
        for worker, seen, same, told in batches:
            of_workers.setdefault(worker, []).extend(seen)
            intact.add(same)
            for sample, index in zip(told, indices, strict=False):
                noise[index] = _less(sample, signals[index])
        moved.update(*(moved_in(each) for each in of_workers.values()))
        came.append((number, noise))

    end = run_loader(
        dataset,
        epoch,
        workers=workers,
        within=_LONG,
        epochs=len(epochs),
        batch_size=4,
        sampler=order,
        collate_fn=collate,
        worker_init_fn=begin,
        persistent_workers=workers == 2,
    )
    changed = not torch.equal(given, signals) or False in intact
    names, seed = tuple(sorted(moved)), _SEEDS[which]
    return Run(workers, len(signals), seed, end, tuple(came), names, changed)


def _told(sample: Any) -> list[float] | str:
    if not isinstance(sample, torch.Tensor):
        return type(sample).__name__
    if sample.shape != (4,) or sample.dtype not in (torch.float32, torch.float64):
        return f"{sample.dtype}, {tuple(sample.shape)}"
    return sample.tolist()


def _less(sample: list[float] | str, signal: torch.Tensor) -> Noise | str:
    if isinstance(sample, str):
        return sample
    return tuple(round(number - s, 5) for number, s in zip(sample, signal.tolist(), strict=True))


def _listed(generators: Iterable[str]) -> str:
    return " and ".join(f"`{name}`" for name in sorted(generators))


def judge(runs: Sequence[Run]) -> Result:
    """Accept if each seed, epoch, and index has one noise, and no two have the same."""
    known: dict[Key, tuple[Noise, str, int]] = {}  # with where it first arrived, of how many
    owner: dict[Noise, Key] = {}
    for run in runs:
        here = where(run.workers)
        ended_well(run.end, here)
        if run.changed:
            not_yet("changed-signals", where=here)
        for epoch, came in run.epochs:
            _right_form(here, epoch, came)
            for index, noise in came.items():
                key = run.seed, epoch, index
                first, there, signals = known.setdefault(key, (noise, here, run.signals))  # type: ignore[arg-type]
                if any(abs(a - b) > _EQUAL for a, b in zip(first, noise, strict=True)):  # type: ignore[operator]
                    same_run = (there, signals) == (here, run.signals)
                    not_yet(
                        "other-noise-the-second-time" if same_run else "two-noises",
                        index=index,
                        epoch=epoch,
                        there=there,
                        signals_there=signals,
                        here=here,
                        signals_here=run.signals,
                    )
            _never_before(run, epoch, came, owner)
        if run.moved:
            not_yet("moved-globals", where=here, generators=_listed(run.moved))
    _standard_normal([noise for noise, *_ in known.values()])
    return correct(noises=len(known))


def _right_form(here: str, epoch: int, came: Came) -> None:
    ties = [index for index, noise in came.items() if len({*noise}) < 4]
    for index, noise in came.items():
        if isinstance(noise, str):
            error_in_your_code("other-sample", where=here, index=index, form=noise)
        if index in ties[2:]:  # one or two may be chance
            not_yet("not-four-numbers", where=here, index=index, epoch=epoch, noise=[*noise])
    if len(came) != len(_READ):
        not_yet("missing", where=here, came=len(came), samples=len(_READ), epoch=epoch)


def _never_before(run: Run, epoch: int, came: Came, owner: dict[Noise, Key]) -> None:
    repeated = []
    for index, noise in came.items():
        key = run.seed, epoch, index
        rough = tuple(round(number, 3) for number in noise)  # type: ignore[arg-type]
        if (other := owner.setdefault(rough, key)) != key:
            repeated.append((key, other))
    if repeated:
        (seed, epoch, index), (other_seed, other_epoch, other_index) = repeated[0]
        code = "repeated"
        if (epoch, index) == (other_epoch, other_index):
            code = "repeated-for-another-seed"
        elif run.workers and other_epoch != epoch and other_index == index:
            code = "repeated-in-another-epoch"
        not_yet(
            code,
            where=where(run.workers),
            repeated=len(repeated),
            samples=len(_READ),
            seed=seed,
            epoch=epoch,
            index=index,
            other_seed=other_seed,
            other_epoch=other_epoch,
            other_index=other_index,
        )


def _standard_normal(noises: Sequence[Noise]) -> None:
    numbers = torch.tensor(noises).flatten()
    mean, spread = float(numbers.mean()), float(numbers.std())
    kurtosis = float(((numbers - mean) / spread).pow(4).mean())  # a standard error of 0.08
    if abs(mean) > 0.15 or abs(spread - 1) > 0.15 or abs(kurtosis - 3) > 0.5:
        mean, spread, kurtosis = (round(each, 1) + 0.0 for each in (mean, spread, kurtosis))
        not_yet("not-standard-normal", mean=mean, spread=spread, kurtosis=kurtosis)
    times = Counter(numbers.tolist())
    if sum(count > 1 for count in times.values()) > len(times) // 10:
        not_yet("shared-numbers")


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(
        a_fixed_class,
        starter=Signals,
        methods=("__len__", "__getitem__", "set_epoch"),
    ),
    at_most=5 * _LONG,
)
