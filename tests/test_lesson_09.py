"""Lesson 09's checks measure growth: both ways, for every way to keep data without objects."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from dltutor.display.kinds import draw_kinds
from dltutor.display.live import watch
from dltutor.failures.kit.gauge import sent_to_spawned
from dltutor.failures.material.captions import (
    Captions,
    PackedCaptions,
    SharedCaptions,
    TensorCaptions,
    shared_captions,
)
from dltutor.lessons import Outcome, check, lesson_09
from dltutor.lessons.lesson_09 import rewrite
from dltutor.lessons.lesson_09.boxes import Boxes, PackedBoxes, write_boxes
from dltutor.lessons.lesson_09.captions_task import MEND, fresh_captions
from dltutor.lessons.lesson_09.growth import Collector, measure
from dltutor.lessons.lesson_09.keeping import array_bytes
from notebooks import NOTEBOOKS, read

NothingLeft = Callable[..., None]


class Wide(Dataset[str]):
    """The captions in numpy's own unicode, four bytes for each character."""

    def __init__(self, path: str | Path) -> None:
        self.captions = np.array(Path(path).read_text().splitlines())

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, index: int) -> str:
        return str(self.captions[index])


class KeepsTheListToo(PackedCaptions):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.captions = Path(path).read_text().splitlines()


class KeepsTheBoxesToo(PackedBoxes):
    """It asks the list only how many there are."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.boxes = Boxes(path).boxes

    def __getitem__(self, index: int) -> Any:
        assert index < len(self.boxes)
        return super().__getitem__(index)


class FewNumbers(PackedBoxes):
    """A list of counts: as many as there are images, and hardly any objects."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.counts = np.diff(self.starts).tolist()

    def __getitem__(self, index: int) -> Any:
        return self.rows[self.starts[index] :][: self.counts[index]]


class Nested(PackedBoxes):
    """The boxes in a tensor of torch's own kind for rows of any number."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        boxes = [torch.from_numpy(super(Nested, self).__getitem__(n)) for n in range(len(self))]
        self.nested = torch.nested.nested_tensor(boxes)

    def __getitem__(self, index: int) -> Any:
        return self.nested[index].numpy()


class FreezesAndStops(PackedCaptions):
    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        gc.freeze()
        gc.disable()


@pytest.mark.parametrize(
    "answer",
    [TensorCaptions, SharedCaptions, Wide],
    ids=lambda answer: answer.__name__,
)
def test_every_way_without_python_objects_is_correct(
    answer: type, nothing_left_behind: NothingLeft
) -> None:
    result = check("09.fix", answer)
    assert result.outcome is Outcome.CORRECT, result
    assert result.text.startswith("30000 of 30000 samples are as before")


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    "answer",
    [PackedBoxes, KeepsTheBoxesToo, FewNumbers, Nested],
    ids=lambda answer: answer.__name__,
)
def test_boxes_of_any_number_without_python_objects_are_correct(
    answer: type, nothing_left_behind: NothingLeft
) -> None:
    result = check("09.transfer", answer)
    assert result.outcome is Outcome.CORRECT, result


def test_a_list_that_stays_in_main_is_correct_and_mentioned() -> None:
    result = check("09.fix", KeepsTheListToo)
    assert result.outcome is Outcome.CORRECT, result
    assert "Main still pays for the objects" in result.text


def test_the_collector_is_put_back_as_it_was() -> None:
    before = Collector.now()
    check("09.fix", FreezesAndStops)
    assert Collector.now() == before


def test_the_right_letters_are_correct_in_any_form() -> None:
    for answer in ({"A", "B", "E"}, ["e", "b", "a"], "A, B, E"):
        result = check("09.diagnose", answer)
        assert result.outcome is Outcome.CORRECT, result


@pytest.mark.parametrize("exercise", ["09.predict", "09.diagnose"])
@pytest.mark.parametrize("answer", [None, ...])
def test_an_unset_answer_is_not_attempted(exercise: str, answer: Any) -> None:
    assert check(exercise, answer).outcome is Outcome.NOT_ATTEMPTED


@pytest.mark.parametrize(
    ("exercise", "cell", "name", "broken"),
    [("09.fix", "mend", "MyCaptions", Captions), ("09.transfer", "transfer", "MyBoxes", Boxes)],
)
def test_the_notebooks_starter_is_the_broken_class_and_is_not_attempted(
    exercise: str, cell: str, name: str, broken: type
) -> None:
    sources = {each.id: each.source for each in read(NOTEBOOKS / "09-copy-on-read.ipynb").cells}
    lines = sources["setup"].splitlines()
    names: dict[str, Any] = {}
    exec("\n".join(line for line in lines if line.startswith(("import", "from"))), names)
    exec(sources[cell], names)
    assert check(exercise, names[name]).outcome is Outcome.NOT_ATTEMPTED
    assert check(exercise, broken).outcome is Outcome.NOT_ATTEMPTED


def test_a_machine_that_shows_no_copying_cannot_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rewrite._broken_grew, MEND.noun, 0.5)
    result = check("09.fix", PackedCaptions)
    assert result.outcome is Outcome.COULD_NOT_CHECK, result


def test_a_measurement_tells_first_from_last_and_finds_what_differs() -> None:
    with fresh_captions(60_000) as path:
        listed = measure(Captions(path), 20_000)
        truth = PackedCaptions(path)
        packed = measure(truth, 400, truth=truth, same=lambda one, other: "Café" not in one)
    assert listed.last - listed.first > 2
    assert packed.compared == 400
    assert 0 < len(packed.different) < 200
    assert packed.different[0] % 4 == 1


def test_some_images_have_no_boxes_and_one_has_a_crowd(tmp_path: Path) -> None:
    write_boxes(tmp_path / "boxes.json", images=400, seed=5)
    listed, packed = Boxes(tmp_path / "boxes.json"), PackedBoxes(tmp_path / "boxes.json")
    assert all(np.array_equal(listed[index], packed[index]) for index in range(400))
    counts = [len(packed[index]) for index in range(400)]
    assert min(counts) == 0
    assert max(counts) == 80
    assert counts[:2] == [2, 0]


def test_arrays_and_tensors_are_counted_alike() -> None:
    class Both:
        def __init__(self) -> None:
            self.array, self.tensor = np.zeros(8, np.int64), torch.zeros(8)

    assert array_bytes(Both()) == 64 + 32


def test_a_spawned_worker_is_sent_a_tensors_name_and_an_arrays_bytes(
    nothing_left_behind: NothingLeft,
) -> None:
    numbers = np.zeros(100_000, np.uint8)
    assert sent_to_spawned(numbers) >= numbers.nbytes
    assert sent_to_spawned(torch.from_numpy(numbers)) < 1000
    assert sent_to_spawned("text") <= len(pickle.dumps("text")) + 16


def test_a_figure_of_three_kinds_is_drawn_also_of_nothing() -> None:
    with watch() as watched:
        pass
    assert draw_kinds(watched.timeline, "main")._repr_png_().startswith(b"\x89PNG")
    assert draw_kinds(watched.timeline, "W7")._repr_png_().startswith(b"\x89PNG")


def test_the_lesson_and_its_check_read_other_captions() -> None:
    with fresh_captions(1000) as path:
        fresh = set(path.read_text(encoding="utf-8").splitlines())
    assert not fresh & set(shared_captions(1000).read_text().splitlines())


def test_every_exercise_says_what_it_runs_and_has_three_different_hints() -> None:
    for exercise in lesson_09.EXERCISES:
        assert len({*exercise.hints}) == 3
        assert bool(exercise.runs) == bool(exercise.at_most)
        assert exercise.at_most <= 60
