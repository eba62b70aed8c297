"""Lesson 01: its checks name what is wrong, on recorded evidence; its material is what it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from answers.lesson_01 import Verified
from cells import answer_in
from PIL import ImageFile

from dltutor.failures import corrupt_images
from dltutor.failures.corrupt_images import Images
from dltutor.failures.material.images import SPOILERS, make_images
from dltutor.lessons.kit.checking import check, verdict
from dltutor.lessons.kit.endings import Ending
from dltutor.lessons.kit.outcomes import Outcome, Result
from dltutor.lessons.lesson_01 import diagnose, fix, transfer
from dltutor.lessons.lesson_01.deliveries import Delivery, Evidence, Sample
from dltutor.lessons.lesson_01.diagnose import Failing
from dltutor.lessons.lesson_01.material import Files, Readings, make_readings
from notebooks import NOTEBOOKS, read

TWIN = NOTEBOOKS / "solutions" / "01-corrupt-images.ipynb"

pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")


# The notebook


@pytest.mark.parametrize(
    ("exercise", "cells", "name"),
    [
        ("01.predict", ["predict"], "prediction"),
        ("01.diagnose", ["diagnose"], "first_bad"),
        ("01.fix", ["setup", "fix"], "MyImages"),
        ("01.transfer", ["setup", "transfer"], "MyReadings"),
    ],
)
def test_an_untouched_starter_is_not_attempted(exercise: str, cells: list[str], name: str) -> None:
    result = check(exercise, answer_in(read(TWIN), *cells)[name])
    assert result.outcome is Outcome.NOT_ATTEMPTED, result


def test_the_solutions_are_correct() -> None:
    solved = answer_in(read(TWIN), "setup", "fix-load-solved", "fix-solved")
    assert check("01.fix", solved["MyImages"]).outcome is Outcome.CORRECT
    solved = answer_in(read(TWIN), "setup", "transfer-load-solved", "transfer-solved")
    assert check("01.transfer", solved["MyReadings"]).outcome is Outcome.CORRECT


def test_a_switch_turned_on_in_a_cell_is_found_in_a_class_that_does_not_mention_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    result = check("01.fix", Verified)
    assert result.outcome is Outcome.NOT_YET
    assert "if a cell of yours turned it on, turn it off there" in result.text


# What the judges say of recorded evidence

FILES = Files(
    "image",
    (("a/0.jpg", "a"), ("a/1.jpg", "a"), ("b/2.jpg", "b"), ("b/3.jpg", "b"), ("b/4.jpg", "b")),
    causes={"b/3.jpg": "damaged", "b/4.jpg": "missing"},
    odd={
        "a/1.jpg": "a gray image",
        "b/3.jpg": "a JPEG cut short",
        "b/4.jpg": "a file deleted since it was listed",
    },
)
SAMPLES = (Sample("a/0.jpg", 0), Sample("a/1.jpg", 0), Sample("b/2.jpg", 1))
REASONS = {"b/3.jpg": "OSError: truncated", "b/4.jpg": "FileNotFoundError: root/b/4.jpg"}
GOOD = Delivery(
    0, run=Ending("finished", 6), promised=3, samples=SAMPLES, quarantined=dict(REASONS)
)


def told(**differs: Any) -> Result:
    return verdict(lambda: fix.judge(Evidence(FILES, (replace(GOOD, **differs),))))


def ended(end: Any, **how: Any) -> dict[str, Any]:
    return {"run": Ending(end, 6, **how)}


def test_what_can_be_used_and_a_reason_for_the_rest_are_correct() -> None:
    evidence = Evidence(FILES, (GOOD, replace(GOOD, workers=2), replace(GOOD, workers=4)))
    assert verdict(lambda: fix.judge(evidence)) == verdict(lambda: transfer.judge(evidence))
    assert str(verdict(lambda: fix.judge(evidence))) == (
        "Correct. 3 of 5 files can be used, and each arrives once, with 0, 2 and 4 workers. The "
        "other 2 are in `quarantined`, each with its reason."
    )


@pytest.mark.parametrize(
    ("differs", "outcome", "text"),
    [
        ({"changed": ("b/3.jpg",)}, Outcome.NOT_YET, "`b/3.jpg` in the folder is no longer as it"),
        ({"changed": ("labels.csv", "b/3.jpg")}, Outcome.NOT_YET, "nor are 1 more"),
        ({"run": None, "unmade": "`KeyError: 3`."}, Outcome.ERROR, "`KeyError: 3`."),
        (
            {"run": None, "unmade": "`OSError: no`.", "ends": {"b/3.jpg": "OSError"}},
            Outcome.NOT_YET,
            "1 of 3 ends it: a JPEG cut short (OSError). Your class set 2 aside. Such a file is "
            "healthy at its beginning",
        ),
        (
            ended("raised", error="`IndexError: 5`.") | {"ends": {"b/3.jpg": "IndexError"}},
            Outcome.NOT_YET,
            "Which samples does `__len__` count?",
        ),
        (
            ended("raised", error="`E`.") | {"ends": {"a/1.jpg": "E"}, "quarantined": {}},
            Outcome.NOT_YET,
            "1 of 3 ends it: a gray image (E). These load without an error.",
        ),
        (ended("raised", error="`NameError: x`."), Outcome.ERROR, "`NameError: x`."),
        (ended("worker died", fates="W0 killed by SIGKILL"), Outcome.NOT_YET, "killed by SIGKILL"),
        (ended("hung", stood="W1 stood at b.py."), Outcome.NOT_YET, "6 s. W1 stood at b.py."),
        (
            ended("raised", message="TypeError: NoneType") | {"nones": 2},
            Outcome.NOT_YET,
            "2 samples are None",
        ),
        ({"form": "a batch is a str."}, Outcome.NOT_YET, "A batch is a str."),
        ({"samples": ()}, Outcome.NOT_YET, "2 are in `quarantined`. For 1 of them the reason is"),
        ({"samples": (), "quarantined": {}}, Outcome.NOT_YET, "0 are in `quarantined`. How many"),
        ({"other_epoch": True}, Outcome.NOT_YET, "The second epoch brings other"),
        ({"samples": (Sample("", 0, blank=True),)}, Outcome.NOT_YET, "1 of 1 images are blank"),
        (
            {"samples": (*SAMPLES, Sample("", 0, rows_at_end=30))},
            Outcome.NOT_YET,
            "in no file, 30 of them. Where do those rows come from?",
        ),
        (
            {"samples": (SAMPLES[0], Sample("", 0), SAMPLES[2])},
            Outcome.NOT_YET,
            "A gray image should be among the images that arrive",
        ),
        ({"samples": (*SAMPLES, Sample("", 0))}, Outcome.NOT_YET, "1 of 4 images are in no file"),
        ({"samples": (*SAMPLES, SAMPLES[0])}, Outcome.NOT_YET, "`a/0.jpg` came 2 times"),
        ({"samples": (Sample("a/0.jpg", 1),)}, Outcome.NOT_YET, "another class number"),
        ({"promised": 4}, Outcome.NOT_YET, "`len()` says 4, and 3 images arrive"),
        ({"quarantined": "NoneType"}, Outcome.NOT_YET, "the dataset has no `quarantined`"),
        ({"quarantined": "list"}, Outcome.NOT_YET, "`quarantined` is a list"),
        ({"quarantined": {"root/b/3.jpg": "x"}}, Outcome.NOT_YET, "lists it, it is `b/3.jpg`"),
        (
            {"quarantined": REASONS | {"a/1.jpg": "mode L"}},
            Outcome.NOT_YET,
            "holds what can be used: a gray image. The reason that it gives is `mode L`",
        ),
        ({"quarantined": {"b/3.jpg": "x"}}, Outcome.NOT_YET, "1 vanish without a word. Where"),
        (
            {"quarantined": {"b/3.jpg": "x"}, "workers": 2},
            Outcome.NOT_YET,
            "In which process was `quarantined` filled?",
        ),
        ({"quarantined": REASONS | {"c/9.jpg": "x"}}, Outcome.NOT_YET, "names 1 files that"),
        ({"quarantined": REASONS | {"b/4.jpg": "4.jpg"}}, Outcome.NOT_YET, "it is '4.jpg'"),
        (
            {"quarantined": {path: f"{path} is bad" for path in REASONS}},
            Outcome.NOT_YET,
            "the reason is always `b/3.jpg is bad`",
        ),
    ],
)
def test_each_thing_that_can_go_wrong_is_told(
    differs: dict[str, Any], outcome: Outcome, text: str
) -> None:
    result = told(**differs)
    assert result.outcome is outcome, result
    assert text in result.text


def test_one_reason_for_two_causes_among_three_is_told() -> None:
    files = replace(
        FILES,
        listed=(*FILES.listed, ("b/5.jpg", "b")),
        causes=FILES.causes | {"b/5.jpg": "too large"},
    )
    said = {"b/3.jpg": "unreadable", "b/4.jpg": "unreadable", "b/5.jpg": "too many pixels"}
    evidence = Evidence(files, (replace(GOOD, quarantined=said),))
    result = verdict(lambda: fix.judge(evidence))
    assert "`b/3.jpg` is damaged and `b/4.jpg` is missing" in result.text


def test_what_is_wrong_with_two_workers_only_is_told_so() -> None:
    dead = Ending("worker died", 6, fates="W0 killed by SIGKILL")
    evidence = Evidence(FILES, (GOOD, replace(GOOD, workers=2, run=dead)))
    result = verdict(lambda: fix.judge(evidence))
    assert result.text.startswith("With 0 workers all is well. With 2: W0 killed by SIGKILL.")


def test_pillows_switch_is_named_where_it_is_on() -> None:
    delivery = replace(GOOD, samples=(*SAMPLES, Sample("", 0, rows_at_end=30)))
    result = verdict(lambda: fix.judge(Evidence(FILES, (delivery,), loads_truncated=True)))
    assert "`ImageFile.LOAD_TRUNCATED_IMAGES` is on" in result.text


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (9, "9 is the number of the batch"),
        (5, "5 is the place within its batch"),
        (78, "indices count from 0"),
        (79, "Sample 79 does fail"),
        (3, "Sample 3 loads"),
        (-1, "There is no sample -1: they run from 0 to 99"),
        (77, "77 is the first that fails: `OSError: no`. Its file is `f77`"),
    ],
)
def test_an_index_is_judged_by_what_fails(answer: int, text: str) -> None:
    files = tuple(f"f{index}" for index in range(100))
    failing = Failing(answer, files, {77: "`OSError: no`", 79: "`OSError: no`"})
    result = verdict(lambda: diagnose.judge(failing))
    assert text in result.text
    assert (result.outcome is Outcome.CORRECT) == (answer == 77)


# The material


def test_the_first_bad_sample_is_measured_and_not_known_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = set()
    for seed in (1, 2, 3):
        root = make_images(tmp_path / str(seed), seed=seed)
        monkeypatch.setattr(diagnose, "shared_images", lambda root=root: root)
        first = min(diagnose.gather(0).errors)
        assert first == first_that_fails(Images(root))
        found.add(first)
    assert len(found) > 1


def first_that_fails(images: Images) -> int:
    for index in range(len(images)):
        try:
            images[index]
        except Exception:
            return index
    raise AssertionError("every image loads")


def test_the_first_bad_sample_of_the_lesson_is_in_batch_2() -> None:
    first = first_that_fails(Images(corrupt_images.shared_images()))
    assert first // 8 == 2  # as the lesson's text has it
    assert check("01.diagnose", first).outcome is Outcome.CORRECT


def test_the_fresh_images_are_not_those_of_the_lesson(tmp_path: Path) -> None:
    lesson = Images(corrupt_images.shared_images())
    files = fix.fresh_images(tmp_path).files
    assert len(files.odd) == len(SPOILERS)
    assert len(files.causes) == 7  # also for root, who may read every file
    assert set(files.causes.values()) == {"missing", "too large", "damaged", ""}
    assert not {path.rpartition("/")[2] for path, _ in files.listed} & SPOILERS.keys()
    assert [label for _, label in files.listed] != [label for _, label in lesson.listed][:40]


def test_the_fresh_readings_hold_every_kind_of_odd_file(tmp_path: Path) -> None:
    files = transfer.fresh_readings(tmp_path).files
    assert len(files.odd) == 7
    assert files.causes.keys() < files.odd.keys()
    assert set(files.causes.values()) == {"missing", "damaged"}


def test_the_broken_readings_never_fail_and_are_blank_where_they_should() -> None:
    readings = Readings(make_readings())
    blank = [index for index in range(len(readings)) if not readings[index][0].any()]
    assert len(blank) == 6


def test_a_seed_gives_the_same_readings_again(tmp_path: Path) -> None:
    one, other = (make_readings(tmp_path / name) for name in "ab")
    files = sorted(path.relative_to(one) for path in one.rglob("*.*"))
    assert files == sorted(path.relative_to(other) for path in other.rglob("*.*"))
    assert all((one / file).read_bytes() == (other / file).read_bytes() for file in files)
