"""Lesson 01's checks accept what is right, name what is wrong, and leave nothing behind."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from answers.lesson_01 import VerifiedReadings
from PIL import Image, ImageFile

from dltutor.failures import corrupt_images, make_pictures
from dltutor.failures.corrupt_images import Pictures, VerifiedPictures
from dltutor.failures.material.images import SIDE, SPOILERS
from dltutor.lessons import Outcome, check, lesson_01
from dltutor.lessons.lesson_01.pictures_task import fresh_pictures
from dltutor.lessons.lesson_01.readings import Readings, make_readings
from dltutor.lessons.lesson_01.readings_task import fresh_readings
from notebooks import NOTEBOOKS, read

pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")

NothingLeft = Callable[..., None]


class ResizesFirst(VerifiedPictures):
    def load(self, path: str) -> torch.Tensor:
        with Image.open(self.root / path) as image:
            small = image.resize((SIDE, SIDE), Image.Resampling.BOX).convert("RGB")
        return torch.from_numpy(np.array(small)).permute(2, 0, 1).double() / 255


class NamesWholePaths(VerifiedPictures):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        whole = {self.root / path: why for path, why in self.quarantined.items()}
        self.quarantined = whole  # type: ignore[assignment]


class Exits(VerifiedPictures):
    def __init__(self, root: str | Path) -> None:
        sys.exit(3)


class KillsItsWorker(VerifiedPictures):
    def __getitem__(self, index: int) -> Any:
        if torch.utils.data.get_worker_info():
            os.kill(os.getpid(), 9)
        return super().__getitem__(index)


@pytest.mark.parametrize("answer", [VerifiedPictures, ResizesFirst, NamesWholePaths])
def test_a_dataset_that_accounts_for_every_file_is_correct(answer: type) -> None:
    result = check("01.fix", answer)
    assert result.outcome is Outcome.CORRECT, result
    assert result.text.startswith("33 of 40 files can be used, and each arrives once")


def test_readings_that_are_accounted_for_are_correct() -> None:
    result = check("01.transfer", VerifiedReadings)
    assert result.outcome is Outcome.CORRECT, result
    assert result.text.startswith("25 of 31 files can be used")


@pytest.mark.parametrize(("exercise", "starter"), [("01.fix", Pictures), ("01.transfer", Readings)])
def test_an_untouched_starter_is_not_attempted(exercise: str, starter: type) -> None:
    assert check(exercise, starter).outcome is Outcome.NOT_ATTEMPTED


@pytest.mark.parametrize(
    ("exercise", "cell", "name"),
    [("01.fix", "mend", "MyPictures"), ("01.transfer", "transfer", "MyReadings")],
)
def test_the_notebooks_starter_is_not_attempted_wherever_its_imports_are(
    exercise: str, cell: str, name: str
) -> None:
    notebook = read(NOTEBOOKS / "01-corrupt-images.ipynb")
    sources = {each.id: each.source for each in notebook.cells}
    names: dict[str, Any] = {}
    for imports in ("setup", "transfer-run"):
        lines = sources[imports].splitlines()
        exec("\n".join(line for line in lines if line.startswith(("import", "from"))), names)
    exec(sources[cell], names)
    result = check(exercise, names[name])
    assert result.outcome is Outcome.NOT_ATTEMPTED, result


@pytest.mark.parametrize("answer", [None, ...])
@pytest.mark.parametrize("exercise", ["01.predict", "01.diagnose"])
def test_an_unset_answer_is_not_attempted(exercise: str, answer: Any) -> None:
    assert check(exercise, answer).outcome is Outcome.NOT_ATTEMPTED


def test_an_object_in_place_of_its_class_is_told(tmp_path: Path) -> None:
    result = check("01.fix", VerifiedPictures(make_pictures(tmp_path)))
    assert str(result) == (
        "Error in your code: the check takes the class itself, `VerifiedPictures`, "
        "not an object of it."
    )


def test_an_answer_that_exits_is_told_and_does_not_exit() -> None:
    result = check("01.fix", Exits)
    assert result.outcome is Outcome.ERROR
    assert "SystemExit" in result.text


def test_an_answer_that_kills_its_worker_is_told() -> None:
    result = check("01.fix", KillsItsWorker)
    assert result.outcome is Outcome.NOT_YET
    assert "killed by SIGKILL" in result.text


def test_the_right_prediction_is_correct() -> None:
    assert check("01.predict", "b").outcome is Outcome.CORRECT


def outcome_of(index: int) -> Outcome:
    return check("01.diagnose", index).outcome


def test_the_first_bad_sample_is_measured_and_not_known_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = set()
    for seed in (1, 2, 3):
        root = make_pictures(tmp_path / str(seed), seed=seed)
        monkeypatch.setattr(lesson_01, "shared_pictures", lambda root=root: root)
        first = first_that_fails(Pictures(root))
        assert outcome_of(first) is Outcome.CORRECT
        assert outcome_of(first + 1) is Outcome.NOT_YET
        found.add(first)
    assert len(found) > 1


def first_that_fails(pictures: Pictures) -> int:
    for index in range(len(pictures)):
        try:
            pictures[index]
        except Exception:
            return index
    raise AssertionError("every picture loads")


def test_the_first_bad_sample_of_the_lesson_is_in_batch_2() -> None:
    first = first_that_fails(Pictures(corrupt_images.shared_pictures()))
    assert first // 8 == 2  # as the lesson's text has it
    assert outcome_of(first) is Outcome.CORRECT
    assert [i for i in range(58) if outcome_of(i) is Outcome.CORRECT] == [first]


@pytest.mark.parametrize("switch", [True, False])
def test_pillows_switches_are_as_before(switch: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class TurnsThemAll(VerifiedPictures):
        def __init__(self, root: str | Path) -> None:
            ImageFile.LOAD_TRUNCATED_IMAGES = not switch
            Image.MAX_IMAGE_PIXELS = 10
            super().__init__(root)

    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", switch)
    before = Image.MAX_IMAGE_PIXELS
    check("01.fix", TurnsThemAll)
    assert switch == ImageFile.LOAD_TRUNCATED_IMAGES
    assert before == Image.MAX_IMAGE_PIXELS


def test_a_switch_turned_on_in_a_cell_is_found_in_a_class_that_does_not_mention_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    result = check("01.fix", VerifiedPictures)
    assert result.outcome is Outcome.NOT_YET
    assert "if a cell of yours turned it on, turn it off there" in result.text


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("01.fix", VerifiedPictures),
        ("01.fix", Exits),
        ("01.fix", KillsItsWorker),
        ("01.transfer", VerifiedReadings),
        ("01.transfer", Pictures),
    ],
)
def test_a_check_leaves_nothing_behind(
    exercise: str,
    answer: type,
    nothing_left_behind: NothingLeft,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = set(tmp_path.iterdir())
    check(exercise, answer)
    nothing_left_behind()
    assert {path.name for path in set(tmp_path.iterdir()) - kept} <= {"dltutor-home"}


def test_the_fresh_pictures_are_not_those_of_the_lesson() -> None:
    lesson = Pictures(corrupt_images.shared_pictures())
    with fresh_pictures() as folder:
        assert len(folder.odd) == len(SPOILERS)
        assert len(folder.unusable) == 7  # also for root, who may read every file
        names = {path.rpartition("/")[2] for path, _ in folder.listed}
        assert not names & SPOILERS.keys()
        assert [label for _, label in folder.listed] != [label for _, label in lesson.listed][:40]
    assert not folder.root.exists()


def test_the_fresh_readings_hold_every_kind_of_odd_file() -> None:
    with fresh_readings() as folder:
        assert len(folder.odd) == 7
        assert folder.unusable.keys() < folder.odd.keys()
        reasons = {reason.partition(":")[0] for reason in folder.unusable.values()}
        assert reasons == {"EOFError", "FileNotFoundError", "ValueError"}
    assert not folder.root.exists()


def test_the_broken_readings_never_fail_and_are_blank_where_they_should() -> None:
    readings = Readings(make_readings())
    blank = [index for index in range(len(readings)) if not readings[index][0].any()]
    assert len(blank) == 6


def test_a_seed_gives_the_same_readings_again(tmp_path: Path) -> None:
    one, other = (make_readings(tmp_path / name) for name in "ab")
    files = sorted(path.relative_to(one) for path in one.rglob("*.*"))
    assert files == sorted(path.relative_to(other) for path in other.rglob("*.*"))
    assert all((one / file).read_bytes() == (other / file).read_bytes() for file in files)


def test_every_exercise_says_what_it_runs_and_has_three_different_hints() -> None:
    for exercise in lesson_01.EXERCISES:
        assert len({*exercise.hints}) == 3
        assert bool(exercise.runs) == bool(exercise.at_most)
