"""Lesson 04's checks accept what reaches every process, and say what does not."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

import pytest
import torch
from answers.lesson_04 import CountInATensor, Mended, SharedEpoch, WithoutItsLock
from torch.utils.data import DataLoader, get_worker_info

from dltutor.failures import global_state
from dltutor.lessons import Outcome, check, lesson_04
from dltutor.lessons.lesson_04.clips import CROP, CountedClips, make_clips, stretches
from dltutor.lessons.lesson_04.from_cell import FromCell, LeftBehind
from dltutor.lessons.lesson_04.headlines import Headlines, make_headlines
from dltutor.lessons.lesson_04.slow_motion import SlowMotion
from dltutor.lessons.lesson_04.witness import Witness, counters
from dltutor.observation import observe
from notebooks import NOTEBOOKS, read

NothingLeft = Callable[..., None]


class WithSlots(SharedEpoch):
    """A place for each worker, in a tensor."""

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.count: Any = torch.zeros(16, dtype=torch.int64)
        self.count.share_memory_()  # type: ignore[no-untyped-call]

    def count_one(self) -> None:
        worker = get_worker_info()
        self.count[worker.id if worker else 0] += 1

    def silent(self) -> Any:
        return self.count.sum()


class TensorAndLock(CountInATensor):
    """The lock is there, and nobody takes it."""

    def __init__(self, clips: torch.Tensor) -> None:
        super().__init__(clips)
        self.lock = get_context("spawn").Lock()


class TensorUnderItsLock(TensorAndLock):
    def count_one(self) -> None:
        with self.lock:
            self.count.add_(1)


class WithoutAnswer(Mended):
    def silent(self) -> Any:
        return None


class Numbered(Headlines):
    """Every word has its number before any worker starts."""

    def __init__(self, headlines: list[str]) -> None:
        super().__init__(headlines)
        for headline in headlines:
            for word in headline.split():
                self.vocabulary.setdefault(word, len(self.vocabulary))


@pytest.mark.parametrize("answer", [Mended, WithSlots, TensorUnderItsLock])
def test_an_epoch_that_arrives_and_a_count_that_comes_back_are_correct(answer: type) -> None:
    result = check("04.fix", answer)
    assert result.outcome is Outcome.CORRECT, result


def test_a_lock_that_nobody_takes_guards_nothing() -> None:
    assert "one number in a shared tensor" in check("04.fix", TensorAndLock).text


def test_a_vocabulary_made_beforehand_is_correct() -> None:
    result = check("04.transfer", Numbered)
    assert result.outcome is Outcome.CORRECT, result


def test_the_six_numbers_are_correct_and_the_global_is_as_before() -> None:
    global_state.replaced = 7
    result = check("04.diagnose", {"fresh": (100, 104, 104), "persistent": [100, 8, 8]})
    assert result.outcome is Outcome.CORRECT, result
    assert global_state.replaced == 7


@pytest.mark.parametrize(
    ("exercise", "starter"), [("04.fix", CountedClips), ("04.transfer", Headlines)]
)
def test_an_untouched_starter_is_not_attempted(exercise: str, starter: type) -> None:
    assert check(exercise, starter).outcome is Outcome.NOT_ATTEMPTED


@pytest.mark.parametrize(
    ("exercise", "cell", "name"),
    [
        ("04.predict", "predict", "prediction"),
        ("04.diagnose", "diagnose", "held"),
        ("04.fix", "mend", "MyClips"),
        ("04.transfer", "transfer", "MyHeadlines"),
    ],
)
def test_the_notebooks_starter_is_not_attempted(exercise: str, cell: str, name: str) -> None:
    names = notebook_names("setup", "mend-imports")
    exec(SOURCES[cell], names)
    result = check(exercise, names[name])
    assert result.outcome is Outcome.NOT_ATTEMPTED, result


SOURCES = {
    cell.id: cell.source for cell in read(NOTEBOOKS / "solutions/04-global-state.ipynb").cells
}


def notebook_names(*cells: str) -> dict[str, Any]:
    # As in a notebook: what a cell defines belongs to the module __main__.
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells:
        exec(SOURCES[cell], names)
    return names


@pytest.mark.parametrize("answer", [None, ...])
@pytest.mark.parametrize("exercise", ["04.predict", "04.diagnose"])
def test_an_unset_answer_is_not_attempted(exercise: str, answer: Any) -> None:
    assert check(exercise, answer).outcome is Outcome.NOT_ATTEMPTED


def test_an_answer_without_set_epoch_is_told() -> None:
    result = check("04.fix", Headlines)
    assert str(result) == "Error in your code: `Headlines` has no `set_epoch`."


def test_a_count_that_is_no_number_is_told() -> None:
    assert "returned a NoneType" in check("04.fix", WithoutAnswer).text


def test_a_check_leaves_nothing_behind(nothing_left_behind: NothingLeft) -> None:
    check("04.fix", WithoutItsLock)
    check("04.transfer", Numbered)
    nothing_left_behind()


def lost_in_slow_motion(answer: type[CountedClips]) -> int:
    dataset = answer(torch.zeros(8, 400))
    start = SlowMotion(answer, get_context("fork").Barrier(2))
    loader: DataLoader[Any] = DataLoader(
        dataset, num_workers=2, multiprocessing_context="fork", worker_init_fn=start
    )
    assert observe(loader, deadline=20).end == "finished"
    return len(dataset) - dataset.silent()


def test_slow_motion_loses_counts_without_the_lock_and_none_with_it() -> None:
    assert lost_in_slow_motion(WithoutItsLock) > 0
    assert lost_in_slow_motion(Mended) == 0


CELL = """
import math

