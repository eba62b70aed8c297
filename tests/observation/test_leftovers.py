"""Check that a run leaves no process, segment, descriptor, thread, or handler behind."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from multiprocessing import forkserver, resource_tracker
from multiprocessing.queues import Queue
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import psutil
import pytest
import small_datasets
import torch.multiprocessing
from fresh_interpreter import run_fresh
from own_process import DEADLINE, until
from small_datasets import Numbers, load
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from dltutor.observation import observe, torch_internals
from dltutor.system import marks
from dltutor.system.processes import is_alive

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


class Owning(_MultiProcessingDataLoaderIter):
    """An iterator that needs an attribute of its own when it shuts down its workers."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.own = 0
        super().__init__(loader)

    def _shutdown_workers(self) -> None:
        self.own += 1
        super()._shutdown_workers()


class LoadsWithOwning(DataLoader[Any]):
    """A loader that makes an Owning iterator. litdata's iterator is of its own class, too."""

    def _get_iterator(self) -> Any:
        return Owning(self)


# If deleting the iterator raised an error, Python would only print it, but pytest would fail.
def test_an_iterator_of_your_own_class_ends_without_an_error() -> None:
    assert observe(LoadsWithOwning(Numbers(), num_workers=2)).ok
    gc.collect()


@pytest.mark.parametrize("runs", [12, pytest.param(200, marks=pytest.mark.thorough)])
def test_many_runs_of_mixed_endings_leave_nothing(runs: int) -> None:
    script = """
        import gc, os, threading
        import small_datasets, psutil
        from small_datasets import Numbers, load
        from dltutor import observe

        this = psutil.Process()

        def kept():
            shm = {name for name in os.listdir("/dev/shm") if str(os.getpid()) in name}
            return len(this.children(recursive=True)), this.num_fds(), threading.active_count(), shm

        endings = [
            ("finished", None), ("raised", small_datasets.raise_error),
            ("worker died", small_datasets.killed), ("hung", small_datasets.sleep_on),
        ]
        observe(load(Numbers()))  # what Python and torch keep for good is there from here on
        gc.freeze()  # and need not be looked through each time
        before = kept()
        for i in range(RUNS):
            end, trouble = endings[i % 4]
            # A hang that is stopped before it begins is a hang as well.
            loader = load(Numbers(trouble, at=i % 16))
            seen = observe(loader, deadline=0.25 if end == "hung" else 30)
            assert seen.end == end, (i, seen)
        print(before == kept() or (before, kept()))
        """
    done = run_fresh(script.replace("RUNS", str(runs)), seconds=280)
    assert done.stdout == "True\n"
    assert done.stderr == ""


@pytest.mark.parametrize(
    "trouble", [small_datasets.have_a_child, small_datasets.have_a_child_and_die]
)
def test_what_a_worker_has_started_is_gone(trouble: Callable[[Path], None], tmp_path: Path) -> None:
    observe(load(Numbers(partial(trouble, tmp_path / "pid"))))
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_a_loader_that_the_loop_keeps_is_ended_and_can_be_used_again() -> None:
    validation = load(Numbers(), persistent_workers=True)
    before = psutil.Process().children()

    def loop(loader: DataLoader[Any]) -> list[int]:
        return [sum(1 for _ in each) for each in (loader, validation)]

    seen = observe(load(Numbers()), consume=loop, epochs=2)
    assert (seen.result, seen.left, seen.others) == ([8, 8], 0, 2), seen
    assert psutil.Process().children() == before
    assert sum(1 for _ in validation) == 8
    torch_internals.abandon(validation._iterator)


def test_a_worker_that_is_slow_to_leave_is_not_killed_while_it_makes_a_segment(
    tmp_path: Path,
) -> None:
    # If torch sent SIGTERM to this worker, a segment's name could stay in /dev/shm.
    note = tmp_path / "terminated"
    loader = load(Numbers(partial(small_datasets.note_a_termination, note), at=2))
    seen = observe(loader, consume=lambda loader: next(iter(loader)))
    assert seen.end == "finished"
    assert not note.exists()


@pytest.mark.parametrize("own", [False, True], ids=["the loader", "a loader of the loop"])
def test_a_worker_that_was_being_started_is_gone(own: bool) -> None:
    never = load(small_datasets.NeverStarted(), "spawn", num_workers=1)
    seen = (
        observe(load(Numbers()), consume=lambda _: list(never), deadline=3)
        if own
        else (observe(never, deadline=3))
    )
    assert (seen.end, seen.batches) == ("hung", 0)


def test_a_fork_server_that_was_there_before_stays() -> None:
    forkserver.ensure_running()
    before = forkserver._forkserver._forkserver_pid, resource_tracker._resource_tracker._pid
    loader = load(Numbers(), "forkserver", num_workers=1)
    assert observe(loader, deadline=60).end == "finished"
    after = forkserver._forkserver._forkserver_pid, resource_tracker._resource_tracker._pid
    assert after == before
    assert psutil.pid_exists(before[0])


def test_the_sharing_strategy_is_given_back_and_batches_that_the_loop_keeps_stay_usable() -> None:
    before = torch.multiprocessing.get_sharing_strategy()
    kept: list[Any] = []

    def consume(loader: DataLoader[Any]) -> None:
        kept.extend(loader)
        other = {"file_system": "file_descriptor", "file_descriptor": "file_system"}[before]
        torch.multiprocessing.set_sharing_strategy(other)

    observe(load(Numbers(length=4)), consume=consume)
    assert torch.multiprocessing.get_sharing_strategy() == before
    assert [batch.tolist() for batch in kept] == [[[0.0], [1.0]], [[2.0], [3.0]]]
    kept.clear()


