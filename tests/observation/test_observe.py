"""Check that `observe()` survives any loader, says how the run ended, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import small_datasets
import torch
from fresh_interpreter import run_fresh
from small_datasets import (
    FOR_EVER,
    Numbers,
    PicklesWith,
    Stream,
    Unpicklable,
    deadline_passes,
    load,
)
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from dltutor.observation import Observation, observe, torch_internals

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

each_start_method = pytest.mark.parametrize(
    "start_method", [pytest.param("spawn", marks=pytest.mark.thorough), "forkserver"]
)


@pytest.fixture(autouse=True)
def torch_looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have torch look for dead workers every 0.5 s instead of every 5 s."""
    monkeypatch.setattr(_MultiProcessingDataLoaderIter._try_get_data, "__defaults__", (0.5,))


def facts(seen: Observation) -> dict[str, Any]:
    """Return the main facts of an Observation as a dict, to compare with expected ones."""
    stacks = [worker.stack for worker in seen.workers]
    return {
        "end": seen.end,
        "batches": seen.batches,
        "samples": seen.samples,
        "chain": [kind for kind, _ in seen.chain],
        "raised": (seen.raised_in_worker, seen.failed_worker),
        "exits": [worker.exitcode for worker in seen.workers],
        "signals": [worker.signal for worker in seen.workers],
        "stacks": [stack[0].function if stack else None for stack in stacks],
        "at": seen.traceback[-1].function if seen.traceback else None,
    }


def breaks_off(loader: DataLoader[Any]) -> None:
    for _ in loader:
        break


def raises_on_the_third(loader: DataLoader[Any]) -> None:
    for i, _ in enumerate(loader):
        if i == 2:
            raise KeyError("loss")


def misses_a_file(loader: DataLoader[Any]) -> None:
    list(loader)  # the workers have ended without an error
    Path("/no/such/file").read_text()


def raises_another(loader: DataLoader[Any]) -> None:
    try:
        list(loader)
    except Exception as error:
        raise RuntimeError("the epoch failed") from error


def reads_it_twice_at_once(loader: DataLoader[Any]) -> None:
    for _ in zip(loader, loader, strict=True):
        pass


def hangs_after_the_epoch(loader: DataLoader[Any]) -> None:
    list(loader)
    time.sleep(deadline_passes())


def run(
    trouble: Callable[[], object] | None = None,
    at: int = small_datasets.BAD,
    dataset: Any = None,
    consume: Callable[[Any], object] | None = None,
    epochs: int = 1,
    **options: Any,
) -> Observation:
    loader = load(Numbers(trouble, at=at) if dataset is None else dataset, **options)
    return observe(loader, consume=consume, epochs=epochs, deadline=60)


FINISHED = {"end": "finished", "batches": 8, "samples": 16, "chain": [], "at": None}
RAISED = {"end": "raised", "raised": ("ValueError", 0), "exits": [None, None], "at": "raise_error"}
KILLED = {"end": "worker died", "exits": [-9, None], "signals": ["SIGKILL", None]}
SLEEPS = {"end": "hung", "exits": [None, None], "stacks": ["sleep", "_worker_loop"], "chain": []}

