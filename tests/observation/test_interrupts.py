"""Check that Stop, at any stage of a run, raises KeyboardInterrupt and leaves nothing behind.

In the plumbing, which is code of multiprocessing and torch that passes batches, an exception would
do harm. So Stop waits there, and so does SIGCHLD, the signal that a worker died. Both must arrive
in the end.
"""

from __future__ import annotations

import _weakrefset
import multiprocessing
import os
import selectors
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import queues, reduction
from typing import Any

import pytest
import small_datasets
from fresh_interpreter import run_fresh
from own_process import until
from small_datasets import Numbers, PicklesWith, load
from torch.utils.data import DataLoader

from dltutor.observation import observe
from dltutor.observation.interrupts import delay_in_plumbing, in_plumbing, interrupts_held
from dltutor.observation.memory.recorder import Recorder

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


def stop() -> None:
    signal.raise_signal(signal.SIGINT)


def interrupted(loader: DataLoader[Any], **options: Any) -> float:
    """Observe a loader until Stop is pressed, and return how many seconds that took."""
    handler = signal.getsignal(signal.SIGINT)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        observe(loader, deadline=60, **options)
    assert signal.getsignal(signal.SIGINT) is handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    return time.monotonic() - started


@pytest.mark.parametrize("start_method", ["spawn", "forkserver"])
def test_while_workers_start(start_method: str) -> None:
    # Stop arrives while W0 runs and main is sending W1 its dataset.
    interrupted(load(PicklesWith(stop), start_method))


def test_before_the_first_worker_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    start = Recorder.start

    def start_and_stop(recorder: Recorder) -> None:
        start(recorder)
        stop()

    monkeypatch.setattr(Recorder, "start", start_and_stop)
    reached: list[object] = []
    interrupted(load(Numbers()), consume=reached.append)
    assert not reached


class Impatient(Numbers):
    """A dataset whose workers interrupt main again and again while they exit."""

    def __getitem__(self, index: int) -> Any:
        small_datasets.interrupt_main_on_leaving()
        return super().__getitem__(index)


def works(loader: DataLoader[Any]) -> None:
    for _ in loader:
        stop()


@pytest.mark.parametrize(
    ("dataset", "options", "consume"),
    [
        (Numbers(small_datasets.interrupt_main_and_sleep), {}, None),  # main waits for a worker
        (Numbers(), {}, works),
        (Numbers(stop), {"num_workers": 0}, None),
        (
            Numbers(small_datasets.interrupt_main_on_leaving, at=0),
            {"persistent_workers": True},
            None,
        ),
        (Impatient(), {"persistent_workers": True}, None),
    ],
    ids=["waiting", "in the loop", "without workers", "cleaning up", "more than once"],
)
def test_at_a_stage_of_a_run(
    dataset: Numbers, options: dict[str, Any], consume: Callable[[Any], object] | None
) -> None:
    assert interrupted(load(dataset, **options), consume=consume) < 20


def test_a_loop_that_catches_it_goes_on() -> None:
    def consume(loader: DataLoader[Any]) -> None:
        try:
            stop()
        except KeyboardInterrupt:
            list(loader)

    assert observe(load(Numbers()), consume=consume).end == "finished"


def test_at_a_fork_where_python_would_forget_it_and_by_ctrl_c_which_reaches_workers_too() -> None:
    script = """
        import os, signal, time
        import small_datasets
        import psutil
        from small_datasets import Numbers, load
        from dltutor import observe

        this = psutil.Process()
        observe(load(Numbers()))
        before = this.num_fds()

        at_fork = lambda: None
        os.register_at_fork(after_in_parent=lambda: at_fork())

        at_fork = lambda: signal.raise_signal(signal.SIGINT)
        try:
            loader = load(Numbers(), num_workers=1)
            observe(loader, consume=lambda loader: print(iter(loader)))
        except KeyboardInterrupt:
            print("stopped")
        at_fork = lambda: time.sleep(0.2)
        seen = observe(load(Numbers(length=100_000_000)), deadline=0.1)
        print(seen.end, this.num_fds() - before, this.children())

        at_fork = lambda: None
        def all_of_us():
            os.killpg(0, signal.SIGINT)
            time.sleep(small_datasets.FOR_EVER)
        try:
            observe(load(Numbers(all_of_us)), deadline=60)
        except KeyboardInterrupt:
            print("stopped", this.children(recursive=True))
        """
    done = run_fresh(script, start_new_session=True)
    assert done.stdout == "stopped\nhung 0 []\nstopped []\n"
    assert done.stderr == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGALRM], ids=["stop", "deadline"])
