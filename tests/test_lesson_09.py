"""Lesson 09's checks measure growth, and say what they saw; its notebook has their starters."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cells import answer_in

from dltutor import watch
from dltutor.failures.kit.gauge import sent_to_spawned
from dltutor.failures.material.captions import Captions, PackedCaptions, shared_captions
from dltutor.lessons.kit.checking import check, verdict
from dltutor.lessons.kit.endings import Ending
from dltutor.lessons.kit.outcomes import Outcome, Result
from dltutor.lessons.lesson_09 import draw_kinds, exercises, fix
from dltutor.lessons.lesson_09.exercises import Grown
from dltutor.lessons.lesson_09.growth import Compared, Run, measure
from dltutor.lessons.lesson_09.judging import Memory, Rewritten
from dltutor.lessons.lesson_09.keeping import Kept, array_bytes
from dltutor.lessons.lesson_09.material import Boxes, PackedBoxes, write_boxes, write_captions
from notebooks import NOTEBOOKS, read

NothingLeft = Callable[..., None]

ENDED = Ending("finished", 7)
ALL = Compared(80_000)
RIGHT = Run(ENDED, 31, 31.4, ALL)
LIST = Kept("captions", "a list of 80000 str objects")
MEMORY = Memory(
    kept=(),
    read=None,
    cached="",
    frozen=False,
    stopped=False,
    waste=1.0,
    ideal=Run(ENDED, 30.5, 31),
    broken=Run(ENDED, 31, 44),
)
SEEN = Rewritten(80_000, 80_000, (RIGHT, RIGHT, RIGHT), MEMORY)


def told(seen: Rewritten) -> Result:
    return verdict(lambda: fix.GRADER.judge(seen))


def with_run(workers: int, run: Run) -> Rewritten:
    before = (0, 2, 4).index(workers)
    return replace(SEEN, runs=(*[RIGHT] * before, run), memory=None)


def with_memory(*, first: float = 31, last: float = 31.4, **memory: Any) -> Rewritten:
    run = replace(RIGHT, first=first, last=last)
    return replace(SEEN, runs=(RIGHT, run, RIGHT), memory=replace(MEMORY, **memory))


def test_all_samples_and_no_growth_are_correct() -> None:
    result = told(SEEN)
    assert result.outcome is Outcome.CORRECT
    assert result.text == (
        "80000 of 80000 samples are as before, with 0, 2 and 4 workers, which read in random "
        "order. Each of two grew by 0 MB; with the broken class by 13 MB."
    )


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        (with_memory(kept=(LIST,)), "Main still pays for the objects, though: `captions` is a"),
        (with_memory(waste=27.0), "27 times the bytes that the same data takes without gaps"),
    ],
)
def test_what_is_correct_and_could_be_better_is_mentioned(seen: Rewritten, text: str) -> None:
    result = told(seen)
    assert result.outcome is Outcome.CORRECT
    assert text in result.text


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        (replace(SEEN, promised=79_999), "`len()` is 79999, and the file holds 80000 captions"),
        (
            with_run(0, replace(RIGHT, compared=Compared(1, other_kind="None"))),
            "A sample is None. It has to be a `str`, as before",
        ),
        (
            with_run(0, replace(RIGHT, compared=Compared(80_000, 3, 7, ("'a'", "'a '")))),
            "3 of 80000 captions are not as before. Sample 7 is 'a', and should be 'a '",
        ),
        (
            with_run(4, replace(RIGHT, compared=Compared(80_000, 3, 7, ("'a'", "'a '")))),
            "Without workers the captions are right; with 4, 3 of 80000 are not, caption 7 among",
        ),
        (
            with_run(2, replace(RIGHT, end=Ending("hung", 7, stood="W0 stood at a.py."))),
            "With 2 workers, the run did not end within 7 s. W0 stood at a.py. What takes so long",
        ),
        (
            with_run(0, replace(RIGHT, end=Ending("hung", 7, stood="Main was at gc.collect()."))),
            "A collection goes through every object",
        ),
        (
            with_run(2, replace(RIGHT, end=Ending("worker died", 7, "W0 killed by SIGKILL"))),
            "With 2 workers, W0 killed by SIGKILL. What in your class ends a process?",
        ),
        (replace(SEEN, file_as_before=False), "The file that your class was given is not"),
        (with_memory(last=43), "Each worker grew by 12 MB while it read; by 13 MB with the broken"),
        (with_memory(last=43, kept=(LIST,)), "`captions` is a list of 80000 str objects. What"),
        (with_memory(last=43, first=42), "each worker loads all of it for itself"),
        (with_memory(last=43, first=42, kept=(LIST,)), "makes a copy of what main has"),
        (with_memory(last=43, frozen=True), "`gc.freeze()` is on, and each worker grew"),
        (with_memory(last=43, stopped=True), "The collector is switched off, and each worker"),
        (with_memory(last=43, cached="load"), "`load` keeps what it returned, in each worker anew"),
        (with_memory(kept=(LIST,), read=LIST), "Little is left to fix. `captions` is a list of"),
    ],
)
def test_what_is_wrong_is_told_as_it_was_seen(seen: Rewritten, text: str) -> None:
    result = told(seen)
    assert result.outcome is Outcome.NOT_YET
    assert text in result.text


def test_a_machine_that_shows_no_copying_cannot_check() -> None:
    result = told(with_memory(broken=Run(ENDED, 31, 31.5)))
    assert result.outcome is Outcome.COULD_NOT_CHECK


@pytest.mark.parametrize(
    ("chosen", "grown", "outcome", "text"),
    [
        ("ABE", {"A": 7, "B": 7, "C": 0, "D": 0.2, "E": 11}, Outcome.CORRECT, "C and D do not"),
        ("AB", {"E": 11}, Outcome.NOT_YET, "E grows: 11 MB in each worker, the list 7 MB."),
        ("ABCE", {"C": 0}, Outcome.NOT_YET, "C does not grow: 0 MB in each worker"),
        ("ABCE", {"C": 6}, Outcome.COULD_NOT_CHECK, "measured here, in each worker: C 6 MB"),
    ],
)
def test_letters_are_told_with_what_was_measured(
    chosen: str, grown: dict[str, float], outcome: Outcome, text: str
) -> None:
    seen = Grown(frozenset(chosen), 7.0, tuple(grown.items()))
    result = verdict(lambda: exercises.judge(seen))
    assert result.outcome is outcome
    assert text in result.text


@pytest.mark.parametrize(
    "answer", [{"A", "B"}, "A,B", "a and b", "'A' b", " (A) b.", ["'A'", '"b" ']]
)
def test_letters_are_taken_in_any_form(answer: Any) -> None:
    assert exercises.look(answer) == {"A", "B"}


@pytest.mark.parametrize(
    ("exercise", "cell", "name"),
    [
        ("09.predict", "predict", "prediction"),
        ("09.diagnose", "diagnose", "grow_too"),
        ("09.fix", "fix", "MyCaptions"),
        ("09.transfer", "transfer", "MyBoxes"),
    ],
)
def test_the_notebooks_starters_are_not_attempted(exercise: str, cell: str, name: str) -> None:
    notebook = read(NOTEBOOKS / "09-copy-on-read.ipynb")
    answer = answer_in(notebook, cell, np=np, Path=Path)[name]
    assert check(exercise, answer).outcome is Outcome.NOT_ATTEMPTED


def test_a_measurement_tells_first_from_last_and_finds_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "captions.txt"
    write_captions(path, 60_000)
    listed = measure(Captions(path), 20_000)
    truth = PackedCaptions(path)
    task = replace(fix.TASK, same=lambda one, other: "Café" not in one)
    packed = measure(truth, 400, task=task, truth=truth)
    assert listed.last - listed.first > 2
    assert packed.compared.number == 400
    assert 0 < packed.compared.different < 200
    assert packed.compared.index % 4 == 1
    assert not packed.is_right


def test_captions_have_the_awkward_ones(tmp_path: Path) -> None:
    path = tmp_path / "captions.txt"
    write_captions(path, 1000)
    truth = PackedCaptions(path)
    captions = [truth[index] for index in range(1000)]
    assert captions == Captions(path).captions
    assert captions[0].startswith(" ")
    assert captions[-1].endswith("  ")
    assert "" in captions
    assert len({*captions}) == 999
    assert max(map(len, captions)) > 100
    assert not {*captions} & {*shared_captions(1000).read_text().splitlines()}


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


def test_every_exercise_says_what_it_runs_and_has_three_different_hints() -> None:
    for exercise in exercises.EXERCISES:
        assert len({*exercise.hints}) == 3
        assert bool(exercise.grader.runs) == bool(exercise.grader.at_most)
        assert exercise.grader.at_most <= 60
