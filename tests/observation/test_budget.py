"""Check that `budget()` predicts what a real run uses, and that its page shows both."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import confined_cases
import pytest
from own_process import until
from torch.utils.data import DataLoader

import dltutor
from dltutor.display import budget as budget_module
from dltutor.display.budget import Budget
from dltutor.display.budget_comparison import draw_bars, scale_for
from dltutor.failures.tools.gauge import Gauge
from dltutor.observation.budget import trial as trial_module
from dltutor.observation.budget.prediction import Prediction, Settings
from dltutor.observation.budget.trial import Synthetic, footprint, trial
from dltutor.observation.budget.usage import Room
from dltutor.system.this_machine import machine
from dltutor.tables import size

pytestmark = [
    pytest.mark.xdist_group("budget"),  # so that one process measures each footprint once
    pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="there is no /dev/shm here"),
]

MB = 1 << 20
SHARED_WITHIN = 0.01
TOTAL_WITHIN = 0.15
"""Fractions by which a real run may differ from the prediction. The total may differ more, because
PSS splits torch's pages among all processes that have them, even those of other programs, and
because the C library keeps freed samples."""


@pytest.fixture
def nothing_left(nothing_left_behind: Callable[..., None], short_folder: Path) -> Iterator[None]:
    """Check that no process, segment, descriptor, thread, or temporary file is left."""
    yield
    assert os.listdir(short_folder) == []


leaves_nothing = pytest.mark.usefixtures("nothing_left")


def predicted(**settings: Any) -> Prediction:
    made = Settings(**settings)
    return Prediction(made, footprint(made.start_method), machine())


def text(page: Budget) -> str:
    """Return the words of a page's bars and of its last line."""
    return re.sub(r"<[^>]+>", " ", page._bars.value + page._said.value)


# --- the prediction, compared with a real run


