"""Define `how_many_workers()`, which measures a loader's throughput by number of workers.

Each number of workers gets several runs, alternating with the other numbers, because another
program may slow down some of the runs. The median of the runs counts.

Workers make batches while the training step runs, so the right number depends on the step, too.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, Final

from torch.utils.data import DataLoader, IterableDataset

from dltutor import DltutorError
from dltutor.observation import foreign
from dltutor.observation.foreign import is_a, text
from dltutor.observation.observing import observe
from dltutor.observation.speeds import Speed, Throughput
from dltutor.observation.texts import said, tidy
from dltutor.observation.time_limits import DeadlinePassed, check_deadline, check_main_thread
from dltutor.observation.time_limits import deadline as time_limit
from dltutor.system.this_machine import machine

RUNS: Final = 5
_BATCHES: Final = 32
_ROUNDS: Final = 4  # the fewest batches to time from each worker, unless the loader is slow
# The fraction of the deadline for timing batches in a round, which tries each number once.
_FIRST_ROUND: Final = 0.4
_MOST: Final = 1024  # the most workers to try, because a typo such as 10000 could stop the machine

_END: Final = object()

Loader = DataLoader[Any]
Step = Callable[[Any], object]


class CannotMeasure(DltutorError):
    """The loader can't be measured. The message says why."""


def how_many_workers(
    loader: Loader | Callable[[], Loader],
    *,
    counts: Sequence[int] | None = None,
    runs: int = RUNS,
    batches: int = _BATCHES,
    deadline: float = 60,
    step: Step | float | None = None,
) -> Throughput:
    """Measure a loader with different numbers of workers, and choose a number.

    Each run gets a new loader with the same settings, except for the number of workers and
    persistent workers. The clock starts after two batches from each worker, or after the first
    batch without workers, so the result shows start-up separately. At the end of an epoch, a run
    goes on with the next one, because workers without work would leave the cores to the others. A
    stream ends, so its last batches don't count. A file that was read once comes from the operating
    system's cache from then on. Shuffle a large dataset to reduce that effect.

    Without `step`, the loop does nothing with a batch. The rate is then the most that the loader
    can deliver, and the advice is for a loop that does nothing. While a training step runs, the
    workers make the next batches. If the step is slower than the workers, more workers don't help.

    Args:
        loader: A DataLoader, or a function that makes one. Before each run, `how_many_workers`
            calls the function, so that no run finds what another run has cached.
        counts: The numbers of workers to try, such as (0, 2, 4). If None, try 0, 1, 2, 4, and so
            on, up to twice the cores.
        runs: How many times to measure each number (default 5), or fewer if the deadline leaves no
            time.
        batches: How many batches to time in a run (default 32), but at least 4 from each worker, or
            fewer if the loader is slow.
        deadline: Seconds for all runs together. The Throughput's `unfinished` lists the numbers of
            workers that had no finished run by then.
        step: Your training step, as a function that takes a batch, or as a number of seconds in
            which main waits, as it does for a GPU. If your step keeps the cores busy, pass the
            function, because the step takes the cores from the workers.

    Returns:
        The Throughput, whose `take` is the smallest number that the best number doesn't clearly
        beat. The rates count the samples that the sampler deals out, or batches if the number of
        samples is unknown.

    Raises:
        TypeError: `loader` or `step` has the wrong type, or `counts` aren't whole numbers.
        ValueError: A number is out of range.
        RuntimeError: This isn't the main thread.
        CannotMeasure: The loader or the step failed, the dataset is empty, a stream has too few
            batches, or no number had a finished run at the deadline.
    """
    check_deadline(deadline)
    if not is_a(loader, DataLoader) and (is_a(loader, type) or not callable(loader)):
        raise TypeError(
            f"loader must be a DataLoader, or a function that makes one, got {text(loader):.60}"
        )
    if runs < 1 or batches < 1:
        raise ValueError(f"runs and batches must be 1 or more, got {runs} and {batches}")
    check_main_thread("how_many_workers()", "its deadline interrupt a loader that hangs")
    numbers = default_counts() if counts is None else _whole(counts)
    work, told = _work(step)
    until = time.monotonic() + deadline
    slice_ = _FIRST_ROUND * deadline / len(numbers)
    found: dict[int, list[_Measured]] = {number: [] for number in numbers}
    unfinished: tuple[int, ...] = ()
    took = 0.0
    for turn in range(runs):
        began = time.monotonic()
        if turn and until - began < 1.2 * took:
            break
        # Reverse the order every other time, so that a machine that slows down favors no number.
        for number in numbers if turn % 2 == 0 else numbers[::-1]:
            try:
                measured = _run(loader, number, batches, slice_, until - time.monotonic(), work)
            except DeadlinePassed:
                if not turn:
                    unfinished = tuple(numbers[numbers.index(number) :])
                break
            if measured:
                found[number].append(measured)
        took = time.monotonic() - began
    unit = "samples" if all(run.samples for each in found.values() for run in each) else "batches"
    speeds = [
        Speed(
            number,
            tuple(getattr(run, unit) / run.seconds for run in each),
            tuple(run.start for run in each),
        )
        for number, each in found.items()
        if each
    ]
    if not speeds and unfinished:
        raise CannotMeasure(
            f"with {unfinished[0]} workers, no run finished by the deadline of {deadline:.3g} s. "
            "Use a longer deadline, or call observe(loader) to see where the loader hangs"
        )
    if not speeds:
        raise CannotMeasure("too few batches arrived, so there's nothing to measure")
    too_short = tuple(number for number in numbers if not found[number])
    return Throughput(
        tuple(speeds),
        tuple(sorted({*too_short} - {*unfinished})),
        unfinished,
        unit=unit,
        step=told,
    )


