"""observe() survives whatever a loader does, says how it ended, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
from datasets import (
    FOR_EVER,
    Locked,
    Numbers,
    PicklesWith,
    Stream,
    Unpicklable,
    deadline_passes,
    load,
)
from fresh_interpreter import run_fresh
from torch.utils.data import DataLoader

from dltutor.observation import Frame, Observation, observe, torch_internals

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

spawn = pytest.param("spawn", marks=pytest.mark.thorough)
"""A spawned worker imports torch for 2 s of CPU; those of the tests' fork server have it."""

fresh_start_methods = pytest.mark.parametrize("start_method", [spawn, "forkserver"])


def exits(observation: Observation) -> list[int | None]:
    return [worker.exitcode for worker in observation.workers]


# The four ends, under fork.


def test_a_healthy_loader_finishes_and_is_counted() -> None:
    observation = observe(load(Numbers()))
    assert observation.end == "finished"
    assert (observation.batches, observation.samples) == (8, 16)
    assert exits(observation) == [0, 0]
    assert observation.chain == () and observation.traceback == () and observation.raw == ""
    assert observation.first_batch_seconds is not None
    assert observation.last_batch_seconds is not None
    assert 0 < observation.first_batch_seconds < observation.last_batch_seconds
    assert observation.last_batch_seconds < observation.seconds


def test_an_exception_in_a_worker_is_told_with_its_worker_and_the_line() -> None:
    observation = observe(load(Numbers(datasets.raise_error)))
    assert observation.end == "raised"
    assert (observation.batches, observation.samples) == (4, 8)
    assert observation.raised_in_worker == "ValueError"
    assert observation.failed_worker == 0
    [(kind, message)] = observation.chain
    assert kind == "ValueError" and message.endswith("ValueError: nine is bad\n")
    last = observation.traceback[-1]
    assert (last.file, last.function) == ("tests/datasets.py", "raise_error")
    assert last.code == 'raise ValueError("nine is bad")'
    assert exits(observation) == [None, None]  # a worker that raised still runs


def test_a_type_that_torch_cannot_build_again_is_told_beside_the_one_that_arrived() -> None:
    observation = observe(load(Numbers(datasets.raise_two_parts)))
    assert observation.raised_in_worker == "TwoParts"
    assert observation.chain[0][0] == "RuntimeError"
    assert "type     TwoParts in the worker, RuntimeError in main" in str(observation)


@pytest.mark.parametrize(
    ("trouble", "exitcode", "name"),
    [
        (datasets.killed, -9, "SIGKILL"),
        (datasets.segfault, -11, "SIGSEGV"),
        (datasets.leave, 3, None),
        (datasets.leave_at_once, 0, None),
    ],
)
def test_a_dead_worker_is_told_with_its_exit_code_and_signal(
    trouble: Callable[[], None], exitcode: int, name: str | None
) -> None:
    # SystemExit among them: in main it looks like a missing file or a lost connection.
    observation = observe(load(Numbers(trouble)))
    assert observation.end == "worker died"
    assert exits(observation) == [exitcode, None]
    assert observation.workers[0].signal == name
    assert observation.chain
    assert observation.failed_worker is None and observation.raised_in_worker is None


def test_a_worker_that_dies_in_the_middle_of_a_batch_is_told_by_torch_as_ever() -> None:
    # Main stands in the transfer, where the notice of the death is put off, but not forever.
    observation = observe(load(Numbers(datasets.die_in_a_transfer, at=0), num_workers=1))
    assert observation.end == "worker died"
    assert "exited unexpectedly" in observation.chain[0][1]


def test_a_worker_that_sleeps_is_stopped_at_the_deadline_and_says_where_it_stood() -> None:
    observation = observe(load(Numbers(datasets.sleep)))
    assert observation.end == "hung"
    assert observation.deadline == 30
    assert observation.batches <= 4 and observation.chain == ()
    assert exits(observation) == [None, None]
    stuck, idle = observation.workers
    assert stuck.stack is not None and idle.stack is not None
    assert stuck.stack[0] == Frame(
        "tests/datasets.py", stuck.stack[0].line, "sleep", "time.sleep(deadline_passes())"
    )
    assert [frame.function for frame in idle.stack] == ["_worker_loop"]


def test_a_worker_stuck_in_a_lock_says_so() -> None:
    observation = observe(load(Locked()))
    assert observation.end == "hung"
    stack = observation.workers[0].stack
    assert stack is not None and stack[0].code == "self.lock.acquire(timeout=deadline_passes())"