def test_a_queue_whose_thread_a_signal_interrupted_the_start_of_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # If a worker dies right after its start, torch's SIGCHLD handler may raise while main starts
    # the queue's thread.
    class Interrupted(Finalize):
        def __init__(self, owner: object, callback: object, *args: Any, **kwargs: Any) -> None:
            if callback is Queue._finalize_close:
                raise RuntimeError("DataLoader worker (pid 1) is killed by signal: Killed. ")
            super().__init__(owner, callback, *args, **kwargs)

    monkeypatch.setattr("multiprocessing.queues.Finalize", Interrupted)
    before = threading.active_count()
    assert observe(load(Numbers())).end == "worker died"
    assert threading.active_count() == before


# These functions run in fresh interpreters, one for each group in NEW_PROCESSES.


def the_helpers_of_multiprocessing_that_were_not_there_before_are_ended() -> None:
    for _ in range(2):  # twice, because the helpers must be able to start again
        seen = observe(load(Numbers(), "forkserver", num_workers=1), deadline=60)
        assert seen.end == "finished", seen
        assert not psutil.Process().children(recursive=True)
        assert forkserver._forkserver._forkserver_pid is None


def a_later_plain_loader_still_hears_of_a_killed_worker() -> None:
    # torch sets its SIGCHLD handler once per process. So when `observe` removes the handler, it has
    # to reset torch's flag, or later loaders have no handler.
    def plainly() -> str:
        iterator: Any = iter(load(Numbers(length=1000)))
        try:
            os.kill(iterator._workers[0].pid, signal.SIGKILL)
            # `until` sleeps often and briefly. Python would notice a signal that arrives right
            # before one long sleep only after that sleep.
            until(lambda: False, 30)
        except RuntimeError as error:
            return str(error).split(") ")[1]
        finally:
            # _shutdown_workers() would wait for the lock of an event that W0 may have held.
            torch_internals.abandon(iterator)

    def ignores(loader: DataLoader[Any]) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    heard = "is killed by signal: Killed. "
    observe(load(Numbers(small_datasets.killed)))
    assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL
    assert plainly() == heard
    theirs = signal.getsignal(signal.SIGCHLD)
    for trouble, consume in ((small_datasets.killed, None), (None, ignores)):
        observe(load(Numbers(trouble)), consume=consume)
        assert signal.getsignal(signal.SIGCHLD) is theirs
        assert plainly() == heard


def with_the_sharing_strategy_file_system_later_loaders_and_kept_batches_live_on() -> None:
    # With this strategy, torch keeps a manager process for as long as this process lives. The
    # manager removes a segment's name some time after the last process lets go of the segment.
    mark = marks.new()
    marks.put(mark)  # to find the manager, which makes itself an orphan
    segments: tuple[str, ...] = ()

    def kept() -> tuple[list[str], int, set[str]]:
        this = psutil.Process()
        started = filter(is_alive, marks.carriers(mark) - {this.pid})
        names = [psutil.Process(pid).name() for pid in started]
        shm = {name for name in os.listdir("/dev/shm") if name.startswith(segments)}
        return sorted(names), this.num_fds(), shm

    torch.multiprocessing.set_sharing_strategy("file_system")
    batches: list[Any] = []
    assert observe(load(Numbers()), consume=batches.extend).end == "finished"
    maps = Path("/proc/self/maps").read_text()
    mapped = [name for name in os.listdir("/dev/shm") if f"/dev/shm/{name}" in maps]
    segments = tuple(f"torch_{name.split('_')[1]}_" for name in mapped)
    assert len(kept()[2]) == 8, kept()
    assert batches[0].tolist() == [[0.0], [1.0]]
    batches.clear()  # torch would abort here if a segment were gone
    until(lambda: not kept()[2])
    first = kept()
    assert {*first[0]} == {"torch_shm_manager"} and not first[2], first
    for trouble in (small_datasets.killed, small_datasets.leave):
        assert observe(load(Numbers(trouble))).end == "worker died"
    assert len(list(load(Numbers()))) == 8
    until(lambda: kept() == first)


def with_the_sharing_strategy_file_system_a_loop_keeps_its_batches_however_it_ends() -> None:
    # Each worker starts its own manager. When main drops a batch, main writes to the manager, and
    # torch aborts main if the manager is gone.
    torch.multiprocessing.set_sharing_strategy("file_system")

    def stuck(loader: DataLoader[Any]) -> None:
        batches.append(next(iter(loader)))
        threading.Event().wait()

    def keeping(loader: DataLoader[Any]) -> None:
        batches.extend(loader)

    batches: list[Any] = []
    for trouble, loop, end, deadline in (
        (small_datasets.raise_error, keeping, "raised", DEADLINE),
        (small_datasets.killed, keeping, "worker died", DEADLINE),
        (None, stuck, "hung", 15),  # enough for the first batch, even on a very busy machine
    ):
        assert observe(load(Numbers(trouble)), consume=loop, deadline=deadline).end == end
        assert batches[0].tolist() == [[0.0], [1.0]]
        batches.clear()


NEW_PROCESSES = {
    "what a process has once and for all": (
        the_helpers_of_multiprocessing_that_were_not_there_before_are_ended,
        a_later_plain_loader_still_hears_of_a_killed_worker,
        with_the_sharing_strategy_file_system_later_loaders_and_kept_batches_live_on,
    ),
    "managers": (with_the_sharing_strategy_file_system_a_loop_keeps_its_batches_however_it_ends,),
}


@pytest.mark.parametrize("name", NEW_PROCESSES)
def test_in_a_new_process(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:  # a killed worker leaves its folder of sockets
        run = f"import test_leftovers\nfor each in test_leftovers.NEW_PROCESSES[{name!r}]: each()"
        done = run_fresh(run, seconds=280, env={**os.environ, "TMPDIR": folder})
    assert done.stderr == ""