RUNS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a healthy loader": ({}, {**FINISHED, "exits": [0, 0]}),
    "three epochs": ({"epochs": 3}, {**FINISHED, "batches": 24, "samples": 48}),
    "a stream, from every worker": (
        {"dataset": Stream(5)},
        {**FINISHED, "batches": 6, "samples": 10},
    ),
    "no samples": ({"dataset": Numbers(length=0)}, {**FINISHED, "batches": 0, "samples": 0}),
    "no samples, no workers": (
        {"dataset": Numbers(length=0), "num_workers": 0},
        {**FINISHED, "batches": 0, "samples": 0},
    ),
    "without batching": ({"batch_size": None}, {**FINISHED, "batches": 16}),
    "an exception": (
        {"trouble": small_datasets.raise_error},
        {**RAISED, "batches": 4, "samples": 8, "chain": ["ValueError"]},
    ),
    "an exception in collate": (
        {"collate_fn": small_datasets.collate_badly},
        {"end": "raised", "batches": 0, "raised": ("KeyError", 0), "at": "collate_badly"},
    ),
    "a type that torch can't build again": (
        {"trouble": small_datasets.raise_two_parts},
        {"end": "raised", "raised": ("TwoParts", 0), "chain": ["RuntimeError"]},
    ),
    "a killed worker": ({"trouble": small_datasets.killed}, {**KILLED, "raised": (None, None)}),
    "a worker that crashes": (
        {"trouble": small_datasets.segfault},
        {"end": "worker died", "exits": [-11, None], "signals": ["SIGSEGV", None]},
    ),
    # In main, the exit looks like a missing file or a lost connection.
    "a worker that exits": (
        {"trouble": small_datasets.leave},
        {"end": "worker died", "exits": [3, None], "signals": [None, None]},
    ),
    "a worker that exits without an error": (
        {"trouble": small_datasets.leave_at_once},
        {"end": "worker died", "exits": [0, None]},
    ),
    # Main is in a transfer, where `observe` delays SIGCHLD, which says that a worker died.
    "a worker that dies in the middle of a batch": (
        {"trouble": small_datasets.die_in_a_transfer, "at": 0, "num_workers": 1},
        {"end": "worker died", "exits": [-9]},
    ),
    "a worker that sleeps": ({"trouble": small_datasets.sleep}, SLEEPS),
    "a worker that is too slow for the loader's timeout": (
        {"trouble": small_datasets.sleep_on, "at": 0, "timeout": 1.5},
        {"end": "raised", "chain": ["RuntimeError"], "stacks": ["sleep_on", "_worker_loop"]},
    ),
    "an exception without workers": (
        {"trouble": small_datasets.raise_error, "num_workers": 0},
        {**RAISED, "batches": 4, "raised": (None, None), "exits": []},
    ),
    "an exception without a text": (
        {"trouble": small_datasets.raise_unsayable, "num_workers": 0},
        {"end": "raised", "chain": ["Unsayable"]},
    ),
    "a hang without workers": (
        {"trouble": small_datasets.sleep, "num_workers": 0},
        {"end": "hung", "batches": 4, "chain": [], "at": "sleep"},
    ),
    "an exit without workers": (
        {"trouble": small_datasets.leave, "num_workers": 0},
        {"end": "raised", "chain": ["SystemExit"]},
    ),
    "a loop that raises": (
        {"consume": raises_on_the_third},
        {
            "end": "raised",
            "batches": 3,
            "chain": ["KeyError"],
            "raised": (None, None),
            "at": "raises_on_the_third",
        },
    ),
    "a loop that breaks off": (
        {"consume": breaks_off, "dataset": Numbers(length=1000)},
        {"end": "finished", "batches": 1},
    ),
    "a loop that misses a file": (
        {"consume": misses_a_file},
        {"end": "raised", "chain": ["FileNotFoundError"], "exits": [0, 0]},
    ),
    "a loop that raises another exception": (
        {"consume": raises_another, "trouble": small_datasets.raise_error},
        {"end": "raised", "chain": ["RuntimeError", "ValueError"]},
    ),
    "a loop that raises another exception after a death": (
        {"consume": raises_another, "trouble": small_datasets.killed},
        KILLED,
    ),
    "a loop that hangs when its workers have ended": (
        {"consume": hangs_after_the_epoch},
        {"end": "hung", "batches": 8, "exits": [0, 0]},
    ),
    "two iterators at once": (
        {"consume": reads_it_twice_at_once},
        {"end": "finished", "batches": 16},
    ),
}


@pytest.mark.parametrize("what", RUNS)
def test_a_run_is_written_down(what: str) -> None:
    options, expected = RUNS[what]
    seen = run(**options)
    assert {key: facts(seen)[key] for key in expected} == expected
    assert str(seen) and seen.deadline == 60
    if seen.batches:
        assert seen.first_batch_seconds is not None and seen.last_batch_seconds is not None
        assert 0 < seen.first_batch_seconds <= seen.last_batch_seconds < seen.seconds
    else:
        assert seen.first_batch_seconds is None and seen.last_batch_seconds is None


@each_start_method
@pytest.mark.parametrize(
    ("trouble", "expected"),
    [
        (small_datasets.raise_error, {**RAISED, "batches": 4}),
        (small_datasets.killed, KILLED),
        (small_datasets.sleep, SLEEPS),
    ],
)
def test_it_is_the_same_under_every_start_method(
    trouble: Callable[[], object], expected: dict[str, Any], start_method: str
) -> None:
    seen = run(trouble, start_method=start_method)
    assert {key: facts(seen)[key] for key in expected} == expected


