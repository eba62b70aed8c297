"""Lesson 04's checks accept what reaches every process, and say what does not."""

from __future__ import annotations

from dataclasses import replace
from multiprocessing import get_context
from typing import Any

import pytest
import torch
from answers.lesson_04 import (
    CountInATensor,
    Fixed,
    OneSlotForAll,
    TensorUnderItsLock,
    WithoutItsLock,
    WithSlots,
    typed,
)
from torch.utils.data import DataLoader

from dltutor.failures import global_state
from dltutor.lessons.kit.checking import verdict
from dltutor.lessons.kit.endings import Ending
from dltutor.lessons.kit.outcomes import Outcome, Result
from dltutor.lessons.kit.running import send_cells
from dltutor.lessons.lesson_04 import diagnose, fix, transfer
from dltutor.lessons.lesson_04.diagnose import Held
from dltutor.lessons.lesson_04.exercises import EXERCISES
from dltutor.lessons.lesson_04.fix import Evidence
from dltutor.lessons.lesson_04.hearing import Heard, Run
from dltutor.lessons.lesson_04.material import (
    CROP,
    CountedClips,
    Witness,
    counters,
    make_clips,
    make_headlines,
    silence,
    stretches,
)
from dltutor.lessons.lesson_04.slow_motion import SlowMotion, written_by_several
from dltutor.observation import observe

FINISHED = Ending("finished", 6)

# The material


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
    assert [each.name for each in EXERCISES] == [
        f"04.{name}" for name in ("predict", "diagnose", "fix", "transfer")
    ]
    assert all(len({*each.hints}) == 3 for each in EXERCISES)


# What makes a race certain


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
    assert lost_in_slow_motion(Fixed) == 0


@pytest.mark.parametrize(
    ("answer", "written"),
    [
        (CountInATensor, ["count"]),
        (OneSlotForAll, ["count[0]"]),
        (TensorUnderItsLock, []),
        (WithSlots, []),
        (Fixed, []),
    ],
)
def test_what_several_workers_write_without_a_lock_is_found(
    answer: type, written: list[str]
) -> None:
    clips = make_clips((), number=2)
    for index in range(2):
        silence(clips, index, index)
    dataset = answer(clips)
    loader: DataLoader[Any] = DataLoader(
        dataset, num_workers=2, multiprocessing_context="fork", persistent_workers=True
    )
    assert written_by_several(dataset, loader, epochs=2) == written
    assert dataset.silent() == 2


def test_a_class_from_a_cell_runs_in_a_spawned_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    from multiprocessing.reduction import ForkingPickler

    monkeypatch.setattr(ForkingPickler, "reducer_override", None, raising=False)
    send_cells()
    dataset = typed("fix-solved", ("* 31", "* NUMBERS[0]"), NUMBERS=[31])(make_clips((0,)))
    loader: DataLoader[Any] = DataLoader(
        dataset, 16, num_workers=1, persistent_workers=True, multiprocessing_context="spawn"
    )

    def train(loader: DataLoader[Any]) -> list[torch.Tensor]:
        came = []
        for epoch in (0, 3):
            dataset.set_epoch(epoch)
            came.extend(batch.clone() for batch in loader)
        return came

    came = observe(loader, consume=train, deadline=60).result
    assert isinstance(came, list)
    assert torch.equal(
        torch.stack(came), torch.stack([stretches(dataset.clips, e) for e in (0, 3)])
    )
    assert dataset.silent() == 4


# What is said of recorded evidence


def test_the_six_numbers_are_held_against_the_measured_ones() -> None:
    fresh = Held("fresh", (100, 104, 104), (100, 104, 104))
    persistent = Held("persistent", (100, 8, 8), (100, 8, 8))
    right = verdict(lambda: diagnose.judge((fresh, persistent)))
    assert right.outcome is Outcome.CORRECT
    assert "(100, 104, 104) with fresh workers and (100, 8, 8)" in right.text
    wrong = replace(persistent, given=(100, 4, 4))
    assert "live on" in verdict(lambda: diagnose.judge((fresh, wrong))).text


HEARD = tuple(
    Heard(epoch, 16, 16, "", 16, None, silent, silent)
    for epoch, silent in zip(fix.EPOCHS, (4, 8, 11), strict=True)
)
RUN = Run("with 2 fresh workers under fork", HEARD, FINISHED)
SLOW = Run(
    "with 2 persistent workers that take each step slowly",
    (Heard(0, 8, 8, "", 8, None, 8, 8),),
    FINISHED,
)


