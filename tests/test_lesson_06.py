"""Lesson 06's checks accept what travels, say what does not, and leave nothing behind."""

from __future__ import annotations

import gc
import multiprocessing
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answers.lesson_06 import (
    LOADED,
    NEVER_OPENS,
    OPENED,
    OPENS_AT_ONCE,
    REOPENS,
    STATE,
    clips,
    kept_generator,
    records,
)

from dltutor.lessons import Outcome, check
from dltutor.lessons.lesson_06.files import import_file
from dltutor.lessons.lesson_06.tiles import Tiles
from dltutor.lessons.lesson_06.travel import packed, without_pickle
from notebooks import NOTEBOOKS, read

NothingLeft = Callable[..., None]


NEW_PROCESS = (
    "        if self.handle is None:\n",
    "        if self.handle is None or self.pid != os.getpid():\n"
    "            self.pid = os.getpid()\n",
)


def starter(cell: str, folder: Path) -> Path:
    """The file that a starter cell of the learner's notebook writes."""
    notebook = read(NOTEBOOKS / "06-unpicklable-handles.ipynb")
    (source,) = (each.source for each in notebook.cells if each.id == cell)
    magic, _, text = source.partition("\n")
    path = folder / magic.rpartition("/")[2]
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (records, "`seek` and `read` would not"),
        (
            lambda: records((OPENED, f"{OPENED}        self.pid = 0\n"), NEW_PROCESS),
            "Each forked worker opens the file itself.",
        ),
        (
            lambda: records(OPENS_AT_ONCE, NEVER_OPENS, (STATE, STATE + REOPENS)),
            "`seek` and `read` would not",
        ),
        (
            lambda: records(
                OPENS_AT_ONCE,
                NEVER_OPENS,
                (STATE, "\n    def __reduce__(self):\n        return MyRecords, (self.path, 32)\n"),
            ),
            "`seek` and `read` would not",
        ),
    ],
    ids=["opened late", "opened in each process", "opened on arrival", "rebuilt"],
)
def test_records_that_travel_are_correct(answer: Callable[[], Path], says: str) -> None:
    result = check("06.fix", answer())
    assert result.outcome is Outcome.CORRECT, result
    assert result.text.startswith("32 of 32 records arrive under fork and under spawn")
    assert says in result.text


NOISE_IN_INIT = (
    LOADED,
    LOADED + "        generator = torch.Generator().manual_seed(seed)\n"
    "        self.noises = torch.randn(self.clips.shape, generator=generator)\n",
)


@pytest.mark.parametrize(
    "answer",
    [clips, lambda: clips(NOISE_IN_INIT, ("self.noise(clip, index)", "self.noises[index]"))],
    ids=["a generator for each sample", "all noise made in __init__"],
)
def test_clips_that_travel_are_correct(
    answer: Callable[[], Path], nothing_left_behind: NothingLeft
) -> None:
    result = check("06.transfer", answer())
    assert result.outcome is Outcome.CORRECT, result
    nothing_left_behind()


@pytest.mark.parametrize(("exercise", "cell"), [("06.fix", "mend"), ("06.transfer", "transfer")])
def test_the_file_of_an_untouched_starter_is_not_attempted(
    exercise: str, cell: str, tmp_path: Path
) -> None:
    result = check(exercise, starter(cell, tmp_path))
    assert result.outcome is Outcome.NOT_ATTEMPTED, result


@pytest.mark.parametrize("answer", [None, ...])
@pytest.mark.parametrize("exercise", ["06.predict", "06.diagnose", "06.fix", "06.transfer"])
def test_an_unset_answer_is_not_attempted(exercise: str, answer: Any) -> None:
    assert check(exercise, answer).outcome is Outcome.NOT_ATTEMPTED


@pytest.mark.parametrize(
    "way", ["reader.cache.turn", "tiles.reader.cache.turn", " reader.cache.turn "]
)
def test_the_lock_of_the_cache_is_what_has_no_pickle(way: str) -> None:
    assert check("06.diagnose", way).outcome is Outcome.CORRECT


def test_of_everything_in_the_tiles_only_the_lock_has_no_pickle() -> None:
    tiles = Tiles()
    assert without_pickle(tiles) == ["reader"]
    assert without_pickle(tiles.reader) == ["cache"]
    assert without_pickle(tiles.reader.cache) == ["turn"]
    assert packed(tiles)[1] == "TypeError: cannot pickle '_thread.lock' object"
    assert tiles[0].shape == tiles[15].shape == (8, 8)


def test_a_check_leaves_nothing_behind(nothing_left_behind: NothingLeft) -> None:
    searched, modules = sys.path.copy(), set(sys.modules)
    check("06.fix", records((STATE, "")))
    check("06.transfer", kept_generator())
    assert sys.path == searched
    assert not {"my_records", "my_clips"} & (set(sys.modules) - modules)
    gc.collect()
    nothing_left_behind()


def test_the_start_method_that_a_file_chooses_is_taken_back() -> None:
    method = multiprocessing.get_start_method(allow_none=True)
    other = 'torch.multiprocessing.set_start_method("spawn", force=True)\nSIZE = 8'
    assert check("06.fix", records(("SIZE = 8", other))).outcome is Outcome.NOT_YET
    assert multiprocessing.get_start_method(allow_none=True) == method


def test_a_file_is_imported_as_it_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    path = tmp_path / "changing.py"
    for value in (1, 2):
        path.write_text(f"VALUE = {value}\n")
        assert value == import_file(path).VALUE
    del sys.modules["changing"]
