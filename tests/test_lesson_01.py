"""Lesson 01: its checks name what is wrong, on recorded evidence; its material is what it says."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from dataclasses import replace
from io import BytesIO
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from answers.lesson_01 import Verified
from cells import answer_in, source
from PIL import Image, ImageFile

from dltutor.failures.corrupt_images import Images, VerifiedImages, load_on_white
from dltutor.failures.material.images import SPOILERS, make_images
from dltutor.lessons.engine.checking import check, verdict
from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.engine.outcomes import Outcome, Result
from dltutor.lessons.engine.running import contents
from dltutor.lessons.lesson_01 import exercises, fix, transfer
from dltutor.lessons.lesson_01.delivery import Evidence, judge
from dltutor.lessons.lesson_01.material import (
    TOLERANCE,
    Folder,
    Kind,
    lesson_images,
    loader_of,
    looks,
    side_by_side,
)
from dltutor.lessons.lesson_01.transfer import Readings, make_readings
from dltutor.observation import observe
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


def test_what_stands_under_in_a_hurry_finds_every_bad_file(tmp_path: Path) -> None:
    [snippet] = re.findall(r"(?s)```python\n(.*?)```", source("card", read(TWIN)))
    images = Images(make_images(tmp_path))
    known = {"torch": torch, "dataset": images}
    exec(snippet, known)
    good = VerifiedImages(tmp_path).listed
    bad = {images.listed[index] for index in known["bad"]}  # type: ignore[attr-defined]
    not_rgb = {line for line in good if re.search("gray|palette|transparent", line[0])}
    assert bad == set(images.listed) - set(good) | not_rgb


def test_a_switch_turned_on_in_a_cell_is_found_in_a_class_that_does_not_mention_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    result = check("01.fix", Verified)
    assert result.outcome is Outcome.NOT_YET
    assert "`ImageFile.LOAD_TRUNCATED_IMAGES` is on" in result.text


class MeasuresBeforeDecoding(Verified):
    def load(self, path: str) -> torch.Tensor:
        with Image.open(self.root / path) as image:
            if image.width * image.height > 10**8:
                raise ValueError("too large")
        return super().load(path)


def test_a_limit_turned_off_in_a_cell_is_named_and_a_class_that_has_its_own_is_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for limit in (None, 10**9):
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        result = check("01.fix", Verified)
        assert result.outcome is Outcome.NOT_YET
        assert f"? (`Image.MAX_IMAGE_PIXELS` is {limit}.)" in result.text
    assert check("01.fix", MeasuresBeforeDecoding).outcome is Outcome.CORRECT


def test_a_switch_left_on_changes_nothing_of_which_sample_fails_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    assert check("01.diagnose", 21).outcome is Outcome.CORRECT


class Harmful(Verified):
    """Each of these told its own kernel once, in the cell that shows an answer at work."""

    def __init__(self, root: str | Path) -> None:
        ImageFile.LOAD_TRUNCATED_IMAGES = True
        super().__init__(root)
        for file in self.root.glob("*/*.jpg"):
            file.unlink()
        os.kill(os.getpid(), 9)


class LooksInWorkers(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        list(loader_of([0, 1], 2))


def test_the_table_at_the_end_says_what_arrives_and_an_answer_in_it_does_no_harm() -> None:
    before = contents(lesson_images())
    rows = side_by_side(Images, LooksInWorkers, Harmful).rows
    assert rows[0] == ("Images", "raised", "-", "-", "-")
    assert rows[1] == ("LooksInWorkers", "finished", "17 of 20", "17 of 19", "17 of 18")
    assert rows[2][:2] == ("Harmful", "worker died")
    assert contents(lesson_images()) == before and not ImageFile.LOAD_TRUNCATED_IMAGES


def test_a_cut_jpeg_passes_verify_and_what_is_not_rgb_loads() -> None:
    rows = {path: cells for path, *cells in looks(lesson_images()).rows}
    assert rows["circle/cut-short.jpg"] == ["ok", "ok", "OSError"]
    assert rows["square/cut-short.png"] == ["ok", "OSError", "OSError"]
    assert rows["square/gray.jpg"] == ["ok", "ok", "ok"]
    assert len(rows) == len(SPOILERS) - 1


def test_a_note_reaches_the_loop_with_the_type_that_was_raised() -> None:
    named = answer_in(read(TWIN), "setup", "images", "shuffled", "named")["Named"]
    order = torch.Generator().manual_seed(15)
    seen = observe(loader_of(named(lesson_images()), 2, shuffle=True, generator=order))
    assert seen.chain[0][0] == seen.raised_in_worker == "OSError"
    assert seen.raw.rstrip().endswith("\nsample 28: square/cut-short.png")


# What the judge says of recorded evidence


def nothing(path: Path, drawn: Any) -> None:
    """Write no file."""


LISTED = {"a/0.jpg": "a", "a/1.jpg": "a", "b/2.jpg": "b", "b/3.jpg": "b", "b/4.jpg": "b"}
KINDS = dict.fromkeys(LISTED, Kind(nothing)) | {
    "a/1.jpg": Kind(nothing, "a gray image"),
    "b/3.jpg": Kind(nothing, "a cut JPEG", "damaged"),
    "b/4.jpg": Kind(nothing, "a deleted file", "missing"),
}
SAMPLES = (("a/0.jpg", 0), ("a/1.jpg", 0), ("b/2.jpg", 1))
FOLDER = Folder(Path(), LISTED, KINDS, {path: np.zeros(2, np.float32) for path, _ in SAMPLES})
REASONS = {"b/3.jpg": "OSError: truncated", "b/4.jpg": "FileNotFoundError: root/b/4.jpg"}
FINISHED = Ending("finished", 6)
GOOD = Evidence(
    FOLDER,
    quarantined=REASONS,
    samples=SAMPLES,
    error="",
    runs={workers: (FINISHED, True) for workers in (0, 2)},
    changed=(),
)
DIED = Ending("worker died", 6, fates="W0 killed by SIGKILL")


def told(**differs: Any) -> Result:
    if "kinds" in differs:
        differs["samples"] = [(kind, None) for kind in Counter(differs.pop("kinds")).elements()]
    return verdict(lambda: judge([GOOD, replace(GOOD, **differs)]))


def test_what_can_be_used_and_a_reason_for_the_rest_are_correct() -> None:
    assert str(told()) == (
        "Correct. In two folders, 6 of 10 files can be used, and each arrives once, with 0, 2 and "
        "4 workers. The other 4 are in `quarantined`, each with its reason."
    )


def test_what_is_wrong_on_the_second_folder_alone_is_told_as_that() -> None:
    text = " This is the second folder; the first was right. What do the two share?"
    assert told(changed=("b/3.jpg",)).text.endswith(text)
    first = verdict(lambda: judge([replace(GOOD, changed=("b/3.jpg",)), GOOD]))
    assert first.text.endswith("later needs it.")


@pytest.mark.parametrize(
    ("differs", "outcome", "text"),
    [
        ({"changed": ("b/3.jpg",)}, "Not yet", "`b/3.jpg`, a cut JPEG, is no longer as it was"),
        (
            {"kinds": {"X raised": 5}, "error": "`X`."},
            "Error in your code",
            "Yours: 5 x X raised. The first error: `X`.",
        ),
        (
            {"kinds": {"good": 3, "X raised": 2}, "error": "`X`."},
            "Not yet",
            "Yours: 3 x good, 2 x X raised. The first error: `X`.",
        ),
        ({"kinds": {"good": 3, "(NoneType)": 2}}, "Not yet", "Yours: 3 x good, 2 x (NoneType)."),
        ({"kinds": {"str": 3}}, "Not yet", "A sample has to be (floats (2,), int). Yours: 3 x str"),
        (
            {"quarantined": REASONS | {"a/1.jpg": "mode L"}},
            "Not yet",
            "1 of the 3 files in `quarantined` can be used, such as `a/1.jpg`, a gray image. Your "
            "class gives the reason `mode L`",
        ),
        (
            {"samples": (*SAMPLES, ("from 0 to 0.5", 0))},
            "Not yet",
            "1 of 4 samples match no usable file, such as one with values from 0 to 0.5. Where",
        ),
        (
            {"samples": (*SAMPLES[::2], ("from 0 to 0.5", 0))},
            "Not yet",
            "Not accounted for: a gray image.",
        ),
        (
            {"samples": (*SAMPLES, SAMPLES[0])},
            "Not yet",
            "different ones: 2 hold what `a/0.jpg`, a healthy file, holds. Whose place did the",
        ),
        ({"samples": (("a/0.jpg", 1),)}, "Not yet", "another class number"),
        ({"quarantined": {}}, "Not yet", "2 neither arrive nor are in the dict `quarantined`"),
        ({"quarantined": {"root/b/3.jpg": "x"}}, "Not yet", "such as `root/b/3.jpg`"),
        ({"quarantined": {"b/3.jpg": "x"}}, "Not yet", "such as a deleted file"),
        ({"samples": SAMPLES[:2]}, "Not yet", "of 5 files, 1 neither arrive".capitalize()),
        ({"quarantined": REASONS | {"b/4.jpg": "4.jpg"}}, "Not yet", "for `b/4.jpg` is '4.jpg'"),
        ({"quarantined": REASONS | {"b/4.jpg": "3f-a1"}}, "Not yet", "for `b/4.jpg` is '3f-a1'"),
        (
            {"quarantined": REASONS | {"b/4.jpg": "OSError"}},
            "Not yet",
            "`quarantined` says of a deleted file: `OSError`. Numbers and paths aside, that reads "
            "most like what it says of a cut JPEG: `OSError: truncated`. Which word tells a file "
            "that is missing from one that is damaged?",
        ),
        ({"later": "x gives y"}, "Not yet", "After the dataset was made, x gives y. Who will"),
        ({"dtypes": {"half": 2, "float": 1}}, "Not yet", "Samples arrive as 2 x half, 1 x float."),
        ({"runs": {0: (FINISHED, False)}}, "Not yet", "Without workers, the loader brings other"),
        ({"runs": {0: (FINISHED, True), 2: (DIED, False)}}, "Not yet", "under fork, W0 killed by"),
    ],
)
def test_each_thing_that_can_go_wrong_is_told(
    differs: dict[str, Any], outcome: str, text: str
) -> None:
    result = told(**differs)
    assert result.outcome.value == outcome, result
    assert text in result.text


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (4, "A sample before 4 fails already"),
        (1, "Sample 1 loads. It is in the right batch: try the next."),
        (3, "is the first that fails, `x`: `OSError: no`"),
    ],
)
def test_an_index_is_judged_by_what_fails(answer: int, text: str) -> None:
    result = verdict(lambda: exercises._judge((answer, 3, "`x`: `OSError: no`")))
    assert text in result.text
    assert (result.outcome is Outcome.CORRECT) == (answer == 3)


# The material


def test_the_first_bad_sample_of_the_lesson_is_measured_and_in_batch_2() -> None:
    images = Images(lesson_images())
    errors = []
    for index in range(len(images)):
        try:
            images[index]
        except Exception:
            errors.append(index)
    assert errors[0] // 8 == 2  # as the lesson's text has it
    assert check("01.diagnose", errors[0]).outcome is Outcome.CORRECT


def test_the_fresh_images_are_not_those_of_the_lesson(tmp_path: Path) -> None:
    folders = [fix.fresh_images(made(tmp_path / str(seed)), seed) for seed in (52, 53)]
    one, other = (list(folder.kinds.values()) for folder in folders)
    assert one != other and Counter(one) == Counter(other)
    assert len({kind.odd for kind in one}) == len(SPOILERS) + 5
    assert {kind.cause for kind in one} == {"", "missing", "too large", "damaged", "other"}
    for folder in folders:
        assert list(dict.fromkeys(folder.listed.values())) != sorted({*folder.listed.values()})


@pytest.mark.parametrize("fresh", [fix.fresh_images, transfer.fresh_readings])
def test_no_file_of_a_fresh_folder_can_be_taken_for_another(fresh: Any, tmp_path: Path) -> None:
    for seed in (52, 53):
        contents = fresh(made(tmp_path / str(seed)), seed).contents.values()
        pairs = combinations(contents, 2)
        assert min(np.abs(one - other).mean() for one, other in pairs) > 2 * TOLERANCE


def made(folder: Path) -> Path:
    """A folder, when it is there."""
    folder.mkdir()
    return folder


def test_what_is_cut_out_is_black_where_alpha_is_thrown_away_and_white_where_it_is_not() -> None:
    file = lesson_images() / "circle" / "transparent.png"
    corner = np.array(Image.open(file).convert("RGB"))[0, 0]
    assert corner.tolist() == [0, 0, 0]
    assert load_on_white(file)[:, 0, 0].tolist() == [1, 1, 1]


def test_a_broken_chunk_raises_what_is_no_os_error(tmp_path: Path) -> None:
    folder = fix.fresh_images(tmp_path, 52)
    [path] = [path for path, kind in folder.kinds.items() if "chunk" in kind.odd]
    with pytest.raises(SyntaxError):
        load_on_white(tmp_path / path)


def test_a_flipped_bit_passes_a_look_in_a_jpeg_and_not_in_a_png() -> None:
    image = Image.open(lesson_images() / "circle" / "000.jpg").resize((512, 512))
    found = {}
    for form in ("JPEG", "PNG"):
        image.save(file := BytesIO(), form)
        whole, right, rng = file.getvalue(), np.array(Image.open(file), int), random.Random(0)
        told: Counter[str] = Counter()
        for _ in range(50):
            spoilt = bytearray(whole)
            spoilt[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
            try:
                worst = np.abs(np.array(Image.open(BytesIO(spoilt)), int) - right).max()
                told["wrong" if worst > 40 else "close"] += 1
            except Exception:
                told["raised"] += 1
        found[form] = told
    assert found["JPEG"]["raised"] < 5 and found["JPEG"]["wrong"] > 15
    assert found["PNG"]["raised"] > 45


def test_the_fresh_readings_hold_every_kind_of_odd_file(tmp_path: Path) -> None:
    kinds = transfer.fresh_readings(tmp_path, 52).kinds.values()
    assert len({kind.odd for kind in kinds}) == 13
    assert {kind.cause for kind in kinds} == {"", "missing", "damaged"}


def test_a_machine_that_stands_still_is_worn_to_whoever_learns_from_the_broken_readings() -> None:
    readings = Readings(make_readings())
    samples = [readings[index] for index in range(len(readings))]
    nearest = sorted(samples, key=lambda sample: float(sample[0].abs().sum()))[:6]
    assert not any(reading.any() for reading, _ in nearest)
    assert {readings.classes[number] for _, number in nearest} == {"worn"}
