"""Grade "12.fix", which asks for noise that depends only on seed, epoch, and index.

Three datasets exist at the same time. Two of them have the same seed, but different signals and
lengths. The other one has the next seed. All three run in random orders, with 0, 2, or 4 workers.
The check compares each noise with all others. Some indices are far apart, because a packed key such
as epoch * 1000 + index repeats for such indices.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from unittest.mock import patch

import torch

from dltutor.lessons.engine.endings import Ending, check_ending, run_loader, where
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_class, form
from dltutor.lessons.engine.outcomes import Rejected, Result, correct, error_in_your_code, not_yet
from dltutor.lessons.engine.running import global_generators, made, moved_since, theirs
from dltutor.lessons.lesson_12.helpers import Signals
from dltutor.observation import errors

_LENGTHS: Final = (1200, 1200, 1300)  # signals in each dataset
_READ: Final = (*range(99), *range(100, 1200, 100), *range(128, 1200, 128), 1199)  # 120 indices
_LONG: Final = 8  # time limit in seconds for making each dataset, and for each run
_SEEDS: Final = (3, 4, 3)
Plan = tuple[int, int, tuple[int, ...]]  # number of workers, dataset number, and epochs
_RUNS: Final = ((2, 0, (0, 1, 0)), (0, 2, (1, 0, 11)), (4, 0, (11, 100)), (2, 1, (0, 1, 2)))
_EQUAL: Final = 1e-4  # the most that equal noises can differ by, because a sample may be float32

Noise = tuple[float, ...]
Came = dict[int, Noise | str]  # index -> noise, or the form of a sample that isn't four floats
Key = tuple[int, int, int]  # the seed, epoch, and index of a noise


@dataclass(frozen=True)
class Run:
    """A record of what a run of one dataset delivered.

    Args:
        workers: The number of workers. If there are two, they're persistent.
        signals: How many signals the dataset has.
        seed: The dataset's seed.
        end: How the run ended.
        epochs: Each epoch's number, and what arrived in it.
        moved: The global generators that moved in main during the run.
        changed: Whether the signals changed, in main or in a worker.
        hashed: Whether the answer called `hash` in main on a string, on bytes, or on a tuple that
            holds a string or bytes.
    """

    workers: int
    signals: int
    seed: int
    end: Ending
    epochs: tuple[tuple[int, Came], ...] = ()
    moved: tuple[str, ...] = ()
    changed: bool = False
    hashed: bool = False


def gather(answer: type) -> tuple[Run, ...]:
    """Make three datasets and run them, up to the first wrong run.

    Raises:
        Rejected: A dataset can't be made, has the wrong length, or moves a global generator while
            the class makes it.
    """
    base = torch.arange(4.0 * max(_LENGTHS), dtype=torch.float64).reshape(-1, 4) % 17 - 8
    signals = [each[:n] for each, n in zip((base, base, base.flip(0)), _LENGTHS, strict=True)]
    # Put the signals into shared memory, so that main also sees what a worker writes.
    before, given = global_generators(), [each.clone().share_memory_() for each in signals]
    call = f"{answer.__name__}(signals, seed)"
    pairs = zip(given, _SEEDS, strict=True)
    datasets = [made(answer, *pair, call=call, within=_LONG) for pair in pairs]
    if moved := moved_since(before):
        not_yet("moved-globals", where=f"in `{call}`", generators=_listed(moved))
    for dataset, right in zip(datasets, _LENGTHS, strict=True):
        with theirs():
            length = len(dataset)
        if length != right:
            not_yet("other-length", signals=right, length=length)
    runs: list[Run] = []
    for plan in _RUNS:
        which = plan[1]
        runs.append(_run(datasets[which], given[which], signals[which], plan))
        try:
            judge(runs)
        except Rejected:
            break
    return tuple(runs)


def _run(dataset: Any, given: torch.Tensor, signals: torch.Tensor, plan: Plan) -> Run:
    (workers, which, epochs), came = plan, list[tuple[int, Came]]()
    order, moved, hashing = list(_READ), set[str](), _Hash()

    def epoch(loader: Any) -> None:
        number = epochs[len(came)]
        random.Random(number + workers).shuffle(order)
        before = global_generators()
        dataset.set_epoch(number)
        moved.update(moved_since(before))
        noise: Came = {}
        indices, batches = iter(order), iter(loader)
        before = global_generators()  # after `iter`, which draws the workers' seeds in main
        for samples in batches:
            for sample, index in zip(samples, indices, strict=False):
                noise[index] = _minus(sample, signals[index])
        moved.update(moved_since(before))
        came.append((number, noise))

    with patch("builtins.hash", hashing):
        end = run_loader(
            dataset,
            epoch,
            workers=workers,
            within=_LONG,
            epochs=len(epochs),
            batch_size=4,
            sampler=order,
            collate_fn=list,
            persistent_workers=workers == 2,
        )
    changed, names = not torch.equal(given, signals), tuple(sorted(moved))
    return Run(
        workers, len(signals), _SEEDS[which], end, tuple(came), names, changed, hashing.of_text
    )


class _Hash:
    """A `hash` that records whether a learner's line in main hashes a string or bytes.

    A tuple that holds a string or bytes counts, too. The hash of a string differs between runs of
    Python, but a single run can't show the difference.
    """

    def __init__(self) -> None:
        self.of_text, self._hash = False, hash

    def __call__(self, thing: object) -> int:
        parts = thing if isinstance(thing, tuple) else (thing,)
        texts = any(isinstance(part, (str, bytes)) for part in parts)
        if texts and errors.is_yours(sys._getframe(1).f_code.co_filename):
            self.of_text = True
        return self._hash(thing)


def _minus(sample: Any, signal: torch.Tensor) -> Noise | str:
    if form(sample) not in ("torch.float32, (4,)", "torch.float64, (4,)"):
        return form(sample)
    pairs = zip(sample.tolist(), signal.tolist(), strict=True)
    return tuple(round(number - s, 5) for number, s in pairs)


def _listed(generators: Iterable[str]) -> str:
    return " and ".join(f"`{name}`" for name in sorted(generators))


def judge(runs: Sequence[Run]) -> Result:
    """Return "Correct" if each seed, epoch, and index always has the same, unique noise.

    Otherwise, raise `Rejected`. Also reject noise that isn't standard normal, and an answer that
    failed, changed the signals, moved a global generator, or hashed a string.
    """
    # Each noise, with the run where it first arrived, and how many signals that run had.
    known: dict[Key, tuple[Noise, str, int]] = {}
    owner: dict[Noise, Key] = {}
    for run in runs:
        here = where(run.workers)
        check_ending(run.end, here)
        if run.changed:
            not_yet("changed-signals", where=here)
        for epoch, came in run.epochs:
            _judge_form(here, epoch, came)
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
            _judge_repeats(run, epoch, came, owner)
        if run.hashed:
            not_yet("hash-of-a-string", where=here)
        if run.moved:
            not_yet("moved-globals", where=here, generators=_listed(run.moved))
    _judge_distribution([noise for noise, *_ in known.values()])
    return correct(noises=len(known))


def _judge_form(here: str, epoch: int, came: Came) -> None:
    ties = [index for index, noise in came.items() if len({*noise}) < 4]
    for index, noise in came.items():
        if isinstance(noise, str):
            error_in_your_code("other-sample", where=here, index=index, form=noise)
        if index in ties[2:]:  # up to two noises may repeat a number by chance
            not_yet("not-four-numbers", where=here, index=index, epoch=epoch, noise=[*noise])


def _judge_repeats(run: Run, epoch: int, came: Came, owner: dict[Noise, Key]) -> None:
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


def _judge_distribution(noises: Sequence[Noise]) -> None:
    numbers = torch.tensor(noises).flatten()
    mean, spread = round(float(numbers.mean()), 1) + 0.0, round(float(numbers.std()), 1)
    if abs(mean) > 0.1 or abs(spread - 1) > 0.1:
        not_yet("not-standard-normal", mean=mean, spread=spread)


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