def test_a_deadline_passes_after_its_seconds() -> None:
    started = time.monotonic()
    observation = observe(load(Numbers(datasets.sleep_on, at=0)), deadline=0.3)
    assert (observation.end, observation.deadline, observation.batches) == ("hung", 0.3, 0)
    assert 0.3 <= observation.seconds <= time.monotonic() - started < 20


def test_a_loader_that_times_out_raised_and_says_where_its_worker_stands() -> None:
    observation = observe(load(Numbers(datasets.sleep_on, at=0), timeout=1.5))
    assert observation.end == "raised"
    assert observation.chain == (("RuntimeError", "DataLoader timed out after 1.5 seconds"),)
    stack = observation.workers[0].stack
    assert stack is not None and stack[0].function == "sleep_on"


def test_a_worker_found_dead_at_the_deadline_is_no_hang() -> None:
    # torch looks every 5 s only, if no signal tells it: as under forkserver.
    def consume(loader: DataLoader[Any]) -> None:
        iterator = iter(loader)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        next(iterator)  # the first batches are loaded in advance, the one that kills isn't
        iterator._workers[0].join()
        deadline_passes()
        list(iterator)

    observation = observe(load(Numbers(datasets.killed, length=10_000)), consume=consume)
    assert observation.end == "worker died"
    assert exits(observation) == [-9, None]


def test_workers_that_ended_well_do_not_make_a_hang_a_death() -> None:
    def consume(loader: DataLoader[Any]) -> None:
        list(loader)
        time.sleep(deadline_passes())

    observation = observe(load(Numbers()), consume=consume)
    assert (observation.end, observation.batches) == ("hung", 8)
    assert exits(observation) == [0, 0]


def test_a_deadline_that_passes_during_the_clean_up_does_not_let_torch_raise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forget, forgot = torch_internals.forget_workers, []

    def slowly(iterator: Any) -> None:
        forgot.append(iterator)
        if len(forgot) == 1:
            time.sleep(deadline_passes())
        forget(iterator)

    def consume(loader: DataLoader[Any]) -> None:
        next(iter(loader))

    monkeypatch.setattr(torch_internals, "forget_workers", slowly)
    loader = load(Numbers(length=1000), persistent_workers=True)
    assert observe(loader, consume=consume).end == "hung"
    forgot.clear()


# The same ends where workers start afresh.


@fresh_start_methods
def test_an_exception_is_told_under_every_start_method(start_method: str) -> None:
    observation = observe(load(Numbers(datasets.raise_error), start_method), deadline=60)
    assert (observation.end, observation.batches) == ("raised", 4)
    assert (observation.raised_in_worker, observation.failed_worker) == ("ValueError", 0)
    assert observation.traceback[-1].function == "raise_error"


@fresh_start_methods
def test_a_killed_worker_is_told_under_every_start_method(start_method: str) -> None:
    observation = observe(load(Numbers(datasets.killed), start_method), deadline=60)
    assert observation.end == "worker died"
    assert exits(observation) == [-9, None]
    assert observation.workers[0].signal == "SIGKILL"


@fresh_start_methods
def test_a_hang_is_told_under_every_start_method(start_method: str) -> None:
    observation = observe(load(Numbers(datasets.sleep), start_method), deadline=60)
    assert observation.end == "hung"
    stack = observation.workers[0].stack
    assert stack is not None and stack[0].function == "sleep"
    assert exits(observation) == [None, None]


@pytest.mark.parametrize("start_method", ["spawn", "forkserver"])
def test_a_dataset_that_cannot_be_pickled_raises_in_main(start_method: str) -> None:
    observation = observe(load(Unpicklable(), start_method), deadline=60)
    assert (observation.end, observation.batches) == ("raised", 0)
    assert observation.raised_in_worker is None and observation.failed_worker is None
    assert observation.workers == ()
    assert re.search("Can't (pickle|get) local object", observation.chain[0][1])
    # The attribute that could not be pickled comes first, the process that should have had it last.
    if sys.version_info >= (3, 14):
        assert observation.notes[0] == "when serializing dict item 'double'"
        assert observation.notes[-1].startswith("when serializing multiprocessing.context.")
    else:
        assert observation.notes == ()


@fresh_start_methods
def test_a_dataset_that_cannot_be_unpickled_kills_its_worker_and_stderr_has_the_reason(
    start_method: str,
) -> None:
    script = """
        from datasets import NoWayBack, load
        from dltutor import observe
        seen = observe(load(NoWayBack(), START_METHOD, num_workers=1), deadline=60)
        assert seen.end == "worker died", seen
        assert [worker.exitcode for worker in seen.workers] == [1]
        assert seen.stderr.endswith("RuntimeError: cannot be rebuilt\\n"), seen.stderr
        """
    # A fork server that was there before would write to its own stderr.
    done = run_fresh(script.replace("START_METHOD", repr(start_method)))
    assert done.stderr == ""


