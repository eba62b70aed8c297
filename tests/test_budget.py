"""budget(): the prediction beside a real run, and the page that shows both."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from torch.utils.data import DataLoader

import dltutor
from dltutor.display import budget as budget_module
from dltutor.display.bars import Bar, Part, draw_bars, scale_for
from dltutor.display.budget import Budget
from dltutor.failures.kit.gauge import Gauge
from dltutor.observation.budget import trial as trial_module
from dltutor.observation.budget.filled import Synthetic
from dltutor.observation.budget.prediction import Prediction, predict
from dltutor.observation.budget.room import Room
from dltutor.observation.budget.settings import Settings
from dltutor.observation.budget.trial import footprint, trial
from dltutor.system.this_machine import machine
from dltutor.tables import size

pytestmark = [
    pytest.mark.timeout(180, method="thread"),
    pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="there is no /dev/shm here"),
]

MB = 1 << 20
SHARED_WITHIN = 0.01
TOTAL_WITHIN = 0.15
"""PSS shares the pages of torch with every process that has them, also with strangers; and the C
library keeps freed samples."""


@pytest.fixture
def nothing_left(
    nothing_left_behind: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Nothing may be left: no process, no segment, no descriptor, no temporary file."""
    with tempfile.TemporaryDirectory(prefix="b-", dir="/tmp") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        monkeypatch.setenv("TMPDIR", short)
        yield
        assert os.listdir(short) == []


leaves_nothing = pytest.mark.usefixtures("nothing_left")


def tried(**settings: Any) -> Prediction:
    method = settings.pop("start_method", "fork")
    usual = {"num_workers": 2, "prefetch_factor": 2, "batch_size": 8, "sample_bytes": 602112}
    return predict(machine(), footprint(method), **(usual | settings))


def child() -> psutil.Process:
    """The child interpreter, as soon as its loader has started two workers."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for process in psutil.Process().children(recursive=True):
            if [each.name() for each in process.children()].count("pt_data_worker") == 2:
                return process
        time.sleep(0.01)
    raise AssertionError("no two workers were started")


# --- the prediction, put on trial


@leaves_nothing
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(  # takes twice as long
            {"num_workers": 2, "prefetch_factor": 2, "batch_size": 8, "sample_bytes": 602112},
            marks=pytest.mark.thorough,
        ),
        {"num_workers": 3, "prefetch_factor": 4, "batch_size": 32, "sample_bytes": 50_000},
    ],
)
def test_a_real_run_holds_what_was_predicted(settings: dict[str, int]) -> None:
    predicted = tried(**settings)
    seen = trial(predicted)
    assert seen.steady.shared == pytest.approx(predicted.shared, rel=SHARED_WITHIN)
    assert seen.peak_shared == seen.steady.shared
    assert seen.peak.total == pytest.approx(predicted.total, rel=TOTAL_WITHIN)
    # These would be caught: the batch of the loop forgotten, and a batch ahead too many.
    for batches in (predicted.settings.waiting, predicted.settings.waiting + 2):
        wrong = batches * predicted.settings.batch_bytes
        assert seen.steady.shared != pytest.approx(wrong, rel=SHARED_WITHIN)
    assert seen.filled.observation.end == "finished"
    assert seen.filled.observation.batches == 3


def test_shared_memory_has_a_batch_more_when_the_loop_gets_its_next() -> None:
    settings = Settings(2, 2, 4, MB, "fork")
    dataset = Synthetic(12 * 4, MB, workers=2)
    gauge = Gauge()
    loader = DataLoader(
        dataset, 4, num_workers=2, multiprocessing_context="fork", collate_fn=dataset.collate
    )
    batches = iter(loader)
    # The moment, stretched: the loop has its next batch, and has not let go of the last.
    last, following = next(batches), next(batches)
    until = time.monotonic() + 60
    while dataset.made < settings.waiting + 2 and time.monotonic() < until:
        time.sleep(0.01)
    assert gauge.shared() == settings.peak_shared / MB == 6 * 4
    del last, following
    assert gauge.shared() == settings.waiting * 4
    del batches


def test_batches_that_wait_are_in_no_process_s_pss() -> None:
    predicted = tried(num_workers=1, prefetch_factor=8, batch_size=4, sample_bytes=MB)
    seen = trial(predicted)
    assert predicted.shared == 36 * MB
    worker = predicted.footprint.worker + 3 * 4 * MB  # a few batches of freed samples
    assert seen.steady.processes < seen.filled.before.processes + worker + 16 * MB
    assert seen.steady.total == seen.steady.processes + 36 * MB


@pytest.mark.thorough  # two interpreters with torch
def test_a_forked_worker_adds_little_and_a_spawned_one_an_interpreter_with_torch() -> None:
    fork, spawn = footprint("fork"), footprint("spawn")
    assert 0 < fork.worker < 60 * MB < spawn.worker
    assert fork.once == 0
    assert spawn.once > 0  # multiprocessing's resource tracker
    assert fork.main == pytest.approx(spawn.main, rel=0.3)


def test_a_start_method_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = footprint("fork")
    monkeypatch.setattr(trial_module, "_in_child", None)
    assert footprint("fork") is first


@leaves_nothing
def test_a_trial_works_outside_the_main_thread() -> None:
    predicted = tried(batch_size=1)
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(trial, predicted).result().steady.shared == predicted.shared


# --- what goes wrong


def test_what_is_not_safe_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    predicted = tried()
    monkeypatch.setattr(trial_module, "room", lambda: Room(shm=20 * MB, memory=64 << 30))
    monkeypatch.setattr(trial_module, "_in_child", None)
    with pytest.raises(ValueError, match=r"put 28 MB into /dev/shm, where 20 MB are free"):
        trial(predicted)


@leaves_nothing
def test_a_run_that_does_not_finish_in_time_says_so() -> None:
    predicted = tried()
    with pytest.raises(RuntimeError, match=r"did not finish.\nHung: stopped at its deadline"):
        trial(predicted, deadline=0.001)


@leaves_nothing
@pytest.mark.parametrize(
    "start_method", ["fork", pytest.param("spawn", marks=pytest.mark.thorough)]
)
def test_a_run_whose_process_is_killed_says_so(start_method: str) -> None:
    predicted = tried(start_method=start_method)
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(trial, predicted)
        killed = child()
        workers = killed.children()
        killed.kill()
        with pytest.raises(RuntimeError, match="the run ended with exit code -9"):
            running.result()
    # Whoever adopts them may be slow to reap them.
    left = psutil.wait_procs(workers, timeout=2)[1]
    assert [each for each in left if each.status() != psutil.STATUS_ZOMBIE] == []


@leaves_nothing
@pytest.mark.parametrize(
    "start_method", ["fork", pytest.param("forkserver", marks=pytest.mark.thorough)]
)
def test_a_run_ends_with_the_kernel_that_started_it(start_method: str, own_home: Path) -> None:
    def started_here() -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("DLTUTOR_HOME") == str(own_home):
                    found.append(process)
        return found

    script = f"""
