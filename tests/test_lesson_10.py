"""Lesson 10's jobs leak as they should, and its checks accept what is right."""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from answers.lesson_10 import loads
from torch.utils.data import DataLoader

from dltutor.failures.growing_cache import BoundedRecordings, CachedRecordings, Recordings
from dltutor.failures.kit.gauge import no_proc
from dltutor.lessons import Outcome, check, lesson_10
from dltutor.lessons.lesson_10 import validation
from dltutor.lessons.lesson_10.held_memory import counted_collections, names_in
from dltutor.lessons.lesson_10.night import Night, train
from dltutor.lessons.lesson_10.night_curves import draw_mended, draw_nights
from dltutor.lessons.lesson_10.night_jobs import night_job
from dltutor.observation import observe
from notebooks import NOTEBOOKS, read

pytestmark = pytest.mark.skipif(no_proc() is not None, reason=str(no_proc()))


class LastEight(Recordings):
    @lru_cache(maxsize=8)  # noqa: B019 - small enough
    def load(self, index: int) -> np.ndarray:
        return super().load(index)


class ForgetsAll(CachedRecordings):
    def load(self, index: int) -> np.ndarray:
        if len(self.cache) > 4:
            self.cache.clear()
        return super().load(index)


class Mapped(Recordings):
    """Decoded once, into a file that all workers map."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(paths)
        self.file = Path(paths[0]).with_name("all.npy")
        shape = (len(paths), *np.load(paths[0]).shape)
        every = np.lib.format.open_memmap(self.file, mode="w+", dtype=np.float32, shape=shape)
        for index in range(len(paths)):
            every[index] = super().load(index)
        every.flush()

    def load(self, index: int) -> np.ndarray:
        recording: np.ndarray = np.load(self.file, mmap_mode="r")[index]
        return recording


def with_no_grad(model: Any, loader: Any) -> Any:
    total = torch.zeros(())
    hardest = OrderedDict[int, torch.Tensor]()
    with torch.no_grad():
        for number, (images, labels) in enumerate(loader):
            losses = F.cross_entropy(model(images), labels, reduction="none")
            total += losses.mean()
            hardest[number] = images[losses.argmax()].clone()
    return total / len(loader), list(hardest.values())


def with_a_graph_for_each(model: Any, loader: Any) -> Any:
    total, hardest = 0.0, []
    for images, labels in loader:
        losses = F.cross_entropy(model(images), labels, reduction="none")
        total += losses.mean().item()
        hardest.append(images[losses.argmax()].clone())
    return total / len(loader), hardest


@pytest.mark.parametrize("dataset", [Recordings, BoundedRecordings, LastEight, ForgetsAll, Mapped])
def test_workers_that_stay_small_are_correct(dataset: type[Recordings]) -> None:
    result = check("10.fix", loads(dataset))
    assert result.outcome is Outcome.CORRECT, result
    assert result.text.startswith("192 of 192 samples are right")


@pytest.mark.parametrize("answer", [with_no_grad, with_a_graph_for_each])
def test_a_validation_that_keeps_numbers_and_copies_is_correct(
    answer: Callable[[Any, Any], Any],
) -> None:
    result = check("10.transfer", answer)
    assert result.outcome is Outcome.CORRECT, result


def test_an_untouched_starter_is_not_attempted() -> None:
    assert check("10.fix", loads(CachedRecordings)).outcome is Outcome.NOT_ATTEMPTED
    assert check("10.transfer", validation.validate).outcome is Outcome.NOT_ATTEMPTED


def test_the_notebooks_starters_are_the_broken_code() -> None:
    sources = {each.id: each.source for each in read(NOTEBOOKS / "10-leaking-loaders.ipynb").cells}
    names: dict[str, Any] = {"Recordings": Recordings, "DataLoader": DataLoader, "F": F}
    for cell in ("mend", "transfer", "diagnose", "predict"):
        exec(sources[cell], names)
    answers = {
        "10.predict": names["prediction"],
        "10.diagnose": names["causes"],
        "10.fix": names["my_loader"],
        "10.transfer": names["my_validate"],
    }
    for exercise, answer in answers.items():
        result = check(exercise, answer)
        assert result.outcome is Outcome.NOT_ATTEMPTED, result


@pytest.mark.parametrize("answer", [None, 3, BoundedRecordings, "my_loader"])
def test_what_makes_no_loader_is_told(answer: Any) -> None:
    assert check("10.fix", answer).outcome is Outcome.ERROR


def test_a_function_that_returns_no_loader_is_told() -> None:
    result = check("10.fix", lambda paths: BoundedRecordings(paths))
    assert result.outcome is Outcome.ERROR
    assert "returns a BoundedRecordings, not a DataLoader" in result.text


def test_an_answer_that_raises_is_told_where() -> None:
    def my_validate(model: Any, loader: Any) -> Any:
        raise KeyError("loss")

    result = check("10.transfer", my_validate)
    assert result.outcome is Outcome.ERROR
    assert "KeyError" in result.text


def test_a_check_leaves_no_frozen_objects_behind() -> None:
    before = gc.get_freeze_count()
    check("10.fix", loads(Recordings))
    assert gc.get_freeze_count() <= before


def test_a_job_and_its_mended_form_bring_the_same_samples() -> None:
    for letter in "ABC":
        one, other = (night_job(letter, mended=mended).loader for mended in (False, True))
        for batch, mended in zip(one, other, strict=True):
            pairs = zip(batch, mended, strict=True)
            assert all(torch.equal(a, b) for a, b in pairs), letter


def test_a_night_tells_growth_fall_and_what_happens_late() -> None:
    saw = (1.0, 5.0, 9.0, 2.0, 6.0, 10.0)
    night = Night(workers=saw, main=(4.0, 3.0), shared=(0.0,), files=(7.0, 8.0), seconds=1)
    assert night.growth("workers") == 9
    assert night.fall("workers") == 7
    assert night.late("workers") == 8
    assert (night.growth("main"), night.fall("main"), night.fall("files")) == (0, 1, 0)


def test_few_samples_take_as_many_steps() -> None:
    for letter in "CD":
        for few in (False, True):
            job = night_job(letter, few=few, epochs=2, step=0)
            assert observe(job.loader, consume=job.consume).batches == 32, (letter, few)


def test_any_loader_can_be_trained_for_a_night() -> None:
    night = train(night_job("A", mended=True).loader, epochs=1, step=0, every=4)
    assert len(night.workers) == 4


def test_only_collections_of_all_objects_are_counted() -> None:
    with counted_collections() as collections:
        gc.collect(0)
        gc.collect()
        assert collections() == 1
    gc.collect()
    assert collections


def test_names_are_found_in_methods_and_behind_decorators() -> None:
    assert "collect" in names_in(lambda: gc.collect())
    assert "cache" in names_in(CachedRecordings)
    assert "del" not in names_in(CachedRecordings)

    @torch.no_grad()
    def deletes(batch: Any) -> None:
        del batch

    assert "del" in names_in(deletes)


def test_every_exercise_has_three_different_hints() -> None:
    for exercise in lesson_10.EXERCISES:
        assert len({*exercise.hints}) == 3
        assert bool(exercise.runs) == bool(exercise.at_most)


def test_nights_are_drawn_from_their_first_reading() -> None:
    night = Night((11.0, 31.0), (80.0, 80.0), (1.0, 1.0), (9.0, 9.0), 1)
    figure = draw_nights({"A": night, "C": night})
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["A", "C"]
    assert list(figure.axes[0].lines[0].get_ydata()) == [0, 20]
    mended = draw_mended({"A": night}, {"A": night}, {"A": "workers"})
    assert mended._repr_png_()[:4] == b"\x89PNG"