# Without workers.


def test_without_workers_an_exception_is_told_with_the_line() -> None:
    observation = observe(load(Numbers(datasets.raise_error), num_workers=0))
    assert (observation.end, observation.batches) == ("raised", 4)
    assert observation.chain == (("ValueError", "nine is bad"),)
    assert observation.raised_in_worker is None and observation.failed_worker is None
    assert observation.traceback[-1].function == "raise_error"
    assert observation.workers == ()


@pytest.mark.parametrize("dataset", [Numbers(datasets.sleep), Locked()], ids=["sleep", "lock"])
def test_without_workers_a_hang_says_where_main_stood(
    dataset: Numbers,
) -> None:
    observation = observe(load(dataset, num_workers=0))
    assert (observation.end, observation.batches) == ("hung", 4)
    assert observation.chain == ()
    assert "deadline_passes()" in observation.traceback[-1].code


def test_without_workers_an_exit_is_an_exception_like_others() -> None:
    observation = observe(load(Numbers(datasets.leave), num_workers=0))
    assert observation.end == "raised"
    assert observation.chain == (("SystemExit", "3"),)


def test_an_exception_without_a_text_is_told_by_its_type() -> None:
    observation = observe(load(Numbers(datasets.raise_unsayable), num_workers=0))
    assert observation.end == "raised"
    assert observation.chain[0][0] == "Unsayable"
    assert str(observation)


# The loop.


def test_an_exception_of_the_loop_ends_the_run() -> None:
    def consume(loader: DataLoader[Any]) -> None:
        for i, _ in enumerate(loader):
            if i == 2:
                raise KeyError("loss")

    observation = observe(load(Numbers()), consume=consume)
    assert (observation.end, observation.batches) == ("raised", 3)
    assert observation.chain == (("KeyError", "'loss'"),)
    assert observation.traceback[-1].code == 'raise KeyError("loss")'
    assert observation.failed_worker is None


def test_a_loop_that_hangs_ends_at_the_deadline() -> None:
    observation = observe(
        load(Numbers()), consume=lambda loader: time.sleep(FOR_EVER), deadline=0.3
    )
    assert (observation.end, observation.batches) == ("hung", 0)


def test_a_loop_that_swallows_every_exception_still_ends_at_the_deadline() -> None:
    swallowed: list[str] = []

    def consume(loader: DataLoader[Any]) -> None:
        for _ in range(3):
            try:
                time.sleep(FOR_EVER)
            except BaseException as error:
                swallowed.append(type(error).__name__)
        time.sleep(FOR_EVER)

    assert observe(load(Numbers()), consume=consume, deadline=0.2).end == "hung"
    assert swallowed == ["DeadlinePassed"] * 3


def test_a_loop_that_breaks_off_finishes() -> None:
    def consume(loader: DataLoader[Any]) -> None:
        for _ in loader:
            break

    observation = observe(load(Numbers(length=1000)), consume=consume)
    assert (observation.end, observation.batches) == ("finished", 1)


def test_a_missing_file_in_the_loop_is_no_dead_worker(tmp_path: Path) -> None:
    # The workers have ended, and well: the error is the loop's own.
    def consume(loader: DataLoader[Any]) -> None:
        for _ in loader:
            pass
        (tmp_path / "missing").read_text()

    observation = observe(load(Numbers()), consume=consume)
    assert observation.end == "raised"
    assert observation.chain[0][0] == "FileNotFoundError"


def test_a_loop_that_turns_the_error_into_another_keeps_both() -> None:
    def consume(loader: DataLoader[Any]) -> None:
        try:
            list(loader)
        except Exception as error:
            raise RuntimeError("the epoch failed") from error

    raised = observe(load(Numbers(datasets.raise_error)), consume=consume)
    assert [kind for kind, _ in raised.chain] == ["RuntimeError", "ValueError"]
    died = observe(load(Numbers(datasets.killed)), consume=consume)
    assert (died.end, died.workers[0].signal) == ("worker died", "SIGKILL")


def test_epochs_are_counted_together() -> None:
    observation = observe(load(Numbers()), epochs=3)
    assert (observation.end, observation.batches, observation.samples) == ("finished", 24, 48)


def test_two_iterators_at_once_are_both_counted_and_ended() -> None:
    def consume(loader: DataLoader[Any]) -> None:
        for _ in zip(loader, loader, strict=True):
            pass

    assert observe(load(Numbers()), consume=consume).batches == 16


