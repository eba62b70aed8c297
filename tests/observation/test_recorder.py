"""Check what the Recorder and its helper process record, and that no failure does harm."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from own_process import descriptors, until

from dltutor.observation.memory import recorder as module
from dltutor.observation.memory.moments import Moment
from dltutor.observation.memory.recorder import Recorder

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

NO_PROCESS = 2**22 + 1  # above the highest pid that Linux assigns
MB = 1 << 20


@contextmanager
def sleepers(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    processes = [subprocess.Popen(["sleep", "60"]) for _ in range(count)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def started(**options: Any) -> tuple[Recorder, list[Moment]]:
    samples: list[Moment] = []
    recorder = Recorder(listeners=[samples.append], **options)
    recorder.start()
    return recorder, samples


def has(samples: list[Moment], *roles: str) -> bool:
    return bool(samples) and set(roles) <= samples[-1].processes.keys()


def test_workers_have_their_names_at_once_and_the_rest_is_other() -> None:
    with sleepers(3) as (first, second, _):
        recorder, samples = started(period=30)
        until(lambda: len(samples) == 1)
        recorder.name(first.pid, "W0")
        recorder.name(second.pid, "W1")
        until(lambda: has(samples, "W0", "W1", "other"))
        timeline = recorder.stop()
    assert timeline.roles == ("main", "W0", "W1", "other")
    assert timeline.workers == ("W0", "W1")
    for role in timeline.roles:
        assert timeline.peak("uss", role) > 0
        assert timeline.peak("fds", role) > 0


def test_no_process_without_a_name_is_shown_while_workers_start() -> None:
    # This process may have other children, so enter `starting` before the first sample.
    samples: list[Moment] = []
    recorder = Recorder(listeners=[samples.append], period=0.02)
    with recorder.starting(), sleepers(2) as (first, second):
        recorder.start()
        recorder.name(first.pid, "W0")
        until(lambda: has(samples, "W0"))
        count = len(samples)
        until(lambda: len(samples) > count + 4)  # now the helper has surely seen `second`
        recorder.name(second.pid, "W1")
        until(lambda: has(samples, "W1"))
        shown = [set(each.processes) for each in samples]
    recorder.stop()
    assert all(each <= {"main", "W0", "W1"} for each in shown)


def test_the_next_epochs_workers_are_lives_of_their_own_each_told_once_when_it_ends() -> None:
    recorder, samples = started(period=0.02)
    for epoch in range(2):
        with sleepers(1) as (process,):
            recorder.name(process.pid, "W0")
            until(lambda: has(samples, "W0"))
            recorder.batches = epoch + 1
        until(lambda: not has(samples, "W0"))
    recorder.died(process.pid, "killed by SIGKILL")
    timeline = recorder.stop()
    assert [sample.gone for sample in samples if "W0" in sample.gone] == [("W0",)] * 2
    first, second = (each for each in timeline.processes if each.role == "W0")
    assert (first.died, second.died) == ("", "killed by SIGKILL")
    assert first.ended is not None and second.ended is not None
    assert (samples[0].batches, timeline.batches[-1]) == (0, 2)


KEPT: list[int] = []


def read_the_list(read: multiprocessing.synchronize.Event) -> None:
    # Even if a forked worker only reads a list, Python writes reference counts to the items' pages.
    for item in KEPT:
        str(item)
    read.set()
    time.sleep(30)


def test_pages_that_a_forked_worker_copies_show_in_uss_and_faults_but_not_in_rss() -> None:
    KEPT.extend(range(10**6, 10**6 + 400_000))  # about 12 MB of integers
    recorder, samples = started(period=0.05, memory_period=0.05, memory_budget=1.0)
    context = multiprocessing.get_context("fork")
    read = context.Event()
    worker = context.Process(target=read_the_list, args=(read,))
    worker.start()
    try:
        assert worker.pid is not None
        recorder.name(worker.pid, "W0")
        # A sample reads memory and faults at two moments, so they only agree if the worker rests.
        assert read.wait(60)
        taken = len(samples) + 1  # a sample may be under way
        until(lambda: any(has([s], "W0") and s.processes["W0"].private for s in samples[taken:]))
        timeline = recorder.stop()
    finally:
        KEPT.clear()
        worker.kill()
        worker.join()
        worker.close()
    rss, uss, faults = (timeline.series("W0", field) for field in ("rss", "uss", "faults"))
    assert rss[~np.isnan(rss)][0] > 2 * 12 * MB  # shared pages, from the first sample on
    assert uss[-1] > 12 * MB
    assert 4096 * faults[-1] == pytest.approx(uss[-1], rel=0.25)


def test_neither_of_two_recorders_sees_the_others_helper() -> None:
    outer, outer_samples = started(period=0.02)
    inner, inner_samples = started(period=0.02)
    until(lambda: len(inner_samples) > 3 and len(outer_samples) > 3)
    helpers = {helper_of(inner), helper_of(outer)}
    # Stop interrupts the whole process group, so each helper needs its own session.
    assert os.getsid(0) not in map(os.getsid, helpers)
    for recorder in (inner, outer):
        recorder.stop()
        assert os.getpid() in recorder._collector.pids
        assert not helpers & recorder._collector.pids


def test_a_killed_helper_harms_nothing_and_is_told() -> None:
    recorder, samples = started(period=0.02)
    until(lambda: samples)
    os.kill(helper_of(recorder), signal.SIGKILL)
    until(lambda: not recorder._reader.is_alive())
    recorder.name(os.getpid(), "main")
    timeline = recorder.stop()
    assert len(timeline.seconds) >= 1
    (note,) = timeline.notes
    assert note.startswith("the memory sampler died after ")


def helper_of(recorder: Recorder) -> int:
    assert recorder._helper is not None
    return recorder._helper.pid


def test_a_stopped_helper_that_answers_no_more_is_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_LAST_SAMPLE", 0.5)
    recorder, samples = started(period=0.02)
    until(lambda: samples)
    os.kill(helper_of(recorder), signal.SIGSTOP)
    began = time.monotonic()
    timeline = recorder.stop()
    assert time.monotonic() - began < 10
    assert timeline.notes == ("the last sample took more than 0.5 s",)


def test_stop_can_be_called_again_and_before_start_but_start_only_once() -> None:
    recorder, _ = started()
    assert recorder.stop() is recorder.stop()
    with pytest.raises(RuntimeError, match="records only once"):
        recorder.start()
    assert Recorder().stop().notes == ("no sample was taken",)


def test_without_a_descriptor_to_be_had_the_run_goes_on_and_the_notes_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none_left() -> tuple[int, int]:
        raise OSError(errno.EMFILE, "Too many open files")

    recorder = Recorder()
    with monkeypatch.context() as patch:
        patch.setattr(os, "pipe", none_left)
        recorder.start()
    recorder.name(os.getpid(), "main")
    assert recorder.stop().notes == (
        "the memory sampler couldn't be started: [Errno 24] Too many open files",
        "no sample was taken",
    )


def test_a_listener_that_raises_is_called_no_more_and_the_others_go_on() -> None:
    calls: list[int] = []

    def broken(sample: Moment) -> None:
        calls.append(1)
        raise KeyError("W9")

    samples: list[Moment] = []
    recorder = Recorder(period=0.02, listeners=[broken, samples.append])
    recorder.start()
    until(lambda: len(samples) > 3)
    assert recorder.stop().notes == ("a listener raised KeyError: 'W9'",)
    assert calls == [1]


def test_a_worker_that_died_before_any_sample_is_told() -> None:
    recorder, _ = started()
    recorder.name(NO_PROCESS, "W1")
    recorder.died(NO_PROCESS, "killed by SIGKILL")
    assert recorder.stop().notes == ("W1 was killed by SIGKILL before it could be sampled",)


def test_a_process_that_is_gone_before_the_first_sample_is_told() -> None:
    with sleepers(1) as (process,):
        recorder = Recorder(pid=process.pid)
    recorder.start()
    timeline = recorder.stop()
    assert timeline.roles == ()
    assert timeline.notes == ("the observed process was gone, or hidden, before the first sample",)


def test_where_proc_is_not_psutil_gives_rss_and_uss_and_the_notes_say_so() -> None:
    with sleepers(1) as (process,):
        recorder, samples = started(proc="/nowhere")
        recorder.name(process.pid, "W0")
        until(lambda: has(samples, "W0"))
        timeline = recorder.stop()
    assert timeline.peak("uss", "W0") > 0
    assert timeline.peak("rss", "main") > 0
    assert np.isnan(timeline.peak("pss"))
    assert timeline.peak("fds", "W0") > 0
    assert "psutil" in timeline.notes[0]


def open_pipes() -> set[str]:
    return {name for name in descriptors().values() if name.startswith("pipe:")}


def test_a_forked_worker_keeps_none_of_the_pipes_and_cannot_end_the_helper() -> None:
    before = open_pipes()
    recorder, samples = started(period=0.02)
    ours = open_pipes() - before
    assert len(ours) == 2
    worker = os.fork()
    if worker == 0:
        kept = open_pipes() & ours
        recorder.stop()
        os._exit(len(kept))
    assert os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) == 0
    seen = len(samples)
    until(lambda: len(samples) > seen + 2)
    assert recorder.stop().notes == ()