def test_while_a_descriptor_is_passed_none_is_lost(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The signal arrives when main has received a batch's descriptor but hasn't taken it over yet.
    source = """
def receive(connection):
    got = really(connection)
    if rings:
        ring(rings.pop())
    return got
"""
    names: dict[str, Any] = {
        "really": reduction.recv_handle,
        "ring": signal.raise_signal,
        "rings": [number],  # once, because a second Stop isn't held back
    }
    exec(compile(source, reduction.__file__, "exec"), names)
    monkeypatch.setattr(reduction, "recv_handle", names["receive"])
    loader = load(Numbers(length=100_000))
    if number == signal.SIGINT:
        came: list[Any] = []
        interrupted(loader, consume=came.extend)
        assert not came  # Stop waited no longer than it takes to fetch a batch
    else:
        assert observe(loader, deadline=0.5).end == "hung"


# The signal handlers on their own.


def test_who_presses_stop_again_is_not_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dltutor.observation.interrupts.in_plumbing", lambda frame: True)
    with interrupts_held() as interrupts, interrupts.let_through():
        stop()
        with pytest.raises(KeyboardInterrupt):
            stop()


def held_at(action: Callable[[], object]) -> list[bool]:
    """Return, for each SIGUSR1 during an action, whether main was in the plumbing."""
    found: list[bool] = []
    old = signal.signal(signal.SIGUSR1, lambda _, frame: found.append(in_plumbing(frame)))
    try:
        action()
    finally:
        signal.signal(signal.SIGUSR1, old)
    return found


def ring() -> None:
    signal.raise_signal(signal.SIGUSR1)


def rings_ten_times(then: Callable[[], object] = lambda: None) -> None:
    child = os.fork()
    if child == 0:
        for _ in range(10):  # often, so that main is waiting at least once
            time.sleep(0.05)
            os.kill(os.getppid(), signal.SIGUSR1)
        then()
        os._exit(0)


class RingsWhenPickled:
    def __reduce__(self) -> tuple[type[int], tuple[()]]:
        ring()
        return int, ()


def test_main_is_not_in_the_plumbing_in_code_of_the_learners_own_or_while_it_waits() -> None:
    def wait() -> None:
        reader, writer = multiprocessing.Pipe()
        with reader, writer:
            rings_ten_times()
            reader.poll(1)
        os.wait()

    assert held_at(ring) == [False]
    assert held_at(lambda: reduction.ForkingPickler.dumps(RingsWhenPickled())) == [False]
    assert False in held_at(wait)  # a signal may also arrive right before or after the wait
    assert not in_plumbing(None)


def test_main_is_in_the_plumbing_in_a_blocking_read_of_multiprocessing() -> None:
    def receive() -> None:
        reader, writer = multiprocessing.Pipe()
        with reader, writer:
            rings_ten_times(lambda: writer.send("done"))
            reader.recv()
        os.wait()

    assert True in held_at(receive)


def as_if_in(file: str, name: str) -> Callable[[Callable[[], object]], None]:
    """Return a function with this name and file that calls its argument."""
    names: dict[str, Any] = {}
    exec(compile(f"def {name}(work):\n    work()\n", file, "exec"), names)
    function: Callable[[Callable[[], object]], None] = names[name]
    return function


@pytest.mark.parametrize(
    ("file", "name", "held"),
    [
        # After an interrupt, the selector would keep a descriptor until a garbage collection.
        (selectors.__file__, "close", True),
        (selectors.__file__, "select", False),
        (_weakrefset.__file__, "_remove", True),  # Python would only print the exception
    ],
)
def test_main_can_be_interrupted_while_it_waits_for_a_batch_but_not_right_before_or_after(
    file: str, name: str, held: bool
) -> None:
    here = as_if_in(file, name)
    receive = as_if_in(reduction.__file__, "receive")
    ring_here = partial(here, partial(signal.raise_signal, signal.SIGUSR1))
    assert held_at(partial(receive, ring_here)) == [held]


def test_an_interrupt_that_comes_right_before_main_waits_for_ever_arrives() -> None:
    began = time.monotonic()
    with (
        pytest.raises(KeyboardInterrupt),
        interrupts_held() as interrupts,
        interrupts.let_through(),
    ):
        as_if_in(reduction.__file__, "receive")(partial(signal.raise_signal, signal.SIGINT))
        time.sleep(small_datasets.FOR_EVER)
    assert time.monotonic() < began + 20
    time.sleep(0.05)  # a second interrupt would arrive now


def test_what_came_while_held_is_raised_where_it_is_let_through_or_at_the_end() -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), interrupts_held() as interrupts:
        stop()
        with pytest.raises(KeyboardInterrupt), interrupts.let_through():
            pytest.fail("not interrupted")
        stop()
        reached.append("the end")
    assert reached