def test_a_loop_may_keep_its_iterator(nothing_left_behind: Callable[..., None]) -> None:
    kept: list[Any] = []

    def consume(loader: DataLoader[Any]) -> None:
        kept.append(iter(loader))
        next(kept[0])

    observation = observe(load(Numbers()), consume=consume)
    assert (observation.end, observation.batches) == ("finished", 1)
    nothing_left_behind()
    assert list(kept[0]) == []


# Kinds of loaders.


def test_persistent_workers_are_ended_and_the_loader_can_be_used_again(
    nothing_left_behind: Callable[..., None],
) -> None:
    loader = load(Numbers(), persistent_workers=True)
    assert observe(loader, epochs=3).batches == 24
    nothing_left_behind()
    assert observe(loader).end == "finished"
    assert [batch.tolist() for batch in loader][:1] == [[[0.0], [1.0]]]
    loader._iterator._shutdown_workers()
    loader._iterator = None


def test_persistent_workers_of_before_are_used_and_ended(
    nothing_left_behind: Callable[..., None],
) -> None:
    loader = load(Numbers(), persistent_workers=True)
    list(loader)
    observation = observe(loader)
    assert (observation.end, observation.batches) == ("finished", 8)
    nothing_left_behind()


def test_a_loader_whose_kept_workers_have_died_is_told_as_such() -> None:
    loader = load(Numbers(), persistent_workers=True)
    list(loader)
    [victim, _] = loader._iterator._workers
    with pytest.raises(RuntimeError, match="killed by signal"):
        os.kill(victim.pid, signal.SIGKILL)
        time.sleep(FOR_EVER)  # torch interrupts it
    observation = observe(loader)
    assert observation.end == "worker died"
    assert observation.workers[0].signal == "SIGKILL"
    assert observe(loader).end == "finished"


def test_a_stream_is_counted_from_every_worker() -> None:
    observation = observe(load(Stream(5)))
    assert (observation.end, observation.samples) == ("finished", 10)


def test_an_empty_dataset_finishes_without_a_batch() -> None:
    for workers in (0, 2):
        observation = observe(load(Numbers(length=0), num_workers=workers))
        assert (observation.end, observation.batches) == ("finished", 0)
        assert observation.first_batch_seconds is None and observation.last_batch_seconds is None
        assert "0 batches, 0 samples" in str(observation)


def test_without_batching_each_item_is_a_sample() -> None:
    observation = observe(load(Numbers(), batch_size=None))
    assert (observation.batches, observation.samples) == (16, 16)


@pytest.mark.parametrize(
    "collate",
    [datasets.as_list, datasets.as_dict, datasets.as_nothing, datasets.as_something_else],
)
def test_samples_are_counted_whatever_a_batch_is(collate: Callable[[list[Any]], Any]) -> None:
    for workers in (0, 2):
        observation = observe(load(Numbers(), collate_fn=collate, num_workers=workers))
        assert (observation.end, observation.batches) == ("finished", 8)
        assert observation.samples == 16


def test_an_argument_that_torch_finds_wrong_only_when_it_starts_is_told_without_noise(
    capfd: pytest.CaptureFixture[str],
) -> None:
    observation = observe(load(Numbers(), prefetch_factor=0))
    assert (observation.end, observation.chain[0][0]) == ("raised", "AssertionError")
    assert "prefetch_factor must be greater than 0" in observation.chain[0][1]
    assert capfd.readouterr() == ("", "")  # as `__del__` of half an iterator would make


def test_workers_that_started_before_the_start_of_another_failed_are_ended() -> None:
    observation = observe(load(PicklesWith(datasets.raise_error), "spawn"), deadline=60)
    assert (observation.end, observation.batches) == ("raised", 0)
    assert observation.chain[0][0] == "ValueError" and observation.failed_worker is None
    assert exits(observation) == [None]


def test_a_collate_function_that_fails_is_told_like_a_dataset() -> None:
    observation = observe(load(Numbers(), collate_fn=datasets.collate_badly))
    assert (observation.end, observation.batches) == ("raised", 0)
    assert observation.raised_in_worker == "KeyError"
    assert observation.traceback[-1].function == "collate_badly"


def test_a_worker_init_fn_of_ones_own_is_called_and_kept(tmp_path: Path) -> None:
    def init(number: int) -> None:
        (tmp_path / str(number)).touch()

    loader = load(Numbers(), worker_init_fn=init)
    observe(loader)
    assert sorted(os.listdir(tmp_path)) == ["0", "1"]
    assert loader.worker_init_fn is init


def test_a_loader_is_as_it_was_afterwards() -> None:
    loader = load(Numbers(datasets.raise_error))
    before = dict(vars(loader))
    observe(loader)
    assert vars(loader) == before