@each_start_method
def test_a_dataset_that_cannot_be_pickled_raises_in_main(start_method: str) -> None:
    seen = run(dataset=Unpicklable(), start_method=start_method)
    assert (seen.end, seen.batches, seen.workers) == ("raised", 0, ())
    assert seen.raised_in_worker is None and seen.failed_worker is None
    assert re.search("Can't (pickle|get) local object", seen.chain[0][1])
    # The first note names the attribute, and the last one names the process that needs it.
    if sys.version_info >= (3, 14):
        assert seen.notes[0] == "when serializing dict item 'double'"
        assert seen.notes[-1].startswith("when serializing multiprocessing.context.")
    else:
        assert seen.notes == ()


@pytest.mark.thorough  # starts interpreters with torch, and notebook 06 shows the same
@pytest.mark.parametrize("start_method", ["spawn", "forkserver"])
def test_a_dataset_that_cannot_be_unpickled_kills_its_worker_and_stderr_has_the_reason(
    start_method: str,
) -> None:
    script = """
        from small_datasets import NoWayBack, load
        from dltutor import observe
        from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter
        _MultiProcessingDataLoaderIter._try_get_data.__defaults__ = (0.5,)
        seen = observe(load(NoWayBack(), START_METHOD, num_workers=1), deadline=60)
        assert seen.end == "worker died", seen
        assert [worker.exitcode for worker in seen.workers] == [1]
        assert seen.stderr.endswith("RuntimeError: cannot be rebuilt\\n"), seen.stderr
        """
    # Use a fresh interpreter, because workers write to the stderr that their fork server started
    # with, and an earlier test may have started the server.
    done = run_fresh(script.replace("START_METHOD", repr(start_method)))
    assert done.stderr == ""


# The deadline.


@pytest.mark.parametrize("deadline", [0.3, 1e-9])
def test_a_deadline_passes_after_its_seconds(deadline: float) -> None:
    started = time.monotonic()
    seen = observe(load(Numbers(small_datasets.sleep_on, at=0)), deadline=deadline)
    assert (seen.end, seen.deadline, seen.batches) == ("hung", deadline, 0)
    assert deadline <= seen.seconds <= time.monotonic() - started < 20


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


def test_a_worker_found_dead_at_the_deadline_is_no_hang() -> None:
    # Without SIGCHLD, as under forkserver, torch looks for dead workers only from time to time.
    def consume(loader: DataLoader[Any]) -> None:
        iterator = iter(loader)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        next(iterator)  # the batch that kills W0 isn't among the prefetched ones
        iterator._workers[0].join()
        time.sleep(deadline_passes())

    seen = observe(load(Numbers(small_datasets.killed, length=10_000)), consume=consume)
    assert (seen.end, facts(seen)["exits"]) == ("worker died", [-9, None])


def test_a_deadline_that_passes_during_the_clean_up_does_not_let_torch_raise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forget, forgot = torch_internals.forget_workers, []

    def slowly(iterator: Any) -> None:
        forgot.append(iterator)
        if len(forgot) == 1:
            time.sleep(deadline_passes())
        forget(iterator)

    monkeypatch.setattr(torch_internals, "forget_workers", slowly)
    loader = load(Numbers(length=1000), persistent_workers=True)
    assert observe(loader, consume=breaks_off).end == "hung"
    forgot.clear()


# Kept iterators, persistent workers, and workers that fail to start.


def test_a_loop_may_keep_its_iterator(nothing_left_behind: Callable[..., None]) -> None:
    kept: list[Any] = []

    def consume(loader: DataLoader[Any]) -> None:
        kept.append(iter(loader))
        next(kept[0])

    assert observe(load(Numbers()), consume=consume).batches == 1
    nothing_left_behind()
    assert list(kept[0]) == []


def test_a_forked_process_lets_its_parent_keep_its_workers() -> None:
    script = """
        import os, warnings
        from small_datasets import Numbers, load
        from dltutor import observe

        loader = load(Numbers(), persistent_workers=True)
        assert sum(1 for _ in loader) == 8
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns about our threads
        if (pid := os.fork()) == 0:
            print(observe(loader).batches, flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
        print(sum(1 for _ in loader), all(each.is_alive() for each in loader._iterator._workers))
        """
    done = run_fresh(script)
    assert (done.stdout, done.stderr) == ("8\n8 True\n", "")


@pytest.mark.parametrize("used_before", [False, True])
def test_persistent_workers_are_ended_and_the_loader_can_be_used_again(
    used_before: bool, nothing_left_behind: Callable[..., None]
) -> None:
    loader = load(Numbers(), persistent_workers=True)
    if used_before:
        list(loader)
    assert observe(loader, epochs=3).batches == 24
    nothing_left_behind()
    assert observe(loader).end == "finished"