from dltutor.observation.budget.trial import _in_child, Settings
_in_child(Settings(2, 4, 8, 1 << 18, {start_method!r}), 60)
"""
    kernel = subprocess.Popen([sys.executable, "-c", script])
    until = time.monotonic() + 60
    while sum(each.name() == "pt_data_worker" for each in started_here()) < 2:
        assert time.monotonic() < until
        time.sleep(0.02)
    kernel.kill()
    kernel.wait()
    until = time.monotonic() + 20
    while left := started_here():
        assert time.monotonic() < until, left
        time.sleep(0.05)
    for folder in Path(tempfile.gettempdir()).iterdir():  # nobody is left to remove it
        shutil.rmtree(folder)


@leaves_nothing
def test_stop_ends_a_run_and_leaves_nothing() -> None:
    predicted = tried()

    def stop() -> None:
        child()
        os.kill(os.getpid(), signal.SIGINT)

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(KeyboardInterrupt):
        trial(predicted)
    stopper.join()


@pytest.mark.parametrize("deadline", [0, -3, True, "5", float("nan"), float("inf"), 1e10])
def test_a_deadline_must_be_positive(deadline: Any) -> None:
    with pytest.raises(ValueError, match="deadline must be a positive number of seconds, got"):
        trial(tried(), deadline=deadline)


@pytest.mark.parametrize("name", ["num_workers", "prefetch_factor", "batch_size", "sample_bytes"])
def test_a_setting_out_of_range_is_named_before_anything_is_measured(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget_module, "footprint", None)
    options: dict[str, Any] = {name: 0}
    with pytest.raises(ValueError, match=f"^{name} must be a whole number of 1 or more, got 0"):
        dltutor.budget(**options)


def test_an_unknown_start_method_is_named() -> None:
    with pytest.raises(ValueError, match=r"start_method must be one of .*, got 'thread'"):
        dltutor.budget(start_method="thread")
    with pytest.raises(ValueError, match=r"start_method must be one of .*, got 'thread'"):
        footprint("thread")


# --- the page


def text(page: Budget) -> str:
    """The words of its bars and of its last line."""
    return re.sub(r"<[^>]+>", " ", page._bars.value + page._said.value)


def test_the_button_draws_the_measurement_beside_the_prediction() -> None:
    page = dltutor.budget(batch_size=4)
    assert page.trial is None
    assert "predicted" in text(page)
    assert "measured" not in text(page)
    page._button.click()
    assert page.trial is not None
    assert page.trial.prediction == page.prediction
    assert page._bars.value.count('aria-label="measured') == 2
    shared = size(page.prediction.shared)
    assert f'aria-label="measured: {shared}. batches {shared}"' in page._bars.value
    assert "At the end, with full queues" in text(page)
    assert not page._button.disabled


def test_a_measurement_is_shown_only_beside_the_settings_that_were_run() -> None:
    page = dltutor.budget(batch_size=1)
    page.run()
    assert "measured" in text(page)
    page._workers.value = 3
    assert page.prediction.settings.num_workers == 3
    assert "3 x 2 batches ahead" in text(page)
    assert "measured" not in text(page)
    page._workers.value = 2
    assert "measured" in text(page)


def test_each_control_moves_the_prediction() -> None:
    page = dltutor.budget(num_workers=1, prefetch_factor=1, batch_size=1, sample_bytes=1 << 16)
    sizes = [page.prediction.shared]
    for control, value in [
        (page._workers, 2),
        (page._ahead, 3),
        (page._batch, 16),
        (page._sample, 1 << 18),
    ]:
        control.value = value
        sizes.append(page.prediction.shared)
    assert [shared >> 16 for shared in sizes] == [2, 3, 7, 7 * 16, 7 * 64]


def test_values_between_the_marks_of_a_slider_are_taken_as_they_are() -> None:
    page = dltutor.budget(num_workers=70, prefetch_factor=33, batch_size=3, sample_bytes=1234)
    one = page.prediction.settings
    assert (one.num_workers, one.prefetch_factor, one.batch_size, one.sample_bytes) == (
        70,
        33,
        3,
        1234,
    )


def test_what_is_not_safe_cannot_be_pressed_and_the_reason_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(budget_module, "room", lambda: Room(shm=64 * MB, memory=64 << 30))
    page = dltutor.budget()
    assert not page._button.disabled
    page._ahead.value = 6
    assert page._button.disabled
    assert "It would put 64 MB into /dev/shm, where 64 MB are free" in text(page)
    page._ahead.value = 2
    assert not page._button.disabled
    assert "It would" not in text(page)


def test_a_start_method_that_cannot_be_measured_is_told_and_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = dltutor.budget()

    def fail(start_method: str) -> None:
        assert page._button.disabled
        raise RuntimeError(f"no worker under {start_method}")

    monkeypatch.setattr(budget_module, "footprint", fail)
    page._method.value = "spawn"
    assert "no worker under spawn" in text(page)
    assert page._method.value == page.prediction.settings.start_method == "fork"
    assert not page._button.disabled


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("the run did not finish"), "the run did not finish"),
        (ValueError("It would <b>"), "It would &lt;b&gt;"),
        (KeyboardInterrupt(), "Stopped."),
    ],
)
def test_a_button_tells_what_went_wrong_and_can_be_pressed_again(
    error: BaseException, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = dltutor.budget()

    def fail(prediction: Prediction) -> None:
        raise error

    monkeypatch.setattr(budget_module, "trial", fail)
    page._button.click()
    assert said in page._said.value
    assert not page._button.disabled
    with pytest.raises(type(error)):
        page.run()


def test_a_saved_notebook_says_the_same_on_every_machine() -> None:
    page = dltutor.budget()
    bundle = page._repr_mimebundle_()
    assert bundle["text/plain"].startswith("Budget of a loader")
    assert not re.search(r"\d", bundle["text/plain"])
    assert "application/vnd.jupyter.widget-view+json" in bundle


# --- bars


@pytest.mark.parametrize(
    ("highest", "limit", "end"),
    [
        (1, 64, 64),
        (1, 24_000, 64),
        (64, 24_000, 64),
        (65, 24_000, 256),
        (300, 512, 512),
        (99, 64, 99),
    ],
)
def test_a_scale_ends_at_the_limit_or_at_a_round_size_before_it(
    highest: int, limit: int, end: int
) -> None:
    assert scale_for(highest * MB, limit * MB) == end * MB


def bars(total: int, limit: int) -> str:
    parts = (Part("a<b", total * MB / 4, "#000"), Part("rest", total * MB * 3 / 4, "#111"))
    return draw_bars("Memory", "how", [Bar("predicted", parts)], limit * MB)


def test_bars_read_as_text() -> None:
    drawn = bars(32, 64)
    assert 'aria-label="predicted: 32 MB. a&lt;b 8 MB, rest 24 MB"' in drawn
    assert "Memory: 32 MB of 64 MB<" in drawn
    assert "limit 64 MB" in drawn
    assert "width:12.50%" in drawn
    assert "width:37.50%" in drawn


def test_a_bar_beyond_the_limit_says_so_and_shows_where_the_limit_is() -> None:
    drawn = bars(128, 64)
    assert "Memory: 128 MB of 64 MB, which is too much" in drawn
    assert "left:50.00%" in drawn
    assert "too much" not in bars(32, 64)


@pytest.mark.parametrize("limit", [60, 100, 127])
def test_the_name_of_the_limit_is_there_wherever_the_limit_is(limit: int) -> None:
    assert f">limit {limit} MB<" in bars(128, limit)