# What workers write to descriptor 2.


def test_what_workers_write_to_stderr_is_kept_and_does_not_reach_the_screen(
    capfd: pytest.CaptureFixture[str],
) -> None:
    observation = observe(load(Numbers(datasets.say_hello)))
    assert observation.end == "finished"
    assert observation.stderr == "hello from descriptor 2\nhello from sys.stderr\n"
    assert capfd.readouterr() == ("", "")


def test_colors_in_what_workers_write_are_left_out() -> None:
    # Python 3.13 and later color a traceback wherever FORCE_COLOR is set, as in a kernel.
    assert observe(load(Numbers(datasets.write_in_color))).stderr == "ValueError: red\n"


def test_of_megabytes_of_stderr_the_end_is_kept() -> None:
    observation = observe(load(Numbers(datasets.write_much)))
    assert observation.end == "finished"
    assert observation.stderr.endswith("all is well so far\nthe last words\n")
    assert len(observation.stderr) < 100_000
    assert len(str(observation).splitlines()) < 30


def test_main_still_writes_to_its_own_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    def consume(loader: DataLoader[Any]) -> None:
        for _ in loader:
            os.write(2, b"loss 0.1\n")
            break

    assert observe(load(Numbers()), consume=consume).stderr == ""
    assert capfd.readouterr().err == "loss 0.1\n"


# What is wrong with the call itself.


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (Numbers, "got Numbers (a Dataset): wrap it, DataLoader(Numbers(...), num_workers=2)"),
        (lambda: Numbers, "got the class Numbers: make an object of it first"),
        (lambda: iter(load(Numbers(), num_workers=0)), "(an iterator, which runs once)"),
        (lambda: 3, "got int: 3"),
        (lambda: None, "got NoneType: None"),
        (lambda: [1, 2], "got list: [1, 2]"),
        (lambda: torch.zeros(2), "got Tensor: tensor([0., 0.])"),
        (lambda: enumerate(load(Numbers())), "(an iterator, which runs once)"),
    ],
)
def test_what_is_no_loader_is_named(make: Callable[[], Any], told: str) -> None:
    with pytest.raises(TypeError) as caught:
        observe(make())
    assert str(caught.value).startswith("observe() takes a torch DataLoader, got ")
    assert told in str(caught.value)


@pytest.mark.parametrize("deadline", [0, -3, float("inf"), float("nan"), 1e300, "5", None, True])
def test_a_deadline_must_be_positive_seconds(deadline: Any) -> None:
    with pytest.raises(ValueError) as caught:
        observe(load(Numbers()), deadline=deadline)
    assert str(caught.value).startswith("deadline must be a positive number of seconds")
    assert str(caught.value).endswith(f", got {deadline!r}")


@pytest.mark.parametrize("epochs", [0, -1, 1.5, "2", True])
def test_epochs_must_be_a_whole_positive_number(epochs: Any) -> None:
    with pytest.raises(ValueError, match="epochs must be a whole number of 1 or more, got"):
        observe(load(Numbers()), epochs=epochs)


def test_consume_must_be_a_function() -> None:
    with pytest.raises(TypeError, match=r"consume must be a function .*, got 3"):
        observe(load(Numbers()), consume=3)  # type: ignore[arg-type]


def test_outside_the_main_thread_it_says_why_not() -> None:
    caught: list[Exception] = []

    def call() -> None:
        try:
            observe(load(Numbers()))
        except Exception as error:
            caught.append(error)

    thread = threading.Thread(target=call, name="trainer")
    thread.start()
    thread.join()
    [error] = caught
    assert isinstance(error, RuntimeError)
    assert "must be called in the main thread" in str(error) and str(error).endswith("trainer")


def test_the_alarm_of_an_outer_user_is_given_back() -> None:
    rang: list[int] = []
    old = signal.signal(signal.SIGALRM, lambda number, _: rang.append(number))
    ours = signal.getsignal(signal.SIGALRM)
    signal.setitimer(signal.ITIMER_REAL, 100, 50)
    try:
        assert observe(load(Numbers(datasets.sleep))).end == "hung"
        left, interval = signal.getitimer(signal.ITIMER_REAL)
        assert 0 < left < 100 and interval == 50
        assert signal.getsignal(signal.SIGALRM) is ours and not rang
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def test_the_shortest_deadline_ends_the_run_at_once() -> None:
    handler = signal.getsignal(signal.SIGALRM)
    observation = observe(load(Numbers(datasets.sleep_on, at=0)), deadline=1e-9)
    assert (observation.end, observation.batches) == ("hung", 0)
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
