"""Lesson 10's jobs leak as they should, and its checks say what they saw."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from cells import answer_in
from torch.utils.data import DataLoader

from dltutor import observe
from dltutor.failures.growing_cache import BoundedRecordings, CachedRecordings, Recordings
from dltutor.failures.kit.gauge import no_proc
from dltutor.lessons.kit.checking import check, verdict
from dltutor.lessons.kit.endings import Ending
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.outcomes import Outcome, Result
from dltutor.lessons.lesson_10 import draw_fixed, draw_runs, exercises, fix, make_job, transfer
from dltutor.lessons.lesson_10.epochs import Ran
from dltutor.lessons.lesson_10.memory import count_collections, names_in
from dltutor.lessons.lesson_10.runs import Readings, train
from dltutor.lessons.lesson_10.transfer import Validated
from notebooks import NOTEBOOKS, read

pytestmark = pytest.mark.skipif(no_proc() is not None, reason=str(no_proc()))

ENDED = Ending("finished", 30)
EXPECTED = tuple(float(number) for number in range(64))
SHUFFLED = (*EXPECTED[32:], *EXPECTED[:32])
RAN = Ran(ENDED, 2, EXPECTED, (SHUFFLED, SHUFFLED, SHUFFLED), grew=12.0, grew_in_one=9.0)
VALIDATED = Validated(ENDED, graphs=(0.0, *[0.6] * 16), shared=(0.8, *[1.6] * 16))


def told(grader: Grader[Any], evidence: Any) -> Result:
    return verdict(lambda: grader.judge(evidence))


def test_workers_that_stay_small_are_correct() -> None:
    result = told(fix.GRADER, RAN)
    assert result.outcome is Outcome.CORRECT
    assert result.text.startswith("192 of 192 samples are right, in 3 epochs of two workers")


@pytest.mark.parametrize(
    ("ran", "text"),
    [
        (replace(RAN, end=Ending("worker died", 30, "W1 killed by SIGKILL")), "W1 killed by SIG"),
        (replace(RAN, end=Ending("hung", 30)), "did not end within 30 s. What does your class"),
        (replace(RAN, samples=(SHUFFLED[1:],)), "63 of 64 samples came in an epoch"),
        (replace(RAN, samples=((1.5, *SHUFFLED[1:]),)), "1 of 64 samples are not the loudness"),
        (replace(RAN, samples=(EXPECTED,) * 3), "`shuffle=True` is gone"),
        (replace(RAN, asked_workers=0, main=80.0), "now main keeps the cache, and grew by 80 MB"),
        (replace(RAN, asked_workers=0), "now main loads, and grew by 0 MB"),
        (replace(RAN, asked_workers=4), "`num_workers=4`: the exercise keeps"),
        (replace(RAN, lived_on=False), "Yours grow by 9 MB at most in an epoch, so nothing is"),
        (replace(RAN, lived_on=False, grew_in_one=38.0), "a worker still grew by 38 MB"),
        (replace(RAN, taken=77.0), "Your function took 77 MB in main"),
        (replace(RAN, others=50.0), "a process that your code started grew by 50 MB"),
        (replace(RAN, files=40.0), "new files in `/dev/shm` take 40 MB"),
        (replace(RAN, grew=60.0), "Each worker still grew by 60 MB in three epochs, and may"),
        (replace(RAN, grew=60.0, collections=192), "collector ran 192 times for 192 samples"),
        (replace(RAN, grew=60.0, bounds=(None,)), "`lru_cache(maxsize=None)` has no bound"),
        (replace(RAN, grew=60.0, bounds=(128,)), "128 recordings of 1.2 MB are 154 MB"),
        (replace(RAN, grew=60.0, dict_of_class=True), "One dict for the class"),
        (replace(RAN, grew=60.0, names=frozenset({"empty_cache"})), "reserve on a GPU"),
        (replace(RAN, grew=60.0, names=frozenset({"del"})), "`del` takes away a name"),
    ],
)
def test_what_is_wrong_with_a_loader_is_told_as_it_was_seen(ran: Ran, text: str) -> None:
    result = told(fix.GRADER, ran)
    assert result.outcome is Outcome.NOT_YET
    assert text in result.text


def test_a_validation_that_keeps_nothing_is_correct() -> None:
    result = told(transfer.GRADER, VALIDATED)
    assert result.outcome is Outcome.CORRECT
    assert result.text.startswith("16 batches went by, and none was kept")


IN_GRAPHS = replace(VALIDATED, graphs=(0.0, *[0.6 * number for number in range(1, 17)]))
IN_SHARED = replace(VALIDATED, shared=(0.8, *[0.8 * number for number in range(1, 17)]))


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        (Validated(ENDED), "Your loop took no batch from the `loader`"),
        (Validated(Ending("hung", 20)), "did not end within 20 s. What does your function wait"),
        (replace(VALIDATED, fault="3 of 16 come back."), "3 of 16 come back."),
        (replace(IN_SHARED, left=(0.0, 12.6), fault="2 are wrong."), "2 are wrong."),
        (IN_GRAPHS, "the graphs of 16 losses are alive, 10 MB. Which variable leads to all"),
        (replace(IN_GRAPHS, names=frozenset({"clone"})), "the scans are copies now"),
        (replace(IN_GRAPHS, names=frozenset({"del"})), "`del` takes away names"),
        (replace(IN_GRAPHS, names=frozenset({"empty_cache"})), "is about a GPU"),
        (replace(IN_GRAPHS, collections=16), "the collector ran 16 times"),
        (IN_SHARED, "after 16 batches 13 MB of their images are still in shared memory. What of"),
        (replace(IN_SHARED, names=frozenset({"detach"})), "`detach()` leaves the graph behind"),
        (replace(VALIDATED, left=(0.6, 0.0)), "its result still leads to a graph"),
        (replace(VALIDATED, left=(0.0, 0.8)), "still holds 0.8 MB of batches in shared memory"),
        (replace(VALIDATED, harm="it is left so."), "Nothing is kept. But it is left so."),
    ],
)
def test_what_is_wrong_with_a_validation_is_told_as_it_was_seen(seen: Validated, text: str) -> None:
    result = told(transfer.GRADER, seen)
    assert result.outcome is Outcome.NOT_YET
    assert text.lower() in result.text.lower()


@pytest.mark.parametrize(
    ("exercise", "name"),
    [
        ("10.predict", "prediction"),
        ("10.diagnose", "causes"),
        ("10.fix", "my_loader"),
        ("10.transfer", "my_validate"),
    ],
)
def test_the_notebooks_starters_are_not_attempted(exercise: str, name: str) -> None:
    notebook = read(NOTEBOOKS / "10-leaking-loaders.ipynb")
    known = {"Recordings": Recordings, "DataLoader": DataLoader, "F": F}
    answer = answer_in(notebook, exercise.partition(".")[2], **known)[name]
    result = check(exercise, answer)
    assert result.outcome is Outcome.NOT_ATTEMPTED, result


@pytest.mark.parametrize("answer", [3, BoundedRecordings, "my_loader"])
def test_what_makes_no_loader_is_told(answer: Any) -> None:
    assert check("10.fix", answer).outcome is Outcome.ERROR


def test_a_job_and_its_fixed_form_bring_the_same_samples() -> None:
    for letter in "ABC":
        one, other = (make_job(letter, fixed=fixed).loader for fixed in (False, True))
        for batch, fixed in zip(one, other, strict=True):
            pairs = zip(batch, fixed, strict=True)
            assert all(torch.equal(a, b) for a, b in pairs), letter


def test_readings_tell_growth_fall_and_what_happens_late() -> None:
    saw = (1.0, 5.0, 9.0, 2.0, 6.0, 10.0)
    run = Readings(workers=saw, main=(4.0, 3.0), shared=(0.0,), files=(7.0, 8.0), seconds=1)
    assert run.growth("workers") == 9
    assert run.fall("workers") == 7
    assert run.late("workers") == 8
    assert (run.growth("main"), run.fall("main"), run.fall("files")) == (0, 1, 0)


def test_few_samples_take_as_many_steps() -> None:
    for letter in "CD":
        for few in (False, True):
            job = make_job(letter, few=few, epochs=2, step=0)
            assert observe(job.loader, consume=job.consume).batches == 32, (letter, few)


def test_any_loader_can_be_trained() -> None:
    run = train(make_job("A", fixed=True).loader, epochs=1, step=0, every=4)
    assert len(run.workers) == 4


@pytest.fixture
def callbacks() -> Iterator[None]:
    before = [*gc.callbacks]
    yield
    gc.callbacks[:] = before


def test_only_collections_of_all_objects_are_counted(callbacks: None) -> None:
    collections = count_collections()
    gc.collect(0)
    gc.collect()
    assert collections() == 1


def test_names_are_found_in_methods_and_behind_decorators() -> None:
    assert "collect" in names_in(lambda: gc.collect())
    assert "cache" in names_in(CachedRecordings)
    assert "del" not in names_in(CachedRecordings)

    @torch.no_grad()
    def deletes(batch: Any) -> None:
        del batch

    assert "del" in names_in(deletes)


def test_every_exercise_has_three_different_hints() -> None:
    for exercise in exercises.EXERCISES:
        assert len({*exercise.hints}) == 3
        assert bool(exercise.grader.runs) == bool(exercise.grader.at_most)


def test_runs_are_drawn_from_their_first_reading() -> None:
    run = Readings((11.0, 31.0), (80.0, 80.0), (1.0, 1.0), (9.0, 9.0), 1)
    figure = draw_runs({"A": run, "C": run})
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["A", "C"]
    assert list(figure.axes[0].lines[0].get_ydata()) == [0, 20]
    fixed = draw_fixed({"A": run}, {"A": run}, {"A": "workers"})
    assert fixed._repr_png_()[:4] == b"\x89PNG"
