"""Grade "12.fix": noise that depends on seed, epoch and index, and on nothing else.

Three datasets live side by side: two with one seed, one with other and more signals; a third with
the next seed. They run in other orders, with other numbers of workers. Each noise is compared with
all others, also of indices far away, where a packed key, epoch * 1000 + index, meets itself.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
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
Came = dict[int, Noise | str]  # by index; a text says what came instead
Key = tuple[int, int, int]  # seed, epoch, index


@dataclass(frozen=True)
class Run:
    """What came of one dataset with some workers.

    Args:
        workers: How many; two are persistent.
        signals: How many the dataset has.
        seed: Of the dataset.
        end: How it ended.
        epochs: Of each its number, and what came.
        moved: The global generators that moved meanwhile.
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
    """Make three datasets, and run them up to the first run that is not right."""
    base = torch.arange(4.0 * max(_LENGTHS), dtype=torch.float64).reshape(-1, 4) % 17 - 8
    signals = [each[:n] for each, n in zip((base, base, base.flip(0)), _LENGTHS, strict=True)]
    before, given = states(), [each.clone() for each in signals]
    call = f"{answer.__name__}(signals, seed)"
    pairs = zip(given, _SEEDS, strict=True)
    datasets = [made(answer, *pair, call=call, within=_LONG) for pair in pairs]
    if moved := moved_in([before, states()]):
        not_yet(f"`{call}` sets {_listed(moved)}, which others draw from. What could it own?")
    runs: list[Run] = []
    for plan in _RUNS:
        dataset, of = datasets[plan[1]], signals[plan[1]]
        if (length := made(partial(len, dataset), call="len(dataset)", within=_LONG)) != len(of):
            not_yet(f"there are {len(of)} signals, and `len(dataset)` is {length}.")
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
        return f"a `{type(sample).__name__}`"
    if sample.shape != (4,) or sample.dtype not in (torch.float32, torch.float64):
        return f"{sample.dtype}, shape {tuple(sample.shape)}"
    return sample.tolist()


def _less(sample: list[float] | str, signal: torch.Tensor) -> Noise | str:
    if isinstance(sample, str):
        return sample
    return tuple(round(number - s, 5) for number, s in zip(sample, signal.tolist(), strict=True))


def _listed(names: Sequence[str] | set[str]) -> str:
    return "the global generator of " + " and of ".join(f"`{name}`" for name in sorted(names))


def judge(runs: Sequence[Run]) -> Result:
    """Correct if each seed, epoch and index has one noise, and no two have the same."""
    known: dict[Key, tuple[Noise, str]] = {}  # and where it came first
    owner: dict[Noise, Key] = {}
    for run in runs:
        lead = where(run.workers)
        ended_well(run.end, lead)
        if run.changed:
            not_yet(f"{lead}, the signals that the class was given were changed.")
        here = f"{lead} ({run.signals} signals)"
        for epoch, came in run.epochs:
            _right_form(lead, epoch, came)
            for index, noise in came.items():
                key = run.seed, epoch, index
                first, there = known.setdefault(key, (noise, here))  # type: ignore[arg-type]
                if any(abs(a - b) > _EQUAL for a, b in zip(first, noise, strict=True)):  # type: ignore[operator]
                    also = f"{there}, and {here}" if there != here else f"{lead}, asked twice"
                    not_yet(
                        f"sample {index} of epoch {epoch} has two different noises: {also}. What "
                        "else than seed, epoch and index does it depend on: the worker, the order, "
                        "what was drawn before, how many signals there are?"
                    )
            _never_before(run, epoch, came, owner)
        if run.moved:
            not_yet(
                f"{lead}, your class sets or draws from {_listed(run.moved)}, which others use. "
                "What could draw in its place?"
            )
    _standard_normal([noise for noise, _ in known.values()])
    return correct(
        f"{len(known)} noises, one for each seed, epoch and index that was asked for, and no two "
        "alike: with 2 persistent workers, with 0 and with 4, in any order, and again when an "
        "epoch is run again. The global generators stayed where they were."
    )


def _right_form(lead: str, epoch: int, came: Came) -> None:
    ties = [index for index, noise in came.items() if len({*noise}) < 4]
    for index, noise in came.items():
        if isinstance(noise, str):
            form = "one tensor of 4 floats of 32 or 64 bits, as in the starter"
            error_in_your_code(f"{lead}, sample {index} is {noise}. It has to be {form}.")
        if index in ties[2:]:  # one or two may be chance
            not_yet(
                f"{lead}, sample {index} of epoch {epoch} less its signal is {list(noise)}. Its "
                "noise has to be four numbers of their own."
            )
    if len(came) != len(_READ):
        not_yet(f"{lead}, {len(came)} of {len(_READ)} samples came in epoch {epoch}.")


def _never_before(run: Run, epoch: int, came: Came, owner: dict[Noise, Key]) -> None:
    repeated = []
    for index, noise in came.items():
        key = run.seed, epoch, index
        rough = tuple(round(number, 3) for number in noise)  # type: ignore[arg-type]
        if (other := owner.setdefault(rough, key)) != key:
            repeated.append((key, other))
    if repeated:
        (seed, epoch, index), (other_seed, other_epoch, other_index) = repeated[0]
        text = f"{len(repeated)} of {len(_READ)} noises of epoch {epoch} had come before"
        what = "What differs between the two, and does your generator know of it?"
        if (epoch, index) == (other_epoch, other_index):
            what += " (If it is a `torch.Generator`: it reads the low 32 bits of its seed.)"
        elif run.workers and other_epoch != epoch and other_index == index:
            what = "Main had called `set_epoch`. Who reads the epoch, and in which process?"
        not_yet(
            f"{where(run.workers)}, {text}: sample {index} of epoch {epoch} with seed {seed} has "
            f"that of sample {other_index} of epoch {other_epoch} with seed {other_seed}. {what}"
        )


def _standard_normal(noises: Sequence[Noise]) -> None:
    numbers = torch.tensor(noises).flatten()
    mean, spread = float(numbers.mean()), float(numbers.std())
    kurtosis = float(((numbers - mean) / spread).pow(4).mean())  # a standard error of 0.08
    if abs(mean) > 0.15 or abs(spread - 1) > 0.15 or abs(kurtosis - 3) > 0.5:
        not_yet(
            f"samples less their signals have a mean of {mean:.1f}, a standard deviation of "
            f"{spread:.1f} and a kurtosis of {kurtosis:.1f}. Standard normal: 0, 1 and 3."
        )
    times = Counter(numbers.tolist())
    if sum(count > 1 for count in times.values()) > len(times) // 10:
        not_yet("the noises share numbers: windows that overlap? Each needs four of its own.")


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(
        a_fixed_class,
        starter=Signals,
        methods=("__len__", "__getitem__", "set_epoch"),
        without_workers="What do two workers copy?",
    ),
    runs="runs epochs of three datasets with 2, 0 and 4 workers, in other orders",
    at_most=5 * _LONG,
)
