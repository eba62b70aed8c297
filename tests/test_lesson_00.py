"""Lesson 00: its checks name what is wrong, and its tables leave nothing out."""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from cells import answer_in, source

from dltutor.lessons.engine.checking import check, verdict
from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.engine.outcomes import Outcome, Result
from dltutor.lessons.lesson_00 import fix
from dltutor.lessons.lesson_00.fix import LEVELS, Pairs, Run
from dltutor.observation import Observation
from notebooks import NOTEBOOKS, read

LEARNERS_FILE = NOTEBOOKS / "00-start-here.ipynb"
TWIN = NOTEBOOKS / "solutions" / "00-start-here.ipynb"


def cell(name: str) -> str:
    return source(name, read(LEARNERS_FILE))


def solved(*cells: str) -> dict[str, Any]:
    """What these cells of the twin define."""
    return answer_in(read(TWIN), *cells)


# The notebook


def test_the_notebook_has_the_levels_and_the_starter_that_the_check_knows() -> None:
    defined = solved("pairs")
    assert tuple(defined["levels"]) == LEVELS
    assert check("00.fix", defined["Pairs"]).outcome is Outcome.NOT_ATTEMPTED


def test_untouched_starters_are_not_attempted() -> None:
    assert check("00.predict", solved("predict")["prediction"]).outcome is Outcome.NOT_ATTEMPTED
    assert check("00.read", solved("read")["failing_index"]).outcome is Outcome.NOT_ATTEMPTED
    assert check("00.fix", solved("fix")["Pairs"]).outcome is Outcome.NOT_ATTEMPTED


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
    *links, last = re.findall(r"^\| .* \| \[.*\]\((.*)\) \|$", cell("hurry"), re.MULTILINE)
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


def test_the_loaders_of_the_lesson_name_their_start_method() -> None:
    own = solved("setup", "own")["my_loader"]
    load = solved("setup", "signed")["load"]
    assert own.multiprocessing_context.get_start_method() == "fork"
    assert load(range(2)).multiprocessing_context.get_start_method() == "fork"


# What the judge says of recorded evidence


PAIRS = tuple(itertools.pairwise(LEVELS))


def told(**differs: Any) -> Result:
    run = Run(LEVELS, 2, 16, (PAIRS,), Ending("finished", 6), tuple(map(repr, LEVELS)))
    return verdict(lambda: fix.judge((run, dataclasses.replace(run, **differs))))


def test_all_pairs_once_and_in_order_are_correct() -> None:
    assert told().outcome is Outcome.CORRECT
    assert "16 of 16 pairs" in told().text


@pytest.mark.parametrize(
    ("differs", "text"),
    [
        ({"epochs": (PAIRS[:-1],)}, "15 of 16 pairs came from 17 levels. (49, 47) did not."),
        ({"epochs": (PAIRS[::-1],)}, "in batches of 4 they came in another order"),
        ({"epochs": ((*PAIRS, PAIRS[-1]),)}, "(49, 47) came once too often"),
        ({"epochs": ((*PAIRS, (47, 52)),)}, "As sample 16 came (47, 52), which is not"),
        ({"promised": 17}, "But `__len__` promises 17 samples. A loader takes StopIteration"),
        (
            {"promised": 15},
            "16 of 16 pairs came from 17 levels. But `__len__` promises 15 samples.",
        ),
        ({"epochs": (PAIRS[1:],)}, "(52, 55) did not. No error says so. `__len__` promises 16"),
        ({"epochs": ((*PAIRS, "[47]"),)}, "As sample 16 came [47], which is not two numbers."),
        ({"left": ("52", "55")}, "`levels[2]` was 61 and is missing"),
        ({"left": (*map(repr, LEVELS), "0")}, "`levels[17]` was missing and is 0"),
        ({"left": tuple(map(repr, map(float, LEVELS)))}, "`levels[0]` was 52 and is 52.0"),
        ({"workers": 4, "epochs": (PAIRS[1:],)}, "With 4 workers, 15 of 16 pairs"),
        ({"epochs": (PAIRS, PAIRS, (), PAIRS)}, "in epoch 3, 0 of 16 pairs"),
        (
            {
                "ending": Ending("raised", 6, kind="IndexError", error="`IndexError`."),
                "promised": 17,
            },
            "16 of 16 pairs came from 17 levels in batches of 4, then `IndexError`. `__len__` pro",
        ),
        (
            {"ending": Ending("worker died", 6, fates="W0 killed by SIGKILL")},
            "W0 killed by SIGKILL",
        ),
        ({"ending": Ending("hung", 6, stood="W0 was at a.py.")}, "W0 was at a.py."),
    ],
)
def test_each_thing_that_can_go_wrong_is_told(differs: dict[str, Any], text: str) -> None:
    assert told(**differs).outcome is Outcome.NOT_YET
    assert text in told(**differs).text


def test_more_than_promised_is_not_told_as_an_early_end() -> None:
    assert "StopIteration" not in told(promised=15).text


def test_a_pair_that_comes_too_seldom_did_come() -> None:
    levels = (33, 33, 33)
    text = told(levels=levels, epochs=(((33, 33),),), left=("33",) * 3, promised=1).text
    assert "1 of 2 pairs came from 3 levels. (33, 33) came 1 of 2 times" in text


def test_an_exception_of_the_answer_is_told_as_its_own() -> None:
    result = told(ending=Ending("raised", 6, kind="KeyError", error="`KeyError: 3` in `f`."))
    assert result.outcome is Outcome.ERROR
    assert "`KeyError: 3` in `f`." in result.text


def test_the_failing_index_is_the_one_that_fails_in_main() -> None:
    broken = Pairs(LEVELS)
    assert [broken[index] for index in range(16)]
    with pytest.raises(IndexError):
        broken[16]
