"""Check that the counts, rates, tracebacks, and exit codes that instruments report are true."""

from __future__ import annotations

import pickle
import re
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_datasets import Numbers, Stream, load, raise_error
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

from dltutor import how_many_workers
from dltutor.observation import errors, observe
from dltutor.observation.confinement.results import observation_of
from dltutor.observation.confinement.task import Report, Task
from dltutor.observation.record import Worker
from dltutor.observation.report import Observation
from dltutor.observation.speeds import Speed, Throughput
from dltutor.observation.texts import shorten_paths

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

WORKERS = pytest.mark.parametrize("workers", [0, 2])


# --- samples: as many as the sampler gave to the loader


class Opaque:
    """A batch that doesn't show what it contains."""


def ragged(samples: list[torch.Tensor]) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Return images of different sizes and their labels, as torchvision's detection scripts do."""
    return [torch.zeros(3, 40 + int(each), 50) for each in samples], torch.stack(samples)


def without_the_odd(samples: list[torch.Tensor]) -> list[torch.Tensor]:
    return [each for each in samples if int(each) % 2 == 0]


def opaque(samples: list[torch.Tensor]) -> Opaque:
    return Opaque()


def nothing(samples: list[torch.Tensor]) -> None:
    return None


COLLATES = [None, ragged, without_the_odd, opaque, nothing]


def first_batches(count: int) -> Callable[[Any], None]:
    def loop(loader: Any) -> None:
        for _, _ in zip(range(count), loader, strict=False):
            pass

    return loop


@WORKERS
@pytest.mark.parametrize("collate", COLLATES)
def test_samples_are_those_that_the_sampler_gave_whatever_a_batch_is_made_into(
    collate: Any, workers: int
) -> None:
    seen = observe(load(Numbers(length=19), num_workers=workers, batch_size=4, collate_fn=collate))
    assert (seen.end, seen.batches, seen.samples) == ("finished", 5, 19)
    assert "5 batches, 19 samples" in str(seen)


def in_batches(batches: list[list[int]], dataset: Any = None, **options: Any) -> DataLoader[Any]:
    options = {"collate_fn": ragged, "batch_size": 1} | options
    return load(dataset or Numbers(), batch_sampler=batches, **options)


@WORKERS
def test_the_samples_of_batches_on_their_way_are_not_counted(workers: int) -> None:
    sizes = [5, 1, 3, 2, 4, 1]
    batches = [list(range(size)) for size in sizes]
    for taken in (1, 4, 6):
        loader = in_batches(batches, num_workers=workers)
        seen = observe(loader, consume=first_batches(taken))
        assert (seen.batches, seen.samples) == (taken, sum(sizes[:taken]))