def test_in_a_block_within_a_block_an_interrupt_is_held_until_either_lets_it_through() -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        with interrupts_held() as inner:
            stop()
            with pytest.raises(KeyboardInterrupt), inner.let_through():
                pytest.fail("not interrupted")
            stop()
        reached.append("after the inner block")
    assert reached


def test_a_block_within_one_that_lets_interrupts_through_delivers_at_its_own_end() -> None:
    with interrupts_held() as outer, outer.let_through():
        reached = []
        with pytest.raises(KeyboardInterrupt), interrupts_held():
            stop()
            reached.append("the end of the inner block")
        assert reached
        with pytest.raises(KeyboardInterrupt):
            stop()


def test_a_block_in_another_thread_holds_nothing_back() -> None:
    def elsewhere() -> None:
        with interrupts_held():
            begun.set()
            over.wait(10)

    begun, over = threading.Event(), threading.Event()
    thread = threading.Thread(target=elsewhere)
    with interrupts_held() as outer, outer.let_through():
        thread.start()
        assert begun.wait(10)
        with pytest.raises(KeyboardInterrupt):
            stop()
        over.set()
        thread.join()


heard: list[int] = []


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda signum, _: heard.append(signum)])
def test_what_is_let_through_goes_to_the_handler_of_before(handler: Any) -> None:
    heard.clear()
    old = signal.signal(signal.SIGINT, handler)
    try:
        with interrupts_held() as interrupts, interrupts.let_through():
            stop()
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, old)
    assert heard == ([] if handler is signal.SIG_IGN else [signal.SIGINT])


def test_an_error_of_the_block_comes_before_a_held_interrupt() -> None:
    with pytest.raises(KeyError), interrupts_held():
        stop()
        raise KeyError


@pytest.fixture
def told() -> Iterator[list[float]]:
    """Set a SIGCHLD handler that notes the time, delay it in the plumbing, and yield the times."""
    times: list[float] = []
    before = signal.signal(signal.SIGCHLD, lambda signum, frame: times.append(time.monotonic()))
    delay_in_plumbing()
    yield times
    signal.signal(signal.SIGCHLD, before)


def test_elsewhere_the_notice_comes_at_once_also_if_it_is_arranged_twice(
    told: list[float],
) -> None:
    handler = signal.getsignal(signal.SIGCHLD)
    delay_in_plumbing()
    assert signal.getsignal(signal.SIGCHLD) is handler
    os.kill(os.getpid(), signal.SIGCHLD)
    assert len(told) == 1
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    delay_in_plumbing()
    assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL, "there is nothing to delay"
    signal.signal(signal.SIGCHLD, before)


@pytest.mark.parametrize("file", [queues.__file__, tempfile.__file__])
def test_in_the_plumbing_it_comes_after_it(file: str, told: list[float]) -> None:
    # The plumbing includes multiprocessing, and tempfile, which torch calls.
    during: list[int] = []

    def work() -> None:
        os.kill(os.getpid(), signal.SIGCHLD)
        time.sleep(0.05)
        during.append(len(told))

    # Put `work` into `file`, too. Otherwise, the innermost frame would be in this file, which
    # counts as the learner's code, so the signal wouldn't have to wait.
    work.__code__ = work.__code__.replace(co_filename=file)
    as_if_in(file, "transfer")(work)
    assert during == [0]
    until(lambda: told)
