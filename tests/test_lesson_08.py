"""Lesson 08: what its tables measure, and what its judges find in recorded evidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from cells import answer_in
from fresh_interpreter import run_fresh

from dltutor.failures.tools.contract import load
from dltutor.failures.tools.gauge import no_proc
from dltutor.lessons.engine.checking import check, verdict
from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.engine.outcomes import Outcome
from dltutor.lessons.lesson_08 import exercises, fix, material, transfer
from dltutor.lessons.lesson_08.fix import SECOND, Epochs, Sample, weigh
from dltutor.lessons.lesson_08.material import Nothing, full, ready
from dltutor.lessons.lesson_08.transfer import Asked, Counted
from dltutor.tables import MB, Note
from notebooks import NOTEBOOKS, read

NOTEBOOK = NOTEBOOKS / "08-seeing-memory.ipynb"
FINISHED = Ending("finished", 15)
needs_proc = pytest.mark.skipif(no_proc() is not None, reason=str(no_proc()))


# Tables


class Batches(Nothing):
    """Samples of 1 MB."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(MB, dtype=torch.uint8)


# In an interpreter of its own: the heap that other tests leave, a forked worker copies in part.
@needs_proc
def test_batches_that_wait_are_in_shared_memory_and_in_no_process() -> None:
    run_fresh("""
        from pytest import approx
        from test_lesson_08 import MB, Batches, Nothing, full, load

        loaders = (load(each, 2, "fork", batch_size=2) for each in (Nothing(), Batches()))
        empty, seen = map(full, loaders)
        assert (seen.batches, seen.batch) == (5, 2 * MB)
        assert seen.held == approx(10 * MB, rel=0.01)
        assert len(seen.processes) == 3
        # Main has one batch mapped, and the C library of each worker may keep a sample or two.
        more = seen.sum_of("pss") - empty.sum_of("pss")
        assert more < 9 * MB, more
    """)


@needs_proc
def test_a_moment_has_the_numbers_from_outside_and_calls_the_function() -> None:
    calls: list[int] = []
    seen = material.moment(load(Batches(), 2, "fork"), lambda: calls.append(1))
    assert calls == [1]
    assert not isinstance(seen, Note)
    rows = seen.from_outside().rows
    assert [row[0] for row in rows][:2] == ["df /dev/shm", "free, used"]
    assert all(len(row) == 4 for row in rows)


@needs_proc
def test_the_four_jobs_and_the_budget_are_what_the_notebook_says() -> None:
    run_fresh("""
        import os
        from test_lesson_08 import Batches, Note, load, material

        os.environ["DLTUTOR_STRICT"] = "1"  # raises where it is not so
        loaders = {"2 x 4": load(Batches(), 2, "fork", prefetch_factor=4, batch_size=1)}
        found = material.predicted_and_measured(loaders)
        assert not isinstance(found, Note)
        assert found.rows[0][1:3] == ("9", "9 MB"), found
        assert [row[0] for row in material.four_jobs().rows] == [*"ABCD"]
    """)


def test_without_proc_the_tables_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(material, "no_proc", lambda: "this machine has no /proc/PID/fd")
    assert isinstance(material.four_jobs(), Note)
    assert isinstance(material.predicted_and_measured({}), Note)
    assert isinstance(material.moment(load(Nothing(), 2, "fork"), int), Note)


def test_without_workers_nothing_is_ahead() -> None:
    batches = iter(load(Nothing(), 0, "fork"))
    next(batches)
    assert ready(batches) == 0


# 08.fix


@dataclass
class Sent:
    """A sample with a class of its own."""

    pcm: bytes


def test_samples_that_do_not_arrive_are_missed() -> None:
    light = Sample(SECOND, 40_030, 40_050, (("int16", SECOND, 40_000),))
    runs = [Epochs("with 2 workers under fork", FINISHED, ((light,) * 24, (light,) * 23))]
    assert verdict(lambda: fix.judge(runs)).code == "missing"


def test_a_sample_weighs_its_storages_once_and_its_pickle() -> None:
    giant = torch.zeros(1000, dtype=torch.int16)
    carried, packed, tensors = weigh({"a": giant[:10], "b": giant[10:30]})
    assert packed < 200 and 2000 < carried < 2200
    assert tensors == (("int16", 10, 2000), ("int16", 20, 2000))
    assert 20_000 < weigh(np.zeros(10_000, np.int16))[0] < 20_300
    assert 5000 <= weigh(b"x" * 5000)[0] < 5100
    assert 5000 <= weigh(Sent(b"x" * 5000))[0] < 5200  # its class is named, and does not travel
    sparse = torch.zeros(100).to_sparse()
    assert [kind for kind, *_ in weigh(sparse)[-1]] == ["int64", "float32"]


@needs_proc
@pytest.mark.parametrize(
    ("sample", "batch"),
    [(b"abc", 0), ((torch.zeros(9), 3), 36), ({"a": torch.zeros(9)}, 36), ("abc", 0)],
)
def test_a_sample_of_any_kind_has_a_size(sample: object, batch: int) -> None:
    assert full(load([sample] * 20, 2, "fork", batch_size=None)).batch == batch


# 08.transfer


def test_batches_that_do_not_reach_the_loop_are_missed() -> None:
    right = Asked("before any batch is made", 0, "0", 0)
    counted = Counted("with 2 workers under fork", FINISHED, (right,), ((0, 2),))
    assert verdict(lambda: transfer.judge([counted])).code == "other-batches"


# The notebook


@pytest.mark.parametrize(
    ("exercise", "cell", "name"),
    [
        ("08.predict", "prediction", "prediction"),
        ("08.diagnose", "takes", "takes"),
        ("08.fix", "my-excerpts", "MyExcerpts"),
        ("08.transfer", "my-ahead", "my_ahead"),
    ],
)
def test_the_starter_is_not_attempted(exercise: str, cell: str, name: str) -> None:
    answer = answer_in(read(NOTEBOOK), cell, torch=torch)[name]
    assert check(exercise, answer).outcome is Outcome.NOT_ATTEMPTED


def test_the_starter_of_the_notebook_has_the_second_of_the_check() -> None:
    defined = answer_in(read(NOTEBOOK), "my-excerpts", torch=torch)
    assert defined["SECOND"] == SECOND


def test_the_notebook_lists_every_answer_to_the_question() -> None:
    text = next(cell.source for cell in read(NOTEBOOK).cells if cell.id == "diagnose")
    assert all(f'`"{word}"`' in text for word in exercises._TAKES.values())
