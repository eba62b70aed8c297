"""Check lesson 10's jobs and tables, and the code in its notebook."""

from __future__ import annotations

import gc
import json
import re
import subprocess
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import psutil
import pytest
import torch
from cells import run_copied
from fresh_interpreter import run_fresh
from test_figure import run
from torch.utils.data import get_worker_info

from dltutor.failures import heap_growth
from dltutor.failures.heap_growth import reuses_memory
from dltutor.failures.tools.gauge import no_proc
from dltutor.lessons import lesson_10
from dltutor.lessons.lesson_10 import helpers

pytestmark = pytest.mark.skipif(no_proc() is not None, reason=str(no_proc()))


def test_a_job_is_read_with_another_dataset_or_options() -> None:
    job = helpers.make_jobs()["A"]
    few = job.loader(torch.utils.data.Subset(job.dataset, [*range(8)] * 8))
    assert len(few) == 16 and few.num_workers == 2
    assert len(job.loader(batch_sampler=None).dataset) == 64  # type: ignore[arg-type]


def grows_to(mb: float, length: int = 20) -> Any:
    return SimpleNamespace(timeline=run(pss=mb * 2**20, length=length))


def test_the_chart_in_numbers() -> None:
    assert helpers.grown(grows_to(40), "W0", "uss") == pytest.approx(16.8, abs=0.1)
    runs = {job: grows_to(400 if job in "ACD" else 4) for job in "ABCD"}
    rows = {job: cells for job, *cells in lesson_10.what_grew(runs).rows}
    assert len(lesson_10.what_grew({"D": runs["D"]}).rows) == 1
    assert rows["A"][0] == "+168" and rows["B"][0] == rows["A"][3] == "flat"


def test_a_job_that_grows_less_than_a_fifth_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, others = {"A": grows_to(120)}, {"A": grows_to(20)}
    assert "stops" in str(lesson_10.what_stopped(runs, others, "the same eight samples"))
    assert "keeps growing" in str(lesson_10.what_stopped(runs, runs, "the same eight samples"))
    monkeypatch.setenv("DLTUTOR_STRICT", "1")
    with pytest.raises(AssertionError, match="A"):
        lesson_10.what_stopped(runs, others, "gc.collect() before each sample")


def test_what_was_read_too_rarely_is_not_called_flat_or_stopped() -> None:
    runs, seldom = {"A": grows_to(120)}, {"A": grows_to(4, length=7)}
    assert "too few readings" in str(lesson_10.what_grew({"C": seldom["A"]}))
    assert "too few readings" in str(lesson_10.what_stopped(runs, seldom, ""))
    assert "too few readings" in str(lesson_10.what_stopped(seldom, runs, ""))


def test_a_job_that_did_not_grow_cannot_stop() -> None:
    flat = {"A": grows_to(4, length=40)}
    assert "didn't grow before" in str(lesson_10.what_stopped(flat, flat, ""))


def test_growth_before_the_first_reading_is_not_taken_for_none() -> None:
    runs, late = {"A": grows_to(120, length=40)}, {"A": grows_to(120, length=40)}
    for life in late["A"].timeline.processes:
        life.values["uss"][: 3 * 40 // 4] = np.nan  # so at most a quarter of the growth shows
    assert "keeps growing" in str(lesson_10.what_stopped(runs, runs, ""))
    assert "too few readings" in str(lesson_10.what_stopped(runs, late, ""))


@pytest.mark.usefixtures("nothing_frozen")
def test_a_job_that_is_stopped_leaves_nothing_frozen() -> None:
    def stop(batch: int) -> None:
        if batch == 2:
            raise KeyboardInterrupt

    job = replace(helpers.make_jobs()["C"], keep=stop)
    with pytest.raises(KeyboardInterrupt):
        job.train(range(4))  # type: ignore[arg-type]  # any batches
    assert gc.get_freeze_count() == 0


class Weighed(helpers.JobD):
    """Job D's dataset. Each worker records its own USS before every 16th sample."""

    def __init__(self, paths: tuple[str, ...], samples: int) -> None:
        super().__init__(paths)
        self.weights = torch.zeros(2, samples // 16, dtype=torch.long).share_memory_()
        self.count = 0

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.count % 16 == 0:
            uss = psutil.Process().memory_full_info().uss
            self.weights[get_worker_info().id, self.count // 16] = uss
        self.count += 1
        return super().__getitem__(index)


@pytest.mark.thorough  # it trains job D for six epochs
@pytest.mark.skipif(reuses_memory() is not None, reason=str(reuses_memory()))
def test_the_heap_levels_off_after_128_tensors_of_each_worker() -> None:
    # Run this in a new process, whose fork server's heap doesn't depend on earlier tests.
    script = """
        from dataclasses import replace
        from test_lesson_10 import Weighed
        from dltutor.lessons.lesson_10 import helpers

        job = replace(helpers.make_jobs()["D"], epochs=6)
        dataset = Weighed(job.dataset.paths, 192)
        job.train(job.loader(dataset))
        print(dataset.weights.tolist())
        """
    for weights in np.array(json.loads(run_fresh(script).stdout)) / 2**20:
        # The worker recorded weights[10] after 160 samples.
        grown, later = weights[10] - weights[0], np.ptp(weights[10:])
        assert grown > 60, weights.round()
        assert later < grown / 5, weights.round()


def test_the_function_that_can_be_copied_tells_the_c_library_what_the_fixed_case_tells_it() -> None:
    copied = run_copied("10", "on-call-heap")
    told = []
    for tell in (copied["return_freed_memory"], heap_growth.return_freed_memory):
        with patch("ctypes.CDLL") as library:
            tell(0)
        told.append(library().mallopt.mock_calls)
    assert len(told[0]) == 2 and told[0] == told[1]


def test_the_line_that_can_be_copied_names_main_and_its_children() -> None:
    memory_line = run_copied("10", "on-call")["memory_line"]
    with subprocess.Popen(["sleep", "60"]) as child:
        line = memory_line()
        child.kill()
    assert re.match(r"/dev/shm \d+ MB; main: \d+ MB, \d+ descriptors; ", line), line
    assert re.search(rf"; \S+ {child.pid}: \d+ MB, \d+ descriptors", line), line