OFFSET = 2


def twice(number):
    return math.floor(2 * number)


class Base:
    def __init__(self, numbers):
        self.numbers = numbers

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, index):
        return self.numbers[index]


class FromACell(Base):
    def __getitem__(self, index):
        return self.plus(twice(super().__getitem__(index)))

    @staticmethod
    def plus(number):
        return number + OFFSET if FromACell else None

    @property
    def first(self):
        return self.numbers[0]


class ReadsAGlobal(Base):
    def __getitem__(self, index):
        return SHARED[0]
"""


def test_a_class_from_a_cell_runs_in_a_spawned_worker() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(CELL, names)
    dataset = FromCell(names["FromACell"](torch.arange(4)))
    loader: DataLoader[Any] = DataLoader(dataset, num_workers=1, multiprocessing_context="spawn")
    came = observe(loader, consume=lambda loader: [int(batch) for batch in loader]).result
    assert came == [2, 4, 6, 8]


def test_a_global_that_holds_state_does_not_travel() -> None:
    names: dict[str, Any] = {"__name__": "__main__", "SHARED": torch.zeros(1)}
    exec(CELL, names)
    with pytest.raises(LeftBehind, match="SHARED"):
        FromCell(names["ReadsAGlobal"](torch.arange(4)))


def test_a_global_is_no_matter_whose_name_is_that_of_an_attribute() -> None:
    names: dict[str, Any] = {"__name__": "__main__", "numbers": torch.zeros(1), "plus": []}
    exec(CELL, names)
    FromCell(names["FromACell"](torch.arange(4)))


def test_a_global_value_is_told_under_spawn() -> None:
    names = notebook_names("setup", "mend-imports")
    names["EPOCH"] = torch.tensor(0).share_memory_()  # type: ignore[no-untyped-call]
    changed = SOURCES["mend-solved"].replace("self.epoch.fill_", "EPOCH.fill_")
    exec(changed.replace("int(self.epoch)", "int(EPOCH)"), names)
    result = check("04.fix", names["MyClips"])
    assert result.outcome is Outcome.NOT_YET
    assert "Your class reads the global `EPOCH`" in result.text


def test_the_notebooks_solution_is_correct_though_its_class_stands_in_a_cell() -> None:
    names = notebook_names("setup", "mend-imports", "mend-solved")
    result = check("04.fix", names["MyClips"])
    assert result.outcome is Outcome.CORRECT, result


def test_a_witness_tells_what_its_process_counted() -> None:
    global_state.replaced = 0
    said = {
        workers: counters(DataLoader(Witness(), 8, num_workers=workers, multiprocessing_context=c))
        for workers, c in ((0, None), (2, "fork"))
    }
    assert said == {0: {"main": 8}, 2: {"main": 8, "W0": 12, "W1": 12}}


def test_recordings_are_silent_in_their_own_epochs_only() -> None:
    clips = make_clips((0, 3, 1))
    silent = {epoch: (~stretches(clips, epoch).any(dim=1)).sum().item() for epoch in range(5)}
    assert silent == {0: 4, 3: 3, 1: 3, 2: 0, 4: 0}
    assert stretches(clips, 2).shape == (16, CROP)


def test_headlines_repeat_their_words() -> None:
    headlines = make_headlines()
    words = [word for headline in headlines for word in headline.split()]
    assert len(words) == 4 * len(headlines) > 3 * len(set(words))
    assert headlines == make_headlines() != make_headlines(seed=5)


def test_every_exercise_has_three_different_hints() -> None:
    for exercise in lesson_04.EXERCISES:
        assert len({*exercise.hints}) == 3
        assert bool(exercise.runs) == bool(exercise.at_most)
