"""Lesson 09's checks measure growth, and its notebook has their starters."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from answers.lesson_09 import PackedBoxes, PackedStrings
from cells import answer_in
from torch.utils.data import DataLoader

from dltutor.failures.kit.gauge import sent_to_spawned
from dltutor.failures.material.captions import (
    Captions,
    CaptionTuple,
    PackedCaptions,
    shared_captions,
)
from dltutor.lessons.engine.checking import check, verdict
from dltutor.lessons.engine.endings import Ending, where
from dltutor.lessons.engine.outcomes import Outcome, Result
from dltutor.lessons.lesson_09 import exercises, fix
from dltutor.lessons.lesson_09.fix import Rewritten, Run, read_all
from dltutor.lessons.lesson_09.material import (
    Memory,
    Reading,
    count_in,
    draw,
    growth_of_each,
    memory_of,
    size_of,
    write_captions,
)
from dltutor.lessons.lesson_09.transfer import Boxes, write_boxes
from notebooks import NOTEBOOKS, read

NothingLeft = Callable[..., None]

MB = 1 << 20
ENDED = Ending("finished", 8)
FLAT = Run(2, ENDED, (11.0, 10.9), (11.0, 11.0), 50_000)
GROWN = Run(2, ENDED, (11.0, 10.9), (17.5, 17.4), 20_000)
FOUR = replace(FLAT, workers=4)
NONE = Run(0, ENDED, number=100_000)
SEEN = Rewritten(50_000, (NONE, FLAT, FOUR), GROWN, kept="`captions` (list)")
LARGER = replace(SEEN, runs=(NONE, replace(FLAT, first=(11.0, 13.0), last=(11.0, 13.1)), FOUR))


def told(seen: Rewritten) -> Result:
    return verdict(lambda: fix.GRADER.judge(seen))


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        (LARGER, "started-larger"),
        (replace(LARGER, frozen=True), "started-larger-frozen"),
        (replace(LARGER, kept="", frozen=True), "started-larger-elsewhere"),
    ],
)
def test_memory_that_no_answer_takes_for_sure_is_judged_by_what_was_seen(
    seen: Rewritten, code: str
) -> None:
    result = told(seen)
    assert (result.outcome, result.code) == (Outcome.NOT_YET, code)


def test_the_worker_that_grew_most_is_named() -> None:
    for runs, worker, workers in (
        ((NONE, replace(FLAT, last=(12.2, 11.0)), FOUR), "W0", 2),
        ((NONE, FLAT, replace(FOUR, last=(11.0, 12.1))), "W1", 4),
    ):
        fields = told(replace(SEEN, runs=runs)).fields
        assert (fields["worker"], fields["where"]) == (worker, where(workers))


def test_a_machine_that_shows_no_copying_cannot_check() -> None:
    result = told(replace(SEEN, broken=FLAT))
    assert (result.outcome, result.code) == (Outcome.COULD_NOT_CHECK, "broken-stayed-small")


@pytest.mark.parametrize(
    "answer", [{"A", "B"}, "A,B", "a and b", "'A' b", " (A) b.", ["'A'", '"b" ']]
)
def test_letters_are_taken_in_any_form(answer: Any) -> None:
    assert exercises.letters(answer) == {"A", "B"}


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


def test_the_class_that_can_be_copied_is_a_list_of_strings() -> None:
    notebook = read(NOTEBOOKS / "09-copy-on-read.ipynb")
    text = next(cell.source for cell in notebook.cells if cell.id == "on-call")
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found
    names: dict[str, Any] = {}
    exec(found[1], names)
    strings = ["", " a lake", "Café ", "\udce9.jpg", "\u2028\x0b", "the last"]
    for kind in (names["PackedStrings"], PackedStrings):
        packed = kind(iter(strings))
        assert [packed[index] for index in range(-6, 6)] == [*strings, *strings]
        assert list(packed) == strings
        with pytest.raises(IndexError):
            packed[6]
    assert len(names["PackedStrings"]([])) == 0
    samples = names["Samples"]([(Path("cat/0.jpg"), 0), ("dog/1.jpg", 1)])
    assert [samples[index] for index in range(len(samples))] == [("cat/0.jpg", 0), ("dog/1.jpg", 1)]


def test_a_run_of_the_list_grows_and_one_of_packed_bytes_does_not(tmp_path: Path) -> None:
    path = tmp_path / "captions.txt"
    truth = fix.CAPTIONS.write(path, 0)
    assert read_all(fix.CAPTIONS, Captions(path), truth, 2, 0.4).grown[0] > 4
    assert read_all(fix.CAPTIONS, truth, truth, 2, 0.4).grown[0] < 0.5


def test_two_texts_that_begin_alike_are_cut_to_where_they_differ() -> None:
    assert fix.where_unlike("'a'", "'b '") == ["'a'", "'b '"]
    assert fix.where_unlike(f"'{'ab' * 40}'", f"'{'ab' * 40} and so on, for {'long ' * 20}'") == [
        "...babababababababababababab'",
        "...babababababababababababab and so on, for long long long long...",
    ]


def test_a_run_finds_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "captions.txt"
    write_captions(path, count=1000)
    task = replace(fix.CAPTIONS, same=lambda one, other: "Café" not in one)
    run = read_all(task, PackedCaptions(path), PackedCaptions(path), 2, 2)
    assert run.number == 2000
    assert 200 < run.different < 300  # of 1000, though each was read twice
    assert (int(str(run.example["index"])) % 4, run.example["epoch"]) == (1, 1)


def test_memory_is_read_with_the_first_batch_and_at_the_end() -> None:
    dataset = Captions(shared_captions(100_000))
    listed = size_of(dataset.captions)
    run = memory_of(loader_of(dataset), epochs=2)
    second = "first batch of epoch 2"
    assert [*run.columns] == ["first batch", "30,000 samples", "end of the epoch", second]
    assert run.part_of(listed) == "nearly all"
    assert abs(run.last.rest - run.first.rest) < listed / 2
    flat = memory_of(loader_of(PackedCaptions(shared_captions(100_000))), until=30_000)
    assert 30_000 <= flat.last.samples < 30_100
    assert flat.part_of(2 * listed) == "next to nothing"


def test_a_run_that_fails_says_how() -> None:
    with pytest.raises(RuntimeError, match="tuple index out of range"):
        memory_of(DataLoader(CaptionTuple(shared_captions(10)), sampler=[99]))


def loader_of(dataset: Any) -> DataLoader[Any]:
    return DataLoader(
        dataset, batch_size=50, shuffle=True, num_workers=2, multiprocessing_context="fork"
    )


def test_the_table_has_what_was_read() -> None:
    first = Reading(200, (10 * MB, 12 * MB), 90 * MB, 100.0 * MB)
    last = Reading(900, (50 * MB, 52 * MB), 90 * MB, 180.0 * MB)
    table = Memory((first, last), {"first batch": first, "end of the epoch": last}).table(50 * MB)
    assert str(table).splitlines() == [
        "In the first epoch, each worker grew by nearly all of the list",
        "                               first batch  end of the epoch",
        "  W0's own (USS)               10 MB        50 MB",
        "  W1's own (USS)               12 MB        52 MB",
        "  main's, and what they share  78 MB        78 MB",
        "  all of them (PSS)            100 MB       180 MB",
        "  W0 in htop (RES)             90 MB        90 MB",
    ]
    unknown = replace(last, together=float("nan"))
    columns = {"first batch": unknown, "end of the epoch": unknown}
    assert "PSS" not in str(Memory((unknown,), columns).table(50 * MB))


def test_a_figure_is_drawn_of_one_run_and_of_two() -> None:
    reading = Reading(200, (10 * MB,), 90 * MB, float("nan"))
    run = Memory((reading,), {"first batch": reading})
    for runs in ({"one": run}, {"one": run, "two": run}):
        assert draw(50 * MB, **runs)._repr_png_().startswith(b"\x89PNG")


def test_a_second_name_is_counted_in_the_object() -> None:
    thing = object()
    before = count_in(thing)
    second_name = thing
    assert count_in(second_name) == before + 1


def test_a_list_is_as_large_as_all_that_is_in_it() -> None:
    assert size_of([["a" * 1000], ["b" * 1000]]) > 2000


def listed(truth: PackedCaptions) -> list[str]:
    return [truth[index] for index in range(len(truth))]


def test_captions_have_the_awkward_ones(tmp_path: Path) -> None:
    path = tmp_path / "captions.txt"
    others = listed(write_captions(path, first=1, count=1000))
    assert others == Captions(path).captions
    assert (others[0], others[-2:], max(map(len, others))) == ("", ["", ""], 300)
    captions = listed(write_captions(path, count=1000))
    assert captions == Captions(path).captions
    assert captions[0].startswith(" ")
    assert captions[-1].endswith("  ")
    assert "" in captions
    assert len({*captions}) == 999
    assert max(map(len, captions)) > 100
    assert not {*captions} & {*shared_captions(1000).read_text().splitlines()}


def test_some_images_have_no_boxes_and_one_has_a_crowd(tmp_path: Path) -> None:
    path = tmp_path / "boxes.json"
    written = write_boxes(path, images=400, seed=5)
    for read_again in (Boxes(path), PackedBoxes(path)):
        assert all(np.array_equal(read_again[index], written[index]) for index in range(400))
    counts = [len(written[index]) for index in range(400)]
    assert min(counts) == 0
    assert max(counts) == 300
    assert counts[:2] == [2, 0]


def test_a_spawned_worker_is_sent_a_tensors_descriptor_and_an_arrays_bytes(
    nothing_left_behind: NothingLeft,
) -> None:
    numbers = np.zeros(100_000, np.uint8)
    assert sent_to_spawned(numbers) >= numbers.nbytes
    assert sent_to_spawned(torch.from_numpy(numbers)) < 1000


def test_every_exercise_says_what_it_runs_and_has_three_different_hints() -> None:
    for exercise in exercises.EXERCISES:
        assert len({*exercise.hints}) == 3
        assert bool(exercise.runs) == bool(exercise.grader.at_most)
        assert exercise.grader.at_most <= 70


@pytest.mark.thorough  # the lesson's twin shows it
def test_the_claims_table_says_which_datasets_grow() -> None:
    rows = growth_of_each().rows
    grows = {name[0] for name, part, _sent in rows if part == "nearly all"}
    flat = {name[0] for name, part, _sent in rows if part == "next to nothing"}
    assert grows == {*"tABE"}
    assert flat == {*"CDp"}