@leaves_nothing
def test_the_button_measures_what_was_predicted_and_draws_it() -> None:
    page = dltutor.budget(num_workers=2, prefetch_factor=8, batch_size=4, sample_bytes=MB // 2)
    assert page.trial is None
    assert "predicted" in text(page)
    assert "measured" not in text(page)
    with ThreadPoolExecutor(1) as thread:  # a button's callback may run in any thread
        thread.submit(page._button.click).result()
    seen, before = page.trial, page.prediction
    settings = before.settings
    assert seen is not None
    assert seen.prediction == before
    assert seen.steady.shared == pytest.approx(settings.shared, rel=SHARED_WITHIN)
    assert seen.peak_shared == seen.steady.shared
    assert seen.peak.total == pytest.approx(before.total, rel=TOTAL_WITHIN)
    # A prediction that forgets the loop's batch, or has one too many ahead, would fail.
    for batches in (settings.waiting, settings.waiting + 2):
        wrong = batches * settings.batch_bytes
        assert seen.steady.shared != pytest.approx(wrong, rel=SHARED_WITHIN)
    # No process's PSS contains waiting batches, but a worker's may contain a few batches of freed
    # samples.
    workers = 2 * (before.footprint.worker + 3 * settings.batch_bytes)
    assert seen.steady.processes < seen.before.processes + workers + 16 * MB
    assert seen.steady.total == seen.steady.processes + seen.steady.shared
    assert not page._button.disabled
    assert page._bars.value.count('aria-label="measured') == 2
    shared = size(settings.shared)
    assert f'aria-label="measured: {shared}. batches {shared}"' in page._bars.value
    page._workers.value = 3
    assert page.prediction.settings.num_workers == 3
    assert "measured" not in text(page)
    page._workers.value = 2
    assert "measured" in text(page)


def test_shared_memory_has_a_batch_more_when_the_loop_gets_its_next() -> None:
    settings = Settings(2, 2, 4, MB, "fork")
    dataset = Synthetic(12 * 4, MB, workers=2)
    gauge = Gauge()
    loader = DataLoader(
        dataset, 4, num_workers=2, multiprocessing_context="fork", collate_fn=dataset.collate
    )
    batches = iter(loader)
    # Stretch the moment when the loop has its next batch, but hasn't let go of the last one.
    last, following = next(batches), next(batches)
    until(lambda: dataset.made >= settings.waiting + 2)
    assert gauge.shared() == settings.peak_shared / MB == 6 * 4
    del last, following
    assert gauge.shared() == settings.waiting * 4
    del batches


@pytest.mark.thorough  # it starts up to three interpreters that import torch
def test_a_forked_worker_adds_little_and_a_spawned_one_an_interpreter_with_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fork, spawn = footprint("fork"), footprint("spawn")
    assert 0 < fork.worker < 60 * MB < spawn.worker
    assert fork.once == 0
    assert spawn.once > 0  # for multiprocessing's resource tracker
    assert fork.main == pytest.approx(spawn.main, rel=0.3)
    monkeypatch.setattr(trial_module, "_in_child", None)
    assert footprint("fork") is fork, "it is measured once"


# --- runs that fail, and settings that are rejected


def test_what_is_not_safe_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    before = predicted()
    monkeypatch.setattr(trial_module, "room", lambda: Room(shm=20 * MB, memory=64 << 30))
    monkeypatch.setattr(trial_module, "_in_child", None)
    with pytest.raises(ValueError, match=r"28 MB .*/dev/shm.* 20 MB "):
        trial(before)


@leaves_nothing
def test_a_run_that_does_not_finish_in_time_says_so() -> None:
    with pytest.raises(RuntimeError, match=r"\nHung: "):
        trial(predicted(), deadline=0.001)


@leaves_nothing
def test_a_run_whose_process_is_killed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    before = predicted()
    monkeypatch.setattr(trial_module, "fill", confined_cases.kill_itself)
    with pytest.raises(RuntimeError, match="exit code -9"):
        trial(before)


@pytest.mark.parametrize("deadline", [0, float("nan"), 1e10])
def test_a_deadline_must_be_positive(deadline: Any) -> None:
    with pytest.raises(ValueError, match=r"^deadline must be "):
        trial(predicted(), deadline=deadline)


@pytest.mark.parametrize(("name", "value"), [("num_workers", 0), ("start_method", "thread")])
def test_a_setting_out_of_range_is_named_before_anything_is_measured(
    name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget_module, "footprint", None)
    with pytest.raises(ValueError, match=f"^{name} must be .*got {value!r}"):
        dltutor.budget(**{name: value})


# --- the page


def test_each_control_moves_the_prediction() -> None:
    page = dltutor.budget(num_workers=1, prefetch_factor=1, batch_size=1, sample_bytes=1 << 16)
    sizes = [page.prediction.settings.shared]
    for control, value in [
        (page._workers, 2),
        (page._ahead, 3),
        (page._batch, 16),
        (page._sample, 1 << 18),
    ]:
        control.value = value
        sizes.append(page.prediction.settings.shared)
    assert [shared >> 16 for shared in sizes] == [2, 3, 7, 7 * 16, 7 * 64]


def test_values_between_the_marks_of_a_slider_are_taken_as_they_are() -> None:
    page = dltutor.budget(num_workers=70, prefetch_factor=33, batch_size=3, sample_bytes=1234)
    one = page.prediction.settings
    assert one == Settings(70, 33, 3, 1234)


def test_what_is_not_safe_cannot_be_pressed_and_the_reason_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(budget_module, "room", lambda: Room(shm=64 * MB, memory=64 << 30))
    page = dltutor.budget()
    assert not page._button.disabled
    page._ahead.value = 6
    assert page._button.disabled
    refusal = page.prediction.refusal(Room(shm=64 * MB, memory=64 << 30))
    assert refusal and refusal in text(page)
    page._ahead.value = 2
    assert not page._button.disabled
    assert refusal not in text(page)


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


# --- the bars on the page


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
    parts = {"main": total * MB / 4, "batches": total * MB * 3 / 4}
    return draw_bars("a<b", "how", {"predicted": parts}, limit * MB)


def test_bars_read_as_text_and_say_where_the_limit_is() -> None:
    drawn = bars(32, 64)
    assert 'aria-label="predicted: 32 MB. main 8 MB, batches 24 MB"' in drawn
    assert "a&lt;b: 32 MB of 64 MB<" in drawn
    assert "limit 64 MB" in drawn
    assert "width:12.50%" in drawn
    assert "width:37.50%" in drawn
    beyond = bars(128, 64)
    assert "128 MB of 64 MB<" not in beyond, "it says that this is too much"
    assert "left:50.00%" in beyond


@pytest.mark.parametrize("limit", [60, 100, 127])
def test_the_name_of_the_limit_is_there_wherever_the_limit_is(limit: int) -> None:
    assert f">limit {limit} MB<" in bars(128, limit)