class LastOfAll(Numbers):
    """A dataset whose sample 0 waits until two other batches have arrived."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = torch.zeros(1, dtype=torch.long).share_memory_()

    def __getitem__(self, index: int) -> torch.Tensor:
        while index == 0 and self.arrived.item() < 2:
            time.sleep(0.001)
        return super().__getitem__(index)


def test_batches_that_overtake_others_are_counted_with_their_own_sizes() -> None:
    dataset = LastOfAll()
    loader = in_batches([[0] * 7, [1], [2, 3], [4, 5, 6]], dataset, in_order=False)

    def consume(given: Any) -> list[tuple[int, int]]:
        sizes = []
        iterator: Any = iter(given)
        for images, _ in iterator:
            sizes.append((len(images), iterator.samples))
            dataset.arrived += 1
        return sizes

    seen = observe(loader, consume=consume)
    assert seen.result == [(1, 1), (3, 3), (7, 7), (2, 2)]
    assert (seen.batches, seen.samples) == (4, 13)


@pytest.mark.parametrize(("in_order", "persistent"), [(True, False), (False, True)])
def test_samples_are_counted_over_epochs_some_of_them_broken_off(
    in_order: bool, persistent: bool
) -> None:
    loader = load(
        Numbers(length=19),
        batch_size=4,
        collate_fn=ragged,
        persistent_workers=persistent,
        in_order=in_order,
    )

    def consume(given: Any) -> None:
        first_batches(1)(given)
        first_batches(9)(given)
        first_batches(2)(given)

    seen = observe(loader, consume=consume)
    assert (seen.batches, seen.samples) == (8, 4 + 19 + 8)


@WORKERS
def test_a_batch_that_failed_is_not_counted_and_those_after_it_are(workers: int) -> None:
    batches = [[0, 1, 2], [9] * 5, [3, 4]]  # sample 9 raises
    loader = in_batches(batches, Numbers(raise_error), num_workers=workers, in_order=False)

    def consume(given: Any) -> int:
        iterator, failed = iter(given), 0
        while True:
            try:
                next(iterator)
            except StopIteration:
                return failed
            except ValueError:
                failed += 1

    seen = observe(loader, consume=consume)
    assert (seen.result, seen.batches, seen.samples) == (1, 2, 5)


@WORKERS
def test_without_batching_each_index_of_a_list_is_a_sample(workers: int) -> None:
    class Rows(Numbers):
        def __getitem__(self, index: Any) -> torch.Tensor:
            return torch.tensor(index)

    for sampler, samples in (
        (SequentialSampler(range(10)), 10),
        (BatchSampler(SequentialSampler(range(10)), 4, drop_last=False), 10),
        ([(1, 224), (2, 192)], 2),
    ):
        seen = observe(load(Rows(), batch_size=None, sampler=sampler, num_workers=workers))
        assert (seen.end, seen.samples) == ("finished", samples)


@WORKERS
@pytest.mark.parametrize(
    ("options", "samples"),
    [
        ({"collate_fn": None}, 5),  # default_collate makes a tensor of this length
        ({"collate_fn": ragged}, None),  # the last batch may have fewer samples
        ({"collate_fn": ragged, "drop_last": True}, 4),
        ({"collate_fn": ragged, "batch_size": 1}, 5),
        ({"batch_size": None}, None),  # an item may be a sample or a batch
    ],
)
def test_samples_of_a_stream_are_counted_where_they_can_be_known(
    options: dict[str, Any], samples: int | None, workers: int
) -> None:
    seen = observe(load(Stream(5), num_workers=workers, **options))
    times = max(1, workers)
    assert seen.end == "finished"
    assert seen.samples == (None if samples is None else times * samples)


class Wrapper:
    """A wrapper that changes batches, and stays `ahead` batches ahead of the loop."""

    def __init__(self, loader: Any, ahead: int = 0) -> None:
        self.loader = loader
        self.ahead = ahead

    def __iter__(self) -> Iterator[Any]:
        ready = []
        for batch in self.loader:
            ready.append(batch)
            if len(ready) > self.ahead:
                yield {"batch": ready.pop(0)}
        yield from ready


class Half(Wrapper):
    def __iter__(self) -> Iterator[Any]:
        yield from list(self.loader)[::2]


@WORKERS
def test_a_wrapper_that_gives_as_many_batches_as_its_loader_is_counted(workers: int) -> None:
    loader = load(Numbers(length=19), num_workers=workers, batch_size=4, collate_fn=ragged)
    for wrapper in (Wrapper(loader), Wrapper(loader, ahead=1)):
        seen = observe(wrapper, epochs=2)
        assert (seen.batches, seen.samples) == (10, 38)
    broken_off = observe(Wrapper(loader, ahead=1), consume=first_batches(2))
    assert (broken_off.batches, broken_off.samples) == (2, None)


def test_of_a_wrapper_with_other_batches_only_these_are_told() -> None:
    seen = observe(Half(load(Numbers(), batch_size=4)))
    assert (seen.batches, seen.samples) == (2, None)
    assert "got      2 batches\n" in str(seen)
    assert "sample" not in str(seen)
    assert seen.to_dict()["samples"] is None


def test_a_second_loader_of_the_loop_is_not_counted() -> None:
    other = load(Numbers(length=6), num_workers=0)

    def consume(given: Any) -> None:
        for _ in given:
            list(other)

    seen = observe(load(Numbers(length=5), collate_fn=ragged), consume=consume)
    assert (seen.batches, seen.samples) == (3, 5)


# --- workers: how many workers help this loop


class Rows(Numbers):
    """A dataset whose samples take 25 ms each, as if they waited for a disk."""

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.025)
        return super().__getitem__(index)


STEP = 0.1  # seconds, as long as a batch of four `Rows` takes


def rest(batch: Any) -> None:
    time.sleep(STEP)


def test_one_worker_that_works_while_the_step_waits_is_worth_taking() -> None:
    loader = load(Rows(length=60), num_workers=1, batch_size=4)
    found = how_many_workers(loader, counts=(0, 1), runs=2, batches=4, step=rest)
    none, one = found.speeds
    assert one.rate > 1.2 * none.rate  # twice as fast, unless the machine is busy
    assert (found.take, found.step) == (1, "the step rest()")


@pytest.mark.parametrize(
    ("dataset", "collate", "unit"),
    [
        (Numbers(length=40), opaque, "samples"),
        (Stream(40), ragged, "batches"),
    ],
)
def test_the_rate_with_a_step_is_that_of_the_loop_in_samples_where_they_are_known(
    dataset: Any, collate: Any, unit: str
) -> None:
    loader = load(dataset, num_workers=0, batch_size=4, collate_fn=collate)
    found = how_many_workers(loader, counts=(0,), runs=1, batches=8, step=STEP)
    assert (found.unit, found.step) == (unit, "a step of 0.1 s")
    assert 0 < found.speeds[0].rate <= (4 if unit == "samples" else 1) / STEP
    assert f"{unit}/s" in str(found)


def test_the_advice_says_for_which_loop_it_holds() -> None:
    none = Throughput((Speed(0, (100.0,), (0.1,)), Speed(2, (100.0,), (0.1,))))
    assert none.take == 0
    for told in (str(none), none._repr_html_()):
        assert "does nothing with the batches" in told and "step" in told
    for step in ("a step of 0.1 s", "the step rest()"):
        told = str(replace(none, step=step))
        assert step in told and "does nothing" not in told


# --- raw: what a terminal would show without `observe`


def plainly(loader: Any) -> None:
    for _ in loader:
        pass


def stumbles(loader: Any) -> None:
    for number, _ in enumerate(loader):
        if number == 1:
            raise_error()


def stumbles_over_the_loaders_error(loader: Any) -> None:
    try:
        plainly(loader)
    except ValueError as error:
        raise RuntimeError("the epoch failed") from error


def fails(_: Any) -> None:
    raise_error()


class RunsOut(SequentialSampler):
    """A sampler that fails in the middle of an epoch."""

    def __iter__(self) -> Iterator[int]:
        yield from range(12)
        raise_error()


def in_a_terminal(loop: Callable[[Any], None], loader: Any) -> str:
    with pytest.raises(Exception) as caught:
        loop(loader)
    first = caught.value.__traceback__
    assert first is not None
    error = caught.value.with_traceback(first.tb_next)
    text = shorten_paths("".join(traceback.format_exception(error)).rstrip())
    errors.forget(error)  # so that the workers end
    return text


def without_chance(text: str) -> str:
    """Remove the line number in `_next_data`, which depends on which batch arrived first."""
    return re.sub(r"line \d+, in _next_data\b", "in _next_data", text)


FAIL: list[tuple[Any, dict[str, Any]]] = [
    (Numbers(raise_error), {}),
    (Numbers(), {"collate_fn": fails}),
    (Numbers(), {"sampler": RunsOut(range(16))}),
    (Numbers(raise_error), {"batch_size": None}),
]
IN_A_WORKER = (Numbers(), {"worker_init_fn": fails})


@pytest.mark.parametrize(
    ("loop", "dataset", "options", "workers"),
    [
        *(
            (plainly, *each, workers)
            for workers in (0, 2)
            for each in [*FAIL, *[IN_A_WORKER] * (workers > 0)]
        ),
        (stumbles_over_the_loaders_error, *FAIL[0], 2),
        (stumbles, Numbers(), {}, 2),
    ],
)
def test_raw_is_what_a_terminal_shows_without_observe(
    loop: Any, dataset: Any, options: dict[str, Any], workers: int
) -> None:
    loader = load(dataset, num_workers=workers, **options)
    expected = in_a_terminal(loop, loader)
    assert without_chance(observe(loader, consume=loop).raw) == without_chance(expected)
    if loop is plainly:  # without `consume`, the traceback has no frame of the loop
        gone = r'  File "\S+/test_harmless_numbers.py", line \d+, in plainly\n(    .*\n)*'
        by_itself = observe(loader).raw
        assert without_chance(by_itself) == without_chance(re.sub(gone, "", expected))


# --- a worker that was killed is reported as killed


KILLED = "Memory cgroup out of memory: Killed process {} (pt_data_worker) total-vm:861180kB"


def confined(folder: Path, started: str, seen: Observation, **report: Any) -> Observation:
    """Make the Observation that `confine` makes from what its child and supervisor wrote."""
    (folder / "answer").write_bytes(pickle.dumps(seen))
    (folder / "workers").write_text(started)
    task = Task([], str(folder), seconds=60, seconds_observing=40, memory=300 << 20)
    return observation_of(task, Report(pid=99, **report), deadline=30)


@pytest.fixture(scope="module")
def broken_off() -> Observation:
    """Observe a run in which both workers were still running when an error ended the loop."""
    return observe(load(Numbers(raise_error)))


@pytest.mark.parametrize(
    ("started", "report", "codes"),
    [
        (
            "11 0\n12 1\n",
            {"cgroup": 2, "oom_kills": 1, "kernel_log": [KILLED.format(11)]},
            [-9, None],
        ),
        (
            "12 1\n11 0\n",
            {"cgroup": 1, "oom_kills": 2, "kernel_log": [KILLED.format(11), KILLED.format(12)]},
            [-9, -9],
        ),
        ("11 0\n12 1\n", {"watchdog": (12,)}, [None, -9]),
        # Linux killed an earlier epoch's worker, main, or a stranger, or the log can't be read. So
        # neither worker gets an exit code.
        ("1 0\n12 1\n11 0\n", {"cgroup": 2, "kernel_log": [KILLED.format(1)]}, [None, None]),
        ("11 0\n12 1\n", {"cgroup": 2, "kernel_log": [KILLED.format(99)]}, [None, None]),
        ("11 0\n12 1\n", {"cgroup": 2, "kernel_log": [KILLED.format(111)]}, [None, None]),
        ("11 0\n12 1\n", {"cgroup": 2, "oom_kills": 1, "kernel_log": None}, [None, None]),
    ],
)
def test_whom_the_kernel_or_the_watchdog_killed_is_not_told_as_still_running(
    started: str,
    report: dict[str, Any],
    codes: list[int | None],
    broken_off: Observation,
    tmp_path: Path,
) -> None:
    assert [worker.exitcode for worker in broken_off.workers] == [None, None]
    seen = confined(tmp_path, started, broken_off, **report)
    assert [worker.exitcode for worker in seen.workers] == codes
    for worker in seen.workers:
        fates = [life.died for life in seen.timeline.processes if life.role == worker.name]
        assert fates[-1:] == ([worker.fate] if worker.exitcode else [""])


def test_a_worker_that_ended_before_keeps_its_exit_code(
    broken_off: Observation, tmp_path: Path
) -> None:
    ended = replace(broken_off, workers=(Worker(0, 3), Worker(1, None)))
    seen = confined(tmp_path, "11 0\n12 1\n", ended, watchdog=(11,))
    assert [worker.exitcode for worker in seen.workers] == [3, None]
