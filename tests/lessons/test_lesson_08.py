"""Check lesson 08's judges on made-up evidence, and how its check weighs samples.

What the notebook's tables measure isn't tested here. While the solved notebook runs, `promised` in
dltutor.lessons.engine raises an error if a measurement doesn't match the text.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from cells import source

from dltutor.failures.tools.contract import load
from dltutor.failures.tools.gauge import no_proc
from dltutor.lessons.engine import words
from dltutor.lessons.engine.checking import verdict
from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.lesson_08 import fix, helpers, transfer
from dltutor.lessons.lesson_08.fix import SECOND, Epochs, Sample, weigh
from dltutor.lessons.lesson_08.helpers import Nothing, full
from dltutor.lessons.lesson_08.transfer import Asked, Counted
from dltutor.tables import Note
from notebooks import NOTEBOOKS, read

NOTEBOOK = read(NOTEBOOKS / "08-seeing-memory.ipynb")
TWO = "with 2 workers under fork"
FINISHED = Ending("finished", 15)


def test_without_proc_the_tables_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helpers, "no_proc", lambda: "this machine has no /proc/PID/fd")
    assert isinstance(helpers.four_jobs(), Note)
    assert isinstance(helpers.predicted_and_measured({}), Note)
    assert isinstance(helpers.moment(load(Nothing(), 2, "fork"), int), Note)


def test_samples_that_do_not_arrive_are_missed() -> None:
    light = Sample(SECOND, 40_030, (("int16", SECOND, 40_000),))
    epochs = Epochs(TWO, FINISHED, ((light,) * 24, (light,) * 23))
    assert verdict(lambda: fix.GRADER.judge((epochs,))).code == "missing"


def test_batches_that_do_not_reach_the_loop_are_missed() -> None:
    right = Asked("before any batch is made", 0, "0", 0)
    counted = Counted(TWO, FINISHED, (right,), ((0, 2),))
    assert verdict(lambda: transfer.GRADER.judge((counted,))).code == "other-batches"


@dataclass
class Sent:
    """A sample of a class that torch doesn't know."""

    pcm: bytes


def test_a_sample_weighs_its_storages_once_and_its_pickle() -> None:
    giant = torch.zeros(1000, dtype=torch.int16)
    carried, tensors = weigh({"a": giant[:10], "b": giant[10:30]})
    assert 2000 < carried < 2200
    assert tensors == (("int16", 10, 2000), ("int16", 20, 2000))
    assert 20_000 < weigh(np.zeros(10_000, np.int16))[0] < 20_300
    assert 5000 <= weigh(b"x" * 5000)[0] < 5100
    assert 5000 <= weigh(Sent(b"x" * 5000))[0] < 5200  # the class adds little to the pickle
    sparse = torch.zeros(100).to_sparse()
    assert [kind for kind, *_ in weigh(sparse)[-1]] == ["int64", "float32"]


@pytest.mark.skipif(no_proc() is not None, reason=str(no_proc()))
@pytest.mark.parametrize(("sample", "batch"), [(b"abc", 0), ({"a": (torch.zeros(9), 3)}, 36)])
def test_a_sample_of_any_kind_has_a_size(sample: object, batch: int) -> None:
    assert full(load([sample] * 20, 2, "fork", batch_size=None)).batch == batch


def test_the_notebook_lists_every_answer_to_the_question() -> None:
    text = source("diagnose", NOTEBOOK)
    right = words.lesson("08")["diagnose"]["answer"]
    assert all(f'`"{word}"`' in text for word in right.values())