def of(run: Run, **changed: Any) -> Run:
    """The run, of which the last epoch was otherwise."""
    return replace(run, heard=(*run.heard[:-1], replace(run.heard[-1], **changed)))


def told(*runs: Run, slow: Run = SLOW, unguarded: str = "") -> Result:
    return verdict(lambda: fix.judge(Evidence(runs, slow, unguarded)))


def test_stretches_heard_and_silence_counted_in_all_runs_are_correct() -> None:
    assert told(RUN, RUN).outcome is Outcome.CORRECT


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"form": "a list"}, "A sample is no longer a stretch of 32 numbers: a batch is a list."),
        ({"came": 12}, "12 of 16 stretches came."),
        ({"right": 3}, "13 of 16 stretches of epoch 1 are wrong. Which stretch"),
        ({"right": 0, "of_epoch": 0}, "Which memory do both sides see?"),
        ({"right": 0, "of_epoch": 2}, "Who counts the epochs"),
        ({"said": "NoneType"}, "`silent()` returned a NoneType"),
        ({"said": 9}, "11 silent stretches were drawn up to the end of epoch 1"),
    ],
)
def test_an_epoch_that_is_not_right_is_told(changed: dict[str, Any], text: str) -> None:
    assert text in told(RUN, of(RUN, **changed)).text


def test_a_count_that_stays_in_the_workers_is_told() -> None:
    heard = tuple(replace(each, said=0) for each in HEARD)
    result = told(replace(RUN, heard=heard, kept=" `lock` is a lock for threads."))
    assert result.text.endswith("Who changed which copy? `lock` is a lock for threads.")


def test_a_race_is_told_before_the_counts_that_it_spoils() -> None:
    assert "Counts get lost" in told(of(RUN, said=10), slow=of(SLOW, said=4)).text
    assert "`count[0]` is one number" in told(of(RUN, said=10), unguarded="count[0]").text


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            "RuntimeError: A SemLock created in a fork context is being shared with a process in a "
            "spawn context.",
            "belongs to fork",
        ),
        ("TypeError: cannot pickle '_thread.lock' object", "Which of them cannot travel?"),
    ],
)
def test_what_cannot_travel_is_told(message: str, text: str) -> None:
    end = Ending("raised", 40, kind=message.partition(":")[0], message=message, error=message)
    spawned = replace(RUN, where="with a persistent worker under spawn", heard=(), end=end)
    assert text in told(RUN, spawned).text
    assert "the global `EPOCH`" in told(RUN, replace(spawned, left_behind="EPOCH")).text


def test_a_run_that_dies_is_told_with_its_circumstances() -> None:
    died = replace(RUN, heard=(), end=Ending("worker died", 6, fates="W0 killed by SIGKILL"))
    assert told(died).text.startswith("With 2 fresh workers under fork, W0 killed by SIGKILL")


def transferred(numbers: dict[str, int], **changed: Any) -> Result:
    headlines = tuple(f"{a} {b} {a} {b}" for a, b in ("ab", "cd") for _ in range(4))
    order = [*range(8), *range(4, 8), *range(4)]
    rows = tuple(tuple(numbers[word] for word in headlines[at].split()) for at in order)
    run = transfer.Run(
        "with 2 fresh workers", headlines, 2, "", rows, tuple(numbers.items()), FINISHED
    )
    return verdict(lambda: transfer.judge((replace(run, **changed),)))


def test_words_with_numbers_of_their_own_are_correct() -> None:
    assert transferred({"a": 0, "b": 1, "c": 2, "d": 3}).outcome is Outcome.CORRECT


def test_words_without_numbers_of_their_own_are_told() -> None:
    numbers = {"a": 0, "b": 1, "c": 2, "d": 3}
    assert "2 words share the number 0: a, c" in transferred(numbers | {"c": 0}).text
    assert "has no row for some of them" in transferred(numbers | {"d": 9}).text
    assert "nobody can read the numbers back" in transferred(numbers, vocabulary=()).text
    assert "`vocabulary` is a DictProxy" in transferred(numbers, vocabulary="DictProxy").text
    assert "a batch is a list" in transferred(numbers, form="a list").text.lower()
    torn = ((0, 1, 0, 1),) * 4 + ((2, 3, 2, 3),) * 8 + ((5, 1, 5, 1),) * 4
    assert "`a` was 0 from W0 and 5 from W1" in transferred(numbers, rows=torn).text
