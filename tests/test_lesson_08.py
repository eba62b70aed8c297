"""Lesson 08: what its tables measure, and what its judges say of recorded evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from cells import answer_in
from fresh_interpreter import run_fresh

from dltutor.failures.kit.contract import load
from dltutor.failures.kit.gauge import no_proc
from dltutor.lessons.engine.checking import check, verdict
from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.engine.outcomes import Outcome, Result
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
def test_a_moment_is_told_from_outside_and_the_function_is_called_in_it() -> None:
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


LIGHT = Sample(SECOND, 40_030, 40_050, (("int16", SECOND, 40_000),))
EPOCH = (LIGHT,) * 24
GOOD = tuple(
    Epochs(where, FINISHED, (EPOCH,) * epochs)
    for where, epochs in (
        ("with 2 workers under fork", 2),
        ("without workers", 1),
        ("with 4 workers under fork", 1),
    )
)


def told_of_fix(at: int = 0, **differs: Any) -> Result:
    runs = [replace(each, **differs) if n == at else each for n, each in enumerate(GOOD)]
    return verdict(lambda: fix.judge(runs))


def with_sample(**differs: Any) -> dict[str, Any]:
    return {"samples": ((*EPOCH[:23], replace(LIGHT, **differs)),)}


def test_light_samples_that_unpack_are_correct() -> None:
    result = told_of_fix()
    assert result.outcome is Outcome.CORRECT
    assert "24 of 24 excerpts arrive in every epoch" in result.text


@pytest.mark.parametrize(
    ("at", "differs", "told"),
    [
        (0, {"run": Ending("hung", 15, stood="W0 was at a.py, line 3.")}, "W0 was at a.py"),
        (1, {"changed": ("a.npy",)}, "Without workers, `a.npy` was changed"),
        (0, {"run": Ending("hung", 15)}, "What keeps it from ending?"),
        (2, {"samples": (EPOCH[1:],)}, "With 4 workers under fork, 23 of 24 samples came"),
        (0, with_sample(wrong="is float64"), "recording 23, unpacked, is float64."),
        (
            0,
            with_sample(carried=300_030, tensors=(("int16", SECOND, 300_000),)),
            "1 of 24 samples carry too much: one with 20000 numbers carries 300030 bytes, and may "
            "have 41024. It has a tensor of 40000 bytes in a storage of 300000.",
        ),
        (
            0,
            with_sample(carried=80_030, tensors=(("float32", SECOND, 80_000),)),
            "a tensor of float32, 4 bytes for each number",
        ),
        (
            0,
            with_sample(carried=80_030, tensors=(("int16", 40_000, 80_000),)),
            "a tensor of 40000 numbers. Which of them",
        ),
        (0, with_sample(packed=47), "compressed, it has 47 bytes. Where does `unpack` get them?"),
        (0, with_sample(carried=90_000, tensors=()), "What is in it besides the numbers"),
    ],
)
def test_what_is_wrong_with_excerpts_is_told(at: int, differs: dict[str, Any], told: str) -> None:
    result = told_of_fix(at, **differs)
    assert result.outcome is Outcome.NOT_YET
    assert told in result.text


def test_what_unpack_raises_is_an_error_of_the_learners() -> None:
    error = "`ValueError: no` in `unpack`, line 3 of your cell."
    result = told_of_fix(run=Ending("raised", 15, error=error))
    assert result.outcome is Outcome.ERROR
    assert "`ValueError: no` in `unpack`" in result.text


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


QUIET = Asked("before any batch is made", 0, "0", 0)
COUNTED = Counted("with 2 workers under fork", FINISHED, (QUIET,), ((*range(24),),) * 2)


def told_of_transfer(*asked: Asked, **differs: Any) -> Result:
    counted = replace(COUNTED, asked=asked or (QUIET,), **differs)
    return verdict(lambda: transfer.judge((counted,)))


def test_a_function_that_counts_is_correct() -> None:
    result = told_of_transfer()
    assert result.outcome is Outcome.CORRECT
    assert result.text.startswith("Asked 1 times")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (replace(QUIET, said="6", number=6), "0 batches are ready. Your function says 6."),
        (replace(QUIET, right=2, said="1", number=1), "that you have not counted?"),
        (replace(QUIET, said="None", number=None), "returns None, which is not an `int`"),
        (
            replace(QUIET, did="2 of them were gone."),
            "Once your function was asked, 2 of them were gone.",
        ),
        (
            Asked("when the loop waited for W0's first batch", 2, "0", 0),
            "Main has fetched both already",
        ),
    ],
)
def test_what_is_wrong_with_a_count_is_told(asked: Asked, told: str) -> None:
    result = told_of_transfer(asked)
    assert result.outcome is Outcome.NOT_YET
    assert told in result.text


def test_batches_that_do_not_reach_the_loop_are_told() -> None:
    result = told_of_transfer(came=((0, 2),))
    assert "the loop gets the batches [0, 2], and not 0 to 23" in result.text


def test_a_run_that_raised_is_told() -> None:
    result = told_of_transfer(run=Ending("raised", 20, error="`ValueError: no`."), came=())
    assert result.outcome is Outcome.ERROR


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


def test_the_words_of_the_question_are_those_of_the_notebook() -> None:
    text = next(cell.source for cell in read(NOTEBOOK).cells if cell.id == "diagnose")
    assert all(f'`"{word}"`' in text for word in exercises._TAKES.values())
