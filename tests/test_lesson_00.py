"""Lesson 00: its checks name what is wrong, and its tables leave nothing out."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from dltutor.lessons.lesson_00.pairs import Pairs
from nbformat import NotebookNode
from torch.utils.data import Dataset

from dltutor.lessons import Outcome, check, lesson_00
from dltutor.lessons.lesson_00 import pairs
from dltutor.observation import Observation, machine
from notebooks import NOTEBOOKS, read

LEARNERS_FILE = NOTEBOOKS / "00-start-here.ipynb"
TWIN = NOTEBOOKS / "solutions" / "00-start-here.ipynb"


def cell(name: str, notebook: NotebookNode | None = None) -> str:
    cells = (notebook or read(LEARNERS_FILE)).cells
    return next(str(each.source) for each in cells if each.id == name)


def answer_in(*cells: str) -> dict[str, Any]:
    """What these cells of the twin define."""
    defined: dict[str, Any] = {"Dataset": Dataset}
    for name in cells:
        exec(compile(cell(name, read(TWIN)), f"/tmp/ipykernel_1/{name}.py", "exec"), defined)
    return defined


def text() -> str:
    return "\n".join(each.source for each in read(LEARNERS_FILE).cells)


# The notebook


def test_the_notebook_has_the_levels_and_the_starter_that_the_check_knows() -> None:
    defined = answer_in("pairs")
    assert tuple(defined["levels"]) == lesson_00.LEVELS
    assert check("00.fix", defined["Pairs"]).outcome is Outcome.NOT_ATTEMPTED


def test_untouched_starters_are_not_attempted() -> None:
    assert check("00.predict", answer_in("predict")["prediction"]).outcome is Outcome.NOT_ATTEMPTED
    assert check("00.read", answer_in("read")["failing_index"]).outcome is Outcome.NOT_ATTEMPTED
    assert check("00.fix", answer_in("mend")["Pairs"]).outcome is Outcome.NOT_ATTEMPTED


def test_the_solutions_are_correct() -> None:
    assert check("00.predict", answer_in("predict-solved")["prediction"]).outcome is Outcome.CORRECT
    assert check("00.fix", answer_in("mend-solved")["Pairs"]).outcome is Outcome.CORRECT


def test_every_field_of_an_observation_is_explained() -> None:
    explained = re.findall(r"^\| .* \| (`.*`) \| ", cell("layers"), re.MULTILINE)
    fields = {field.name for field in dataclasses.fields(Observation)}
    assert fields - set(re.findall(r"`([a-z_]+)`", " ".join(explained))) == set()


def test_every_row_of_the_machine_is_explained() -> None:
    explained = re.findall(r"^\| `?([^|`]+?)`? \|", cell("machine-rows"), re.MULTILINE)
    assert [row[0] for row in machine().story().rows] == explained[1:]


def test_every_outcome_is_explained() -> None:
    explained = re.findall(r"^\| `([^`]+)` \|", cell("layers"), re.MULTILINE)
    assert {outcome.value for outcome in Outcome} <= set(explained)


def test_the_way_on_names_every_lesson_and_links_those_that_exist() -> None:
    rows = re.findall(r"^\| .* \| (\[?(\d\d) .*) \| (here|to come) \|$", cell("next"), re.MULTILINE)
    assert [number for _, number, _ in rows] == [f"{number:02}" for number in range(1, 15)]
    linked = {link for entry, _, _ in rows for link in re.findall(r"\]\((.*)\)", entry)}
    here = {number for _, number, status in rows if status == "here"}
    lessons = {path.name for path in NOTEBOOKS.glob("[0-9]*.ipynb")} - {LEARNERS_FILE.name}
    assert linked == lessons
    assert here == {name[:2] for name in lessons}


def test_the_drawing_names_every_part_and_describes_itself() -> None:
    root = ElementTree.parse(NOTEBOOKS / "figures" / "anatomy.svg").getroot()
    said = " ".join(root.itertext())
    for part in ("main process", "index queue of W0", "index queue of W1", "result queue", "W0"):
        assert part in said
    assert "/dev/shm" in said
    described = {element.get("id") for element in root if element.text}
    assert set((root.get("aria-labelledby") or "").split()) <= described
    steps = set(re.findall(r"^(\d)\. ", cell("anatomy"), re.MULTILINE))
    drawn = [e.text for e in root.iterfind(".//*[@class='step']/{http://www.w3.org/2000/svg}text")]
    assert set(drawn) == steps == set("12345")


def test_a_loader_of_the_lesson_names_its_start_method() -> None:
    calls = re.findall(r"DataLoader\(dataset,[^\n]*", text())
    assert calls
    assert all("multiprocessing_context=" in call for call in calls)


# The checks


class BuiltBefore:
    """Not even a Dataset: anything with these three methods will do."""

    def __init__(self, levels: Any) -> None:
        self.pairs = list(itertools.pairwise(levels))

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Any:
        return self.pairs[index]


class NumpyPairs(Pairs):
    def __len__(self) -> int:
        return max(0, len(self.levels) - 1)

    def __getitem__(self, index: int) -> Any:
        return [np.int64(self.levels[index]), np.int64(self.levels[index + 1])]


class Mended(Pairs):
    def __len__(self) -> int:
        return len(self.levels) - 1


class Exits(Mended):
    def __getitem__(self, index: int) -> Any:
        sys.exit(3)


class KillsItsWorker(Mended):
    def __getitem__(self, index: int) -> Any:
        os.kill(os.getpid(), 9)


class Sleeps(Mended):
    def __getitem__(self, index: int) -> Any:
        time.sleep(60)


class NeedsNoLevels(Mended):
    def __init__(self) -> None:
        super().__init__([])


class NoLength(Mended):
    def __len__(self) -> Any:
        return len(self.levels) / 2


class Misspelt(Mended):
    def __getitem__(self, index: int) -> Any:
        return self.level[index]  # type: ignore[attr-defined]


@pytest.mark.parametrize("answer", [Mended, BuiltBefore, NumpyPairs])
def test_every_right_way_is_correct(answer: type, nothing_left_behind: Callable[..., None]) -> None:
    result = check("00.fix", answer)
    assert result.outcome is Outcome.CORRECT, result
    assert "16 of 16 pairs" in result.text


@pytest.mark.parametrize(
    ("answer", "outcome", "told"),
    [
        (Exits, Outcome.NOT_YET, "ended with exit code 3"),
        (KillsItsWorker, Outcome.NOT_YET, "killed by SIGKILL"),
        (Sleeps, Outcome.NOT_YET, "stopped at its deadline of 1 s"),
        (NeedsNoLevels, Outcome.ERROR, "takes 1 positional argument"),
        (NoLength, Outcome.ERROR, "'float' object cannot be interpreted as an integer"),
        (Misspelt, Outcome.ERROR, "has no attribute 'level'"),
        (None, Outcome.ERROR, "takes a class, got None"),
    ],
)
def test_an_answer_that_goes_wrong_otherwise_is_told_how(
    answer: Any,
    outcome: Outcome,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    nothing_left_behind: Callable[..., None],
) -> None:
    monkeypatch.setattr(pairs, "PATIENCE", 1)
    result = check("00.fix", answer)
    assert result.outcome is outcome, result
    assert told in result.text


@pytest.mark.parametrize("answer", [16, np.int64(16)])
def test_the_index_may_be_any_whole_number(answer: Any) -> None:
    assert check("00.read", answer).outcome is Outcome.CORRECT


def test_the_failing_index_is_the_one_that_fails_in_main() -> None:
    broken = Pairs(lesson_00.LEVELS)
    assert [broken[index] for index in range(16)]
    with pytest.raises(IndexError):
        broken[16]


@pytest.mark.parametrize("exercise", lesson_00.EXERCISES, ids=lambda exercise: exercise.name)
def test_the_three_hints_are_three(exercise: Any) -> None:
    assert len({*exercise.hints}) == 3
