"""Check how lesson 01's checks treat changed Pillow settings, and test its notebook and helpers.

The helpers make images and readings, some of which are broken on purpose.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from io import BytesIO
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from answers.lesson_01 import Verified
from cells import run_copied
from PIL import Image, ImageFile

from dltutor.failures.corrupt_images import Images, VerifiedImages
from dltutor.failures.data.images import SPOILERS, make_images
from dltutor.lessons.engine.checking import check
from dltutor.lessons.engine.outcomes import Outcome
from dltutor.lessons.engine.running import contents
from dltutor.lessons.lesson_01 import fix, transfer
from dltutor.lessons.lesson_01.helpers import (
    TOLERANCE,
    lesson_images,
    loader_of,
    side_by_side,
)

pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")


# The notebook and its checks


def test_the_scan_in_on_call_finds_every_bad_file(tmp_path: Path) -> None:
    images = Images(make_images(tmp_path))
    known = run_copied("01", "on-call-scan", torch=torch, dataset=images)
    good = VerifiedImages(tmp_path).listed
    bad = {images.listed[index] for index in known["bad"]}
    not_rgb = {line for line in good if re.search("gray|palette|transparent", line[0])}
    assert bad == set(images.listed) - set(good) | not_rgb


def test_a_switch_turned_on_in_a_cell_is_found_in_a_class_that_does_not_mention_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    result = check("01.fix", Verified)
    assert (result.outcome, result.code) == (Outcome.NOT_YET, "strays-truncated")


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
        assert (result.outcome, result.code) == (Outcome.NOT_YET, "reasons-alike-limit")
        assert result.fields["limit"] == str(limit)
    assert check("01.fix", MeasuresBeforeDecoding).outcome is Outcome.CORRECT


def test_a_switch_left_on_changes_nothing_of_which_sample_fails_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    assert check("01.diagnose", 21).outcome is Outcome.CORRECT


class Harmful(Verified):
    """An answer whose `__init__` turns on a Pillow switch, deletes JPEGs, and kills its process."""

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


# The images and readings that the helpers make


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
    folder.mkdir()
    return folder


def test_a_flipped_bit_passes_a_look_in_a_jpeg_and_not_in_a_png() -> None:
    image = Image.open(lesson_images() / "circle" / "000.jpg").resize((512, 512))
    found = {}
    for form in ("JPEG", "PNG"):
        image.save(file := BytesIO(), form)
        whole, right, rng = file.getvalue(), np.array(Image.open(file), int), random.Random(0)
        told: Counter[str] = Counter()
        for _ in range(50):
            spoiled = bytearray(whole)
            spoiled[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
            try:
                worst = np.abs(np.array(Image.open(BytesIO(spoiled)), int) - right).max()
                told["wrong" if worst > 40 else "close"] += 1
            except Exception:
                told["raised"] += 1
        found[form] = told
    assert found["JPEG"]["raised"] < 5 and found["JPEG"]["wrong"] > 15
    assert found["PNG"]["raised"] > 45
