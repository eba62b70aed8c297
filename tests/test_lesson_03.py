"""Lesson 03's checks survive what they run, tell deaths apart, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answers.lesson_03 import Shards, WithoutAWord, keeps_texts
from torch.utils.data import DataLoader

from dltutor.failures import dead_worker
from dltutor.failures.dead_worker import Frames, How, VerifiedFrames, decode
from dltutor.failures.material import scans
from dltutor.lessons import Outcome, check, lesson_03
from dltutor.lessons.lesson_03 import film_epoch
from dltutor.lessons.lesson_03.apart import Say, run_apart
from dltutor.lessons.lesson_03.film import fresh_film
from dltutor.lessons.lesson_03.shards import make_shards, train
from dltutor.observation import observe
from dltutor.observation.texts import fate
from notebooks import NOTEBOOKS, read

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


class Numbers(VerifiedFrames):
    """The same, with the exit code, as text, for the reason and the whole path as the key."""

    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        code = {"segfault": "-11", "exit": "3"}[how]
        kept = {path: code for path in paths if path.name in self.quarantined}
        self.quarantined = kept  # type: ignore[assignment]


class ByCommandLine(Frames):
    """Every frame in one Python that is started anew after each death."""

    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        self.quarantined: dict[str, str] = {}
        for path in paths:
            pid = os.fork()
            if not pid:
                decode(path.read_bytes(), how)
                os._exit(0)
            if code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
                self.quarantined[path.name] = fate(code)
        self.paths = [path for path in paths if path.name not in self.quarantined]


@pytest.mark.parametrize("answer", [VerifiedFrames, Numbers, ByCommandLine])
def test_frames_that_are_tried_elsewhere_and_accounted_for_are_correct(answer: type) -> None:
    result = check("03.fix", answer)
    assert result.outcome is Outcome.CORRECT, result
    assert result.text.startswith("17 of 20 frames arrive, each once")


def lets_go(shards: Shards) -> list[str]:
    failed = []
    for loader in shards:
        try:
            for _ in loader:
                pass
        except ValueError as error:
            failed.append(str(error))
            error.with_traceback(None)
    return failed


def keeps_what_is_left_of_the_error(shards: Shards) -> list[ValueError]:
    failed = []
    for loader in shards:
        try:
            for _ in loader:
                pass
        except ValueError as error:
            failed.append(error.with_traceback(None))
    return failed


def clears_the_frames(shards: Shards) -> list[ValueError]:
    failed = []
    for loader in shards:
        try:
            for _ in loader:
                pass
        except ValueError as error:
            traceback.clear_frames(error.__traceback__)
            failed.append(error.with_traceback(None))
    return failed


def shuts_the_iterator_down(shards: Shards) -> list[str]:
    failed = []
    for loader in shards:
        batches: Any = iter(loader)
        try:
            for _ in batches:
                pass
        except ValueError as error:
            failed.append(str(error))
        finally:
            batches._shutdown_workers()
    return failed


@pytest.mark.parametrize(
    "answer",
    [lets_go, keeps_what_is_left_of_the_error, clears_the_frames, shuts_the_iterator_down],
)
def test_a_loop_that_lets_its_workers_go_is_correct(answer: Callable[..., Any]) -> None:
    result = check("03.transfer", answer)
    assert result.outcome is Outcome.CORRECT, result


class Waits(VerifiedFrames):
    def __init__(self, paths: Sequence[Path], how: How) -> None:
        time.sleep(60)


def test_a_class_that_is_never_ready_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(film_epoch, "PATIENCE", 0.5)
    assert "What does it wait for, and how long does one frame take?" in check("03.fix", Waits).text


def test_the_right_prediction_and_the_measured_frame_are_correct() -> None:
    assert check("03.predict", "b").outcome is Outcome.CORRECT
    outcomes = [check("03.diagnose", index).outcome for index in (8, 9, 10, np.int64(9))]
    assert [outcome is Outcome.CORRECT for outcome in outcomes] == [False, True, False, True]


@pytest.mark.parametrize("answer", [None, ...])
@pytest.mark.parametrize("exercise", ["03.predict", "03.diagnose"])
def test_an_unset_answer_is_not_attempted(exercise: str, answer: Any) -> None:
    assert check(exercise, answer).outcome is Outcome.NOT_ATTEMPTED


@pytest.mark.parametrize(
    ("exercise", "starter", "cells", "name"),
    [
        ("03.fix", Frames, ("setup", "mend"), "MyFrames"),
        ("03.transfer", train, ("setup", "transfer"), "my_train"),
    ],
)
def test_the_notebooks_starter_is_the_broken_code(
    exercise: str, starter: Any, cells: tuple[str, ...], name: str
) -> None:
    assert check(exercise, starter).outcome is Outcome.NOT_ATTEMPTED
    notebook = read(NOTEBOOKS / "03-exited-unexpectedly.ipynb")
    sources = {each.id: each.source for each in notebook.cells}
    names: dict[str, Any] = {}
    for cell in cells:
        exec(sources[cell], names)
    result = check(exercise, names[name])
    assert result.outcome is Outcome.NOT_ATTEMPTED, result


def test_another_kind_of_answer_gets_a_clear_message() -> None:
    with fresh_film() as film:
        healthy = [path for path in film.paths if path.name not in film.deadly]
        made = VerifiedFrames(healthy, "exit")
    assert "takes the class itself, `VerifiedFrames`" in check("03.fix", made).text
    assert "takes the function itself" in check("03.transfer", VerifiedFrames).text
    assert "is no index" in check("03.diagnose", True).text


def exits(shards: Shards) -> list[str]:
    sys.exit("enough")


def kills_itself(shards: Shards) -> list[str]:
    os.kill(os.getpid(), signal.SIGKILL)
    return []


@pytest.mark.parametrize(
    ("answer", "told"), [(exits, "SystemExit: enough"), (kills_itself, "exit code -9")]
)
def test_a_loop_that_ends_its_process_is_told_and_ends_nothing_here(
    answer: Callable[..., Any], told: str
) -> None:
    assert told in check("03.transfer", answer).text


def test_the_untouched_loop_leaves_the_workers_of_each_failed_shard() -> None:
    result = check("03.transfer", keeps_texts)
    assert "4 workers of failed shards are alive when the function comes back" in result.text


def test_a_class_that_drops_frames_is_found_under_each_decoder() -> None:
    result = check("03.fix", WithoutAWord)
    assert "20 frames, 17 arrive, and `quarantined` names 0" in result.text


def test_the_fresh_film_is_not_the_lessons_and_its_deadly_frames_are_deadly() -> None:
    lesson: Any = dead_worker.broken().loader.dataset
    with fresh_film() as film:
        assert len(film.deadly) == 3
        assert not {path.name for path in film.paths} & {path.name for path in lesson.paths}
        assert len(set(film.pixels.values())) == len(film.pixels) == 17
        assert VerifiedFrames(film.paths, "abort").quarantined.keys() == film.deadly
        for path in film.paths:
            if path.name in film.pixels:
                assert decode(path.read_bytes(), "exit").tobytes() == film.pixels[path.name]
        folder = film.paths[0].parent
    assert not folder.exists()


def test_one_of_the_lessons_shards_fails() -> None:
    ends = [observe(shard).end for shard in make_shards("", "n/a", "")]
    assert ends == ["finished", "raised", "finished"]


# --- the process that runs an answer


def says_and_dies(say: Say) -> None:
    say("here")
    os.write(2, b"last words")
    os.kill(os.getpid(), signal.SIGSEGV)


def waits(say: Say) -> None:
    subprocess.Popen(["sleep", "60"])
    say("here")
    time.sleep(60)


def test_what_a_process_said_before_it_died_is_known() -> None:
    ended = run_apart(says_and_dies, seconds=10)
    assert (ended.said, ended.exitcode, ended.words) == (("here",), -signal.SIGSEGV, "last words")


def test_a_process_that_waits_is_stopped_with_what_it_started() -> None:
    ended = run_apart(waits, seconds=0.5)
    assert (ended.said, ended.exitcode) == (("here",), None)


# --- the scans


def test_both_kinds_of_scans_give_the_same_thumbnails() -> None:
    paths = [path for i, path in enumerate(scans._paths()) if i != scans.THE_LONG_ONE]
    wide, thin = scans.Scans(paths), scans.ThinScans(paths)
    for index in range(len(paths)):
        assert wide[index].shape == (scans.WANTED, 64, 64)
        assert np.array_equal(wide[index], thin[index])


def test_one_scan_is_far_larger_than_the_memory_that_the_lesson_grants() -> None:
    slices = [len(scans.read_scan(path)) for path in scans._paths()]
    assert slices.pop(scans.THE_LONG_ONE) == scans.LONG > 600
    assert set(slices) == {scans.USUAL}


def test_workers_read_the_same_slices() -> None:
    came: list[Any] = []

    def keep(loader: DataLoader[Any]) -> None:
        came.extend(batch.copy() for batch in loader)

    assert observe(scans.fixed().loader, consume=keep).samples == scans.COUNT
    assert all(map(np.array_equal, came, scans.fixed(workers=0).loader))


def test_every_exercise_says_what_it_runs_and_has_three_different_hints() -> None:
    for exercise in lesson_03.EXERCISES:
        assert len({*exercise.hints}) == 3
        assert bool(exercise.runs) == bool(exercise.at_most)
