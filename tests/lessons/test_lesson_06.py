"""Check lesson 06's judges on made-up evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dltutor.lessons.engine.checking import verdict
from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.engine.outcomes import Outcome
from dltutor.lessons.lesson_06 import fix, transfer
from dltutor.lessons.lesson_06.travel import Epoch

FINISHED = Epoch("with 2 workers under fork", Ending("finished", 8))
RAISED = replace(FINISHED, run=Ending("raised", 8, error="`TypeError: no`."))
HUNG = replace(FINISHED, run=Ending("hung", 8))
DIED = replace(FINISHED, run=Ending("worker died", 8, last_words="RuntimeError: no"))
FREED = replace(FINISHED, run=replace(DIED.run, last_words="RuntimeError: unable to resize file"))


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (fix.Epoch(RAISED, 100, moved=True), "moved-position"),
        (fix.Epoch(HUNG, 100), "hung"),
        (fix.Epoch(DIED, 100), "last-words"),
    ],
)
def test_how_a_run_of_records_ended_is_judged(epoch: fix.Epoch, code: str) -> None:
    result = verdict(lambda: fix.GRADER.judge((epoch,)))
    assert (result.outcome, result.code) == (Outcome.NOT_YET, code)


def test_a_tensor_that_is_freed_too_early_explains_what_is_wrong_in_main() -> None:
    result = verdict(lambda: transfer.GRADER.judge((([1.0], FREED),)))
    assert result.code == "freed-tensor"
