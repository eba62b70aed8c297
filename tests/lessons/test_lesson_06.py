"""Check lesson 06's judges on made-up evidence, and how its checks read files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dltutor.failures.main_only_class import Squares
from dltutor.lessons.engine.checking import verdict
from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.engine.outcomes import Outcome
from dltutor.lessons.engine.sources import only_holds
from dltutor.lessons.lesson_06 import fix, transfer
from dltutor.lessons.lesson_06.helpers import MyRecords
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


STARTER = '''
import os
SIZE = 8  # bytes

class MyRecords(Dataset):
    """Text."""
    def __init__(self, path, count):
        self.path = path
        self.count = count
        self.handle = open(self.path, "rb")

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.handle.seek(index * SIZE)
        return torch.tensor(list(self.handle.read(SIZE)))
'''


@pytest.mark.parametrize(
    ("text", "starter", "holds"),
    [
        (STARTER, MyRecords, True),
        (STARTER, Squares, False),
        (STARTER.replace("self.count = count", "self.count = 3"), MyRecords, False),
        (STARTER.replace("MyRecords", "Others"), MyRecords, False),
        (STARTER + "copyreg.pickle(io.BufferedReader, reopen)\n", MyRecords, False),
        (STARTER + "class", MyRecords, False),
        ("", MyRecords, False),
    ],
)
def test_a_file_that_only_holds_the_starter_is_told_from_its_text(
    text: str, starter: type, holds: bool
) -> None:
    assert only_holds(text, starter) is holds