@dataclass(frozen=True)
class _Measured:
    batches: int
    samples: int | None
    seconds: float  # how long these batches took
    start: float  # seconds until each worker had delivered a batch


def _work(step: Step | float | None) -> tuple[Step, str]:
    # Return a function that does the step, and the step in words.
    accepted = "step must be a function that takes a batch, or a positive number of seconds"
    if step is None:
        return lambda batch: None, ""
    if isinstance(step, (int, float)) and not isinstance(step, bool):
        if not 0 < step < math.inf:
            raise ValueError(f"{accepted}, got {step!r}")
        return lambda batch: time.sleep(step), f"a step of {step:g} s"
    if isinstance(step, type) or not callable(step):
        raise TypeError(f"{accepted}, got {step!r:.60}")
    return step, f"the step {getattr(step, '__name__', type(step).__name__)}()"


def _whole(counts: Sequence[int]) -> list[int]:
    try:
        numbers = sorted({index(number) for number in counts})
    except TypeError:
        raise TypeError(
            f"counts must be whole numbers of workers, such as (0, 2, 4), got {text(counts):.60}"
        ) from None
    if not numbers or numbers[0] < 0 or numbers[-1] > _MOST:
        raise ValueError(
            f"counts must be one or more numbers of workers, each from 0 to {_MOST}, got "
            f"{counts!r:.60}"
        )
    return numbers


def default_counts() -> list[int]:
    """Return 0, 1, 2, 4, and so on, up to twice the cores that this process may use."""
    here = machine()
    cores = max(1, round(min(here.cores, here.cpu_quota or here.cores)))
    return [0, *(1 << power for power in range((2 * cores).bit_length()))]


