"""Check that the tables and the drawing of lesson 00 leave nothing out, and test its code."""

from __future__ import annotations

import dataclasses
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from cells import answer_in, source

from dltutor.lessons.engine.outcomes import Outcome
from dltutor.lessons.lesson_00.fix import LEVELS, Pairs
from dltutor.observation import Observation
from notebooks import NOTEBOOKS, read

LEARNERS_FILE = NOTEBOOKS / "00-start-here.ipynb"
TWIN = NOTEBOOKS / "solutions" / "00-start-here.ipynb"


def cell(name: str) -> str:
    return source(name, read(LEARNERS_FILE))


def solved(*cells: str) -> dict[str, Any]:
    """Run these cells of the solved notebook, and return what they define."""
    return answer_in(read(TWIN), *cells)


def test_the_notebook_has_the_levels_that_the_check_knows() -> None:
    assert tuple(solved("pairs")["levels"]) == LEVELS


def test_the_glossary_explains_every_field_of_an_observation() -> None:
    glossary = (NOTEBOOKS / "GLOSSARY.md").read_text()
    _, _, section = glossary.partition("## An Observation")
    explained = re.findall(r"^\| .* \| (`.*`) \| ", section, re.MULTILINE)
    fields = {field.name for field in dataclasses.fields(Observation)}
    assert fields - set(re.findall(r"`([a-z_]+)`", " ".join(explained))) == set()
    assert "GLOSSARY.md#an-observation" in cell("after-stuck")


def test_every_outcome_is_explained() -> None:
    explained = re.findall(r"^\| `([^`]+)` \|", cell("exercises"), re.MULTILINE)
    assert {outcome.value for outcome in Outcome} <= set(explained)


def test_the_table_by_symptom_links_every_lesson_that_exists_and_the_cheat_sheet() -> None:
    *links, last = re.findall(r"^\| .* \| \[.*\]\((.*)\) \|$", cell("on-call"), re.MULTILINE)
    lessons = {path.name for path in NOTEBOOKS.glob("[0-9]*.ipynb")} - {LEARNERS_FILE.name}
    assert links == sorted(lessons) and last == "CHEATSHEET.md"


def test_a_dataset_that_raises_does_so_in_main_and_the_others_spare_the_kernel() -> None:
    defined = solved("setup", "trouble")
    with pytest.raises(ValueError, match="8l"):
        defined["Sixteen"](defined["raises"])[5]
    assert [defined["Sixteen"](defined[trouble])[5] for trouble in ("dies", "waits")] == [5, 5]


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


def test_the_failing_index_is_the_one_that_fails_in_main() -> None:
    broken = Pairs(LEVELS)
    assert [broken[index] for index in range(16)]
    with pytest.raises(IndexError):
        broken[16]
