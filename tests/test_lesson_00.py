"""Lesson 00: its checks name what is wrong, and its tables leave nothing out."""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from cells import answer_in, source

from dltutor.lessons.kit.checking import check, verdict
from dltutor.lessons.kit.endings import Ending
from dltutor.lessons.kit.outcomes import Outcome, Result
from dltutor.lessons.lesson_00 import fix
from dltutor.lessons.lesson_00.fix import LEVELS, Epoch, Pairs
from dltutor.observation import Observation, machine
from notebooks import NOTEBOOKS, read

LEARNERS_FILE = NOTEBOOKS / "00-start-here.ipynb"
TWIN = NOTEBOOKS / "solutions" / "00-start-here.ipynb"


def cell(name: str) -> str:
    return source(name, read(LEARNERS_FILE))


def solved(*cells: str) -> dict[str, Any]:
    """What these cells of the twin define."""
    return answer_in(read(TWIN), *cells)


def text() -> str:
    return "\n".join(each.source for each in read(LEARNERS_FILE).cells)


# The notebook


def test_the_notebook_has_the_levels_and_the_starter_that_the_check_knows() -> None:
    defined = solved("pairs")
    assert tuple(defined["levels"]) == LEVELS
    assert check("00.fix", defined["Pairs"]).outcome is Outcome.NOT_ATTEMPTED


def test_untouched_starters_are_not_attempted() -> None:
    assert check("00.predict", solved("predict")["prediction"]).outcome is Outcome.NOT_ATTEMPTED
    assert check("00.read", solved("read")["failing_index"]).outcome is Outcome.NOT_ATTEMPTED
    assert check("00.fix", solved("fix")["Pairs"]).outcome is Outcome.NOT_ATTEMPTED


def test_the_solutions_are_correct() -> None:
    assert check("00.predict", solved("predict-solved")["prediction"]).outcome is Outcome.CORRECT
    assert check("00.fix", solved("fix-solved")["Pairs"]).outcome is Outcome.CORRECT


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


# What the judge says of recorded evidence


PAIRS = tuple(itertools.pairwise(LEVELS))


def told(**differs: Any) -> Result:
    epoch = Epoch(LEVELS, 2, len(PAIRS), PAIRS, Ending("finished", 6), 1, LEVELS)
    return verdict(lambda: fix.judge((epoch, dataclasses.replace(epoch, **differs))))


def test_all_pairs_once_and_in_order_are_correct() -> None:
    assert told().outcome is Outcome.CORRECT
    assert "16 of 16 pairs" in told().text


@pytest.mark.parametrize(
    ("differs", "text"),
    [
        ({"pairs": PAIRS[:-1]}, "15 of 16 pairs came from 17 levels. (49, 47) did not."),
        ({"pairs": PAIRS[::-1]}, "in another order"),
        ({"pairs": (*PAIRS, PAIRS[-1])}, "(49, 47) came once too often"),
        ({"pairs": (*PAIRS, (47, 52))}, "as sample 16 came (47, 52), which are not"),
        ({"promised": 17}, "StopIteration for its end"),
        ({"left": LEVELS[1:]}, "it had 17 levels and has 16"),
        ({"workers": 4, "pairs": PAIRS[1:]}, "With 4 workers, 15 of 16 pairs"),
        ({"number": 2, "pairs": ()}, "in a second epoch, 0 of 16 pairs"),
        ({"run": Ending("raised", 6, kind="IndexError"), "promised": 17}, "promises: 17"),
        ({"run": Ending("worker died", 6, fates="W0 killed by SIGKILL")}, "W0 killed by SIGKILL"),
        ({"run": Ending("hung", 6, stood="W0 stood at a.py.")}, "W0 stood at a.py."),
    ],
)
def test_each_thing_that_can_go_wrong_is_told(differs: dict[str, Any], text: str) -> None:
    assert told(**differs).outcome is Outcome.NOT_YET
    assert text in told(**differs).text


def test_an_exception_of_the_answer_is_told_as_its_own() -> None:
    result = told(run=Ending("raised", 6, kind="KeyError", error="`KeyError: 3` in `f`."))
    assert result.outcome is Outcome.ERROR
    assert "`KeyError: 3` in `f`." in result.text


def test_the_failing_index_is_the_one_that_fails_in_main() -> None:
    broken = Pairs(LEVELS)
    assert [broken[index] for index in range(16)]
    with pytest.raises(IndexError):
        broken[16]