class _Endless:
    """A sampler that begins again at its end, until one of its epochs is empty."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler

    def __iter__(self) -> Iterator[Any]:
        dealt = True
        while dealt:
            dealt = False
            for each in self._sampler:
                dealt = True
                yield each


def with_workers(loader: Loader, workers: int, *, endless: bool = False) -> Loader:
    """Copy a loader with another number of workers.

    The copy is always a plain DataLoader, without persistent workers. If `endless`, the copy's
    sampler begins again at its end, but a stream still ends.
    """
    dealt = _Endless if endless else lambda sampler: sampler
    names = ("collate_fn", "pin_memory", "worker_init_fn", "generator", "in_order")
    options: dict[str, Any] = {name: getattr(loader, name) for name in names}
    if workers:
        options |= {"timeout": loader.timeout, "prefetch_factor": loader.prefetch_factor}
        options["multiprocessing_context"] = loader.multiprocessing_context
    if isinstance(loader.dataset, IterableDataset):
        options |= {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
    elif loader.batch_sampler is None:
        options |= {"batch_size": None, "sampler": dealt(loader.sampler)}
    else:
        options["batch_sampler"] = dealt(loader.batch_sampler)
    return DataLoader(loader.dataset, num_workers=workers, **options)


class _StepFailed(Exception):
    """The step raised an exception, which is this exception's cause."""


def _run(
    given: Loader | Callable[[], Loader],
    number: int,
    batches: int,
    slice_: float,
    left: float,
    step: Step,
) -> _Measured | None:
    # Measure one run with `number` workers, in at most `left` seconds. Return None if too few
    # batches arrived.
    if left <= 0:
        raise DeadlinePassed
    until = time.monotonic() + left
    each = max(1, number)

    def work(batch: Any) -> float:
        began = time.perf_counter()
        try:
            step(batch)
        except Exception as error:
            raise _StepFailed from error
        return time.perf_counter() - began

    def timed(loader: Loader) -> _Measured | None:
        began = time.perf_counter()
        iterator: Any = iter(loader)
        # Skip two batches from each worker, because some workers have worked ahead while the others
        # started, and would seem faster than they are.
        start = worked = 0.0
        for taken in range(2 * each if number else 1):
            if (batch := next(iterator, _END)) is _END:
                return None
            if taken < each:
                start = time.perf_counter() - began - worked
            worked += work(batch)
        # Keep the totals whenever all workers have delivered equally many batches.
        rounds: list[_Measured] = []
        samples: int | None = 0
        warm = time.perf_counter()
        for came, batch in enumerate(iterator, start=1):
            in_it = iterator.samples
            samples = None if samples is None or in_it is None else samples + in_it
            work(batch)
            if came % each == 0:
                seconds = time.perf_counter() - warm
                rounds.append(_Measured(came, samples, max(seconds, 1e-9), start))
                if came >= max(batches, _ROUNDS * each) or seconds > slice_:
                    return rounds[-1]
        # The stream has ended. Workers had no work in its last rounds, so leave these out.
        rounds = rounds[: len(rounds) - (loader.prefetch_factor or 0)]
        return rounds[-1] if rounds else None

    try:
        with time_limit(left):
            made: Any = given
            loader = made if is_a(made, DataLoader) else made()
    except Exception as error:
        raise CannotMeasure(f"the function raised {tidy(foreign.said(error))}") from error
    if not is_a(loader, DataLoader):
        raise CannotMeasure(
            f"the function must return a DataLoader, but it returned {text(loader):.60}"
        )
    rest = until - time.monotonic()
    if rest <= 0:
        raise DeadlinePassed
    with warnings.catch_warnings():  # we try more workers than cores on purpose
        warnings.filterwarnings("ignore", "This DataLoader will create")
        seen = observe(with_workers(loader, number, endless=True), consume=timed, deadline=rest)
    if seen.end == "hung":
        raise DeadlinePassed
    if seen.chain[:1] == ((_StepFailed.__name__, ""),):
        raise CannotMeasure(f"with {number} workers, step raised {tidy(said(*seen.chain[1]))}")
    if seen.end != "finished":
        words = f" ({tidy(said(*seen.chain[-1]))})" if seen.chain else ""
        raise CannotMeasure(
            f"with {number} workers, the run ended like this: {seen.story().title}{words}. "
            "observe(loader) shows more"
        )
    measured: Any = seen.result
    return measured  # type: ignore[no-any-return]