def test_a_loader_whose_kept_workers_have_died_is_told_as_such() -> None:
    loader = load(Numbers(), persistent_workers=True)
    list(loader)
    [victim, _] = loader._iterator._workers
    with pytest.raises(RuntimeError, match="killed by signal"):
        os.kill(victim.pid, signal.SIGKILL)
        time.sleep(FOR_EVER)  # torch's SIGCHLD handler raises
    assert observe(loader).workers[0].signal == "SIGKILL"
    assert observe(loader).end == "finished"


def test_an_argument_that_torch_finds_wrong_only_when_it_starts_is_told_without_noise(
    capfd: pytest.CaptureFixture[str],
) -> None:
    seen = run(prefetch_factor=0)
    assert (seen.end, seen.chain[0][0]) == ("raised", "AssertionError")
    assert capfd.readouterr() == ("", "")  # no noise from `__del__` of a half-made iterator


@pytest.mark.thorough
def test_workers_that_started_before_the_start_of_another_failed_are_ended() -> None:
    seen = run(dataset=PicklesWith(small_datasets.raise_error), start_method="spawn")
    assert (seen.end, seen.batches, seen.failed_worker) == ("raised", 0, None)
    assert facts(seen)["exits"] == [None]


def test_a_loader_is_as_it_was_and_its_own_worker_init_fn_is_called(tmp_path: Path) -> None:
    def init(number: int) -> None:
        (tmp_path / str(number)).touch()

    loader = load(Numbers(small_datasets.raise_error), worker_init_fn=init)
    before = dict(vars(loader))
    observe(loader)
    assert sorted(each for each in os.listdir(tmp_path) if each.isdigit()) == ["0", "1"]
    assert vars(loader) == before


# What workers write to descriptor 2.


@pytest.mark.parametrize(
    ("trouble", "kept"),
    [
        (small_datasets.say_hello, "hello from descriptor 2\nhello from sys.stderr\n"),
        # Python 3.13 and later color a traceback if FORCE_COLOR is set, as it is in a notebook.
        (small_datasets.write_in_color, "ValueError: red\n"),
        (small_datasets.write_much, "all is well so far\nthe last words\n"),
    ],
)
def test_the_end_of_what_workers_write_to_stderr_is_kept_and_does_not_reach_the_screen(
    trouble: Callable[[], object], kept: str, capfd: pytest.CaptureFixture[str]
) -> None:
    seen = observe(load(Numbers(trouble)))
    assert seen.end == "finished"
    assert seen.stderr.endswith(kept) and len(seen.stderr) < 100_000
    assert len(seen.stderr) == len(kept) or trouble is small_datasets.write_much
    assert len(str(seen).splitlines()) < 30
    assert capfd.readouterr() == ("", "")


def test_main_still_writes_to_its_own_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    def consume(loader: DataLoader[Any]) -> None:
        for _ in loader:
            os.write(2, b"loss 0.1\n")
            break

    assert observe(load(Numbers()), consume=consume).stderr == ""
    assert capfd.readouterr().err == "loss 0.1\n"


# Wrong arguments.


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (Numbers, "DataLoader(Numbers(...), num_workers=2)"),
        (lambda: Numbers, "got the class Numbers: make an object of it first"),
        (lambda: None, "got NoneType"),
        (lambda: [1, 2], "got list: [1, 2]"),
        (lambda: torch.zeros(2), "got Tensor: tensor([0., 0.])"),
        (lambda: enumerate(load(Numbers(), num_workers=0)), "got enumerate (an iterator"),
        (lambda: iter(()), "which runs once): pass the loader that it came from"),
        (lambda: SimpleNamespace(train=load(Numbers())), "pass the DataLoader in its `train`"),
    ],
)
def test_what_is_no_loader_is_named(make: Callable[[], Any], told: str) -> None:
    with pytest.raises(TypeError, match="DataLoader") as caught:
        observe(make())
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("deadline", [0, -3, float("inf"), float("nan"), 1e300, "5", None, True]),
        ("epochs", [0, -1, 1.5, "2", True]),
        ("consume", [3]),
    ],
)
def test_a_wrong_argument_is_named_with_what_was_given(name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises((TypeError, ValueError), match=f"^{name} must be ") as caught:
            observe(load(Numbers()), **{name: value})
        assert f"got {value!r}" in str(caught.value)
