"""how_many_workers(): a loader's throughput by number of workers, on this machine.

A number is measured several times, in turns with the others, since other programs run meanwhile:
what happens to one number then happens to all. What counts is the middle of its runs.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from operator import index
from typing import Any, Final

from torch.utils.data import DataLoader, IterableDataset

from dltutor.observation.counting import count_samples
from dltutor.observation.foreign import is_a, message_of, text
from dltutor.observation.observing import observe
from dltutor.observation.speeds import Speed, Throughput
from dltutor.observation.texts import said, tidy
from dltutor.observation.time_limits import DeadlinePassed, check_deadline
from dltutor.observation.time_limits import deadline as time_limit
from dltutor.system.this_machine import machine

RUNS: Final = 5
_BATCHES: Final = 32
_ROUNDS: Final = 4  # of a run: batches from each worker, at least
_FIRST_ROUND: Final = 0.4  # of the time, for the batches of the first round
_MOST: Final = 1024  # that it tries: a slip of the keyboard must not stop the machine

Loader = DataLoader[Any]


class CannotMeasure(Exception):
    """The loader did not run as it should; the message is a sentence that says how it ended."""


def how_many_workers(
    loader: Loader | Callable[[], Loader],
    *,
    counts: Sequence[int] | None = None,
    runs: int = RUNS,
    batches: int = _BATCHES,
    deadline: float = 60,
) -> Throughput:
    """Measure a loader with different numbers of workers, and choose one.

    The loader is made anew for each run, with everything it has but the number, and without
    persistent workers. The clock starts when each worker has delivered, so start-up is told
    apart. Nothing is done with a batch: it is the most that the loader can deliver. A file
    that a run has read comes from the kernel's cache in the next; shuffle a large set to see less
    of that.

    Args:
        loader: A DataLoader, or a function that makes one; it is called before each run, so that
            no run finds what another has cached.
        counts: The numbers to try, such as (0, 2, 4); default 0, 1, 2, 4 and so on, up to twice
            the cores. They are measured from the smallest on.
        runs: How often each is measured.
        batches: How many batches of a run are timed, or 4 of each worker where that is more; in a
            slow loader fewer.
        deadline: Seconds for all of it. Runs that do not fit are left out. Numbers that have no
            run by then are named; what was measured of the others is kept.

    Returns:
        The Throughput. Its `take` is the smallest number that the best does not clearly beat.

    Raises:
        TypeError: `loader` is something else, or `counts` are no whole numbers.
        ValueError: A number is out of range.
        CannotMeasure: The loader failed or has too few batches, or no number had a run in time.
    """
    check_deadline(deadline)
    if not is_a(loader, DataLoader) and (is_a(loader, type) or not callable(loader)):
        raise TypeError(
            f"loader must be a DataLoader, or a function that makes one, got {text(loader):.60}"
        )
    if runs < 1 or batches < 1:
        raise ValueError(f"runs and batches must be 1 or more, got {runs} and {batches}")
    numbers = default_counts() if counts is None else _whole(counts)
    until = time.monotonic() + deadline
    slice_ = _FIRST_ROUND * deadline / len(numbers)
    found: dict[int, list[tuple[float, float]]] = {number: [] for number in numbers}
    unfinished: tuple[int, ...] = ()
    took = 0.0
    for turn in range(runs):
        began = time.monotonic()
        if turn and until - began < 1.2 * took:
            break
        # There and back, so that a machine that gets slower meanwhile is no number's fault.
        for number in numbers if turn % 2 == 0 else numbers[::-1]:
            try:
                measured = _run(loader, number, batches, slice_, until - time.monotonic())
            except DeadlinePassed:
                if not turn:
                    unfinished = tuple(numbers[numbers.index(number) :])
                break
            if measured:
                found[number].append(measured)
        took = time.monotonic() - began
    speeds = [Speed(number, *zip(*each, strict=True)) for number, each in found.items() if each]
    if not speeds and unfinished:
        raise CannotMeasure(
            f"with {unfinished[0]} workers it did not get through in time, {deadline:.3g} s for "
            "all: give it more, or see with observe(loader) where it hangs"
        )
    if not speeds:
        raise CannotMeasure("an epoch has fewer than two batches: there is nothing to measure")
    too_short = tuple(number for number in numbers if not found[number])
    return Throughput(tuple(speeds), tuple(sorted({*too_short} - {*unfinished})), unfinished)


def _whole(counts: Sequence[int]) -> list[int]:
    # Without repetitions, the smallest first.
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
    """0, 1, 2, 4 and so on, up to twice the cores that this process may use."""
    here = machine()
    cores = max(1, round(min(here.cores, here.cpu_quota or here.cores)))
    return [0, *(1 << power for power in range((2 * cores).bit_length()))]


def with_workers(loader: Loader, workers: int) -> Loader:
    """The same loader with another number of workers.

    Args:
        loader: The loader. A class of its own is not kept.
        workers: The number.
    """
    names = ("collate_fn", "pin_memory", "worker_init_fn", "generator", "in_order")
    options: dict[str, Any] = {name: getattr(loader, name) for name in names}
    if workers:
        options |= {"timeout": loader.timeout, "prefetch_factor": loader.prefetch_factor}
        options["multiprocessing_context"] = loader.multiprocessing_context
    if isinstance(loader.dataset, IterableDataset):
        options |= {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
    elif loader.batch_sampler is None:
        options |= {"batch_size": None, "sampler": loader.sampler}
    else:
        options["batch_sampler"] = loader.batch_sampler
    return DataLoader(loader.dataset, num_workers=workers, **options)


def _run(
    given: Loader | Callable[[], Loader], number: int, batches: int, slice_: float, left: float
) -> tuple[float, float] | None:
    # Samples per second, and seconds of start-up; None where the epoch was too short.
    if left <= 0:
        raise DeadlinePassed
    until = time.monotonic() + left
    each = max(1, number)

    def timed(loader: Loader) -> tuple[float, float] | None:
        began = time.perf_counter()
        iterator = iter(loader)
        # One batch of each worker, and one more: where main was late, while they all started, some
        # have worked ahead, and would seem faster than they are.
        started = began
        for taken in range(2 * each if number else 1):
            if next(iterator, None) is None:
                return None
            if taken < each:
                started = time.perf_counter()
        samples = counted = 0
        end = warm = time.perf_counter()
        for came, batch in enumerate(iterator, start=1):
            samples += count_samples(loader, batch)
            if came % each == 0 or not number:  # whole rounds: each worker as often as the others
                now = time.perf_counter()
                counted, end = samples, now
                if came >= max(batches, _ROUNDS * each) or now - warm > slice_:
                    break
        if not counted:
            return None
        return counted / max(end - warm, 1e-9), started - began

    try:
        with time_limit(left):
            made: Any = given
            loader = made if is_a(made, DataLoader) else made()
    except Exception as error:
        raise CannotMeasure(
            f"the function raised {tidy(said(type(error).__name__, message_of(error)))}"
        ) from error
    if not is_a(loader, DataLoader):
        raise CannotMeasure(
            f"the function must return a DataLoader, and returned {text(loader):.60}"
        )
    rest = until - time.monotonic()
    if rest <= 0:
        raise DeadlinePassed
    with warnings.catch_warnings():  # more workers than cores is what is being tried
        warnings.filterwarnings("ignore", "This DataLoader will create")
        seen = observe(with_workers(loader, number), consume=timed, deadline=rest)
    if seen.end == "hung":
        raise DeadlinePassed
    if seen.end != "finished":
        words = f" ({tidy(said(*seen.chain[-1]))})" if seen.chain else ""
        raise CannotMeasure(
            f"with {number} workers it ended like this: {seen.story().title}{words}. "
            "observe(loader) shows more"
        )
    measured: Any = seen.result
    return measured  # type: ignore[no-any-return]
