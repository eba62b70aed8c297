"""Afterwards no process, segment, descriptor, thread or handler is there that was not before."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import forkserver, resource_tracker
from multiprocessing.queues import Queue
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import datasets
import psutil
import pytest
import torch.multiprocessing
from datasets import FOR_EVER, Numbers, load
from fresh_interpreter import run_fresh
from torch.utils.data import DataLoader

from dltutor.observation import observe
from dltutor.observation.leftovers import close_interrupted_files, nothing_left
from dltutor.system.processes import is_alive, segments

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


def descriptors() -> dict[int, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
    return found


# Many runs.


@pytest.mark.timeout(300)
@pytest.mark.parametrize("runs", [20, pytest.param(200, marks=pytest.mark.thorough)])
def test_many_runs_of_mixed_endings_leave_nothing(runs: int) -> None:
    script = """
        import gc, os, threading
        import datasets, psutil
        from datasets import Numbers, load
        from dltutor import observe

        this = psutil.Process()

        def kept():
            shm = {name for name in os.listdir("/dev/shm") if str(os.getpid()) in name}
            return len(this.children(recursive=True)), this.num_fds(), threading.active_count(), shm

        endings = [
            ("finished", None), ("raised", datasets.raise_error),
            ("worker died", datasets.killed), ("hung", datasets.sleep_on),
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


# Processes.


@pytest.mark.parametrize("trouble", [datasets.have_a_child, datasets.have_a_child_and_die])
def test_what_a_worker_has_started_is_gone(trouble: Callable[[Path], None], tmp_path: Path) -> None:
    observe(load(Numbers(partial(trouble, tmp_path / "pid"))))
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_what_was_there_before_stays() -> None:
    child = subprocess.Popen(["sleep", str(FOR_EVER)])
    try:
        observe(load(Numbers(datasets.killed)))
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def test_processes_that_keep_starting_others_are_all_ended() -> None:
    with nothing_left() as started:
        children = [subprocess.Popen(["sh", "-c", "while :; do sleep 0.01; done"]) for _ in "1234"]
        for child in children:
            started.own(child.pid)
        time.sleep(0.2)
    assert None not in [child.poll() for child in children]


def test_orphans_of_others_are_left_to_the_system() -> None:
    with nothing_left():
        done = subprocess.run(
            ["sh", "-c", f"sleep {FOR_EVER} >/dev/null 2>&1 & echo $!"],
            capture_output=True,
            text=True,
        )
    orphan = psutil.Process(int(done.stdout))
    try:
        assert orphan.is_running() and orphan.ppid() != os.getpid()
    finally:
        orphan.kill()


def test_the_helpers_of_multiprocessing_are_ended_if_they_were_not_there_before() -> None:
    script = """
        from multiprocessing import forkserver
        import psutil
        from datasets import Numbers, load
        from dltutor import observe

        assert observe(load(Numbers(), "forkserver", num_workers=1), deadline=60).end == "finished"
        assert not psutil.Process().children(recursive=True)
        assert forkserver._forkserver._forkserver_pid is None
        # They can be started again.
        assert observe(load(Numbers(), "forkserver", num_workers=1), deadline=60).end == "finished"
        assert not psutil.Process().children(recursive=True)
        """
    assert run_fresh(script).stderr == ""


def test_a_fork_server_that_was_there_before_stays() -> None:
    forkserver.ensure_running()
    before = forkserver._forkserver._forkserver_pid, resource_tracker._resource_tracker._pid
    loader = load(Numbers(), "forkserver", num_workers=1)
    assert observe(loader, deadline=60).end == "finished"
    assert (
        forkserver._forkserver._forkserver_pid,
        resource_tracker._resource_tracker._pid,
    ) == before
    assert psutil.pid_exists(before[0])


# Shared memory.


def test_a_segment_that_a_worker_has_in_hand_is_removed_and_one_named_like_it_is_not(
    tmp_path: Path,
) -> None:
    observe(load(Numbers(partial(_make_segments, tmp_path / "pid"))), deadline=2)
    pid = int((tmp_path / "pid").read_text())
    try:
        left = {name for name in segments() if name.startswith(f"torch_{pid}_")}
        assert left == {f"torch_{pid}_of_another_container"}
    finally:
        os.unlink(f"/dev/shm/torch_{pid}_of_another_container")


def _make_segments(pid_file: Path) -> None:
    pid_file.write_text(str(os.getpid()))
    Path(f"/dev/shm/torch_{os.getpid()}_of_another_container").touch()
    with Path(f"/dev/shm/torch_{os.getpid()}_1_0").open("w"):
        time.sleep(FOR_EVER)


def test_with_the_sharing_strategy_file_system_later_loaders_and_kept_batches_live_on() -> None:
    # torch keeps a manager process of its own then, for as long as this process lives. It removes a
    # segment's name some time after the last process has let go of the segment.
    script = """
        import os, time
        import datasets, psutil
        from datasets import Numbers, load
        from dltutor import observe
        from dltutor.system import marks
        from dltutor.system.processes import is_alive
        from torch import multiprocessing

        mark = marks.new()
        marks.put(mark)  # a manager makes itself an orphan

        def kept():
            this = psutil.Process()
            started = filter(is_alive, marks.carriers(mark) - {this.pid})
            names = [psutil.Process(pid).name() for pid in started]
            shm = {name for name in os.listdir("/dev/shm") if name.startswith(segments)}
            return sorted(names), this.num_fds(), shm

        def wait_until(settled):
            until = time.monotonic() + 30
            while not settled() and time.monotonic() < until:
                time.sleep(0.01)

        segments = ()
        multiprocessing.set_sharing_strategy("file_system")
        batches = []
        assert observe(load(Numbers()), consume=batches.extend).end == "finished"
        segments = tuple(f"torch_{name.split('_')[1]}_" for name in os.listdir("/dev/shm")
                         if f"/dev/shm/{name}" in open("/proc/self/maps").read())
        assert len(kept()[2]) == 8, kept()
        assert batches[0].tolist() == [[0.0], [1.0]]
        batches.clear()  # where its segment was gone torch would abort here
        wait_until(lambda: not kept()[2])
        first = kept()
        assert set(first[0]) == {"torch_shm_manager"} and not first[2], first
        for trouble in (datasets.killed, datasets.leave):
            assert observe(load(Numbers(trouble))).end == "worker died"
        assert len(list(load(Numbers()))) == 8
        wait_until(lambda: kept() == first)
        last = kept()
        assert last == first, (last, first)
        """
    assert run_fresh(script).stderr == ""


def test_the_sharing_strategy_is_given_back() -> None:
    before = torch.multiprocessing.get_sharing_strategy()
    other = "file_system" if before != "file_system" else "file_descriptor"
    observe(load(Numbers()), consume=lambda _: torch.multiprocessing.set_sharing_strategy(other))
    assert torch.multiprocessing.get_sharing_strategy() == before


# Signal handlers.


@pytest.fixture
def own_sigchld() -> Iterator[Callable[..., None]]:
    def handler(signum: int, frame: object) -> None:
        pass

    old = signal.signal(signal.SIGCHLD, handler)
    yield handler
    signal.signal(signal.SIGCHLD, old)


def test_an_earlier_handler_for_dead_children_is_given_back(
    own_sigchld: Callable[..., None],
) -> None:
    for trouble in (None, datasets.raise_error, datasets.killed):
        observe(load(Numbers(trouble)))
        assert signal.getsignal(signal.SIGCHLD) is own_sigchld


def test_a_later_plain_loader_still_hears_of_a_killed_worker() -> None:
    # torch sets its handler once for a process: what it believes must fit what is set.
    script = """
        import os, signal, time
        import datasets
        from datasets import Numbers, load
        from dltutor import observe
        from dltutor.observation import torch_internals

        def plainly():
            iterator = iter(load(Numbers(length=1000)))
            try:
                os.kill(iterator._workers[0].pid, signal.SIGKILL)
                until = time.monotonic() + 30
                while time.monotonic() < until:  # one long sleep would miss a signal that
                    time.sleep(0.01)  # comes right before it begins
            except RuntimeError as error:
                return str(error).split(") ")[1]
            finally:
                # _shutdown_workers() would wait for the lock of an event that W0 may have held.
                torch_internals.abandon(iterator)

        observe(load(Numbers(datasets.killed)))
        assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL
        assert plainly() == "is killed by signal: Killed. "
        theirs = signal.getsignal(signal.SIGCHLD)
        observe(load(Numbers(datasets.killed)))
        assert signal.getsignal(signal.SIGCHLD) is theirs
        assert plainly() == "is killed by signal: Killed. "

        def consume(loader):
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)

        observe(load(Numbers()), consume=consume)
        assert signal.getsignal(signal.SIGCHLD) is theirs
        assert plainly() == "is killed by signal: Killed. "
        assert signal.getsignal(signal.SIGCHLD) is theirs
        """
    with tempfile.TemporaryDirectory() as folder:  # a killed worker leaves its folder of sockets
        assert run_fresh(script, env={**os.environ, "TMPDIR": folder}).stderr == ""


# Descriptors.


def test_the_file_that_a_signal_interrupted_the_making_of_is_closed_and_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = descriptors()
    really_open = os.open
    opened: list[str] = []

    def open_and_raise(path: str, *args: Any, **kwargs: Any) -> int:
        really_open(path, *args, **kwargs)  # nobody will know its number
        opened.append(path)
        raise RuntimeError("DataLoader worker (pid 1) is killed by signal: Killed.")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", open_and_raise)
        try:
            tempfile.NamedTemporaryFile()  # noqa: SIM115
        except RuntimeError as error:
            interrupted = error
    [path] = opened
    assert path in descriptors().values()
    close_interrupted_files(interrupted)
    assert descriptors() == before
    assert not os.path.exists(path)


def test_a_temporary_file_of_ones_own_stays_open() -> None:
    with tempfile.NamedTemporaryFile() as mine:

        def consume(loader: DataLoader[Any]) -> None:
            mine.write(b"kept")
            raise KeyError

        observe(load(Numbers()), consume=consume)
        mine.flush()
        assert os.path.getsize(mine.name) == 4


def test_batches_that_the_loop_keeps_stay_usable() -> None:
    kept: list[Any] = []
    observe(load(Numbers(length=4)), consume=kept.extend)
    assert [batch.tolist() for batch in kept] == [[[0.0], [1.0]], [[2.0], [3.0]]]
    kept.clear()


# Threads.


def test_a_queue_whose_thread_a_signal_interrupted_the_start_of_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # torch's SIGCHLD handler may raise there, where a worker dies at once.
    class Interrupted(Finalize):
        def __init__(self, owner: object, callback: object, *args: Any, **kwargs: Any) -> None:
            if callback is Queue._finalize_close:
                raise RuntimeError("DataLoader worker (pid 1) is killed by signal: Killed. ")
            super().__init__(owner, callback, *args, **kwargs)

    monkeypatch.setattr("multiprocessing.queues.Finalize", Interrupted)
    before = threading.active_count()
    assert observe(load(Numbers())).end == "worker died"
    assert threading.active_count() == before


def test_a_thread_of_the_loop_is_not_touched() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)

    def consume(loader: DataLoader[Any]) -> None:
        thread.start()

    observe(load(Numbers()), consume=consume)
    assert thread.is_alive()
    done.set()
    thread.join()
