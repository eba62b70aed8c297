"""Check the code in lesson 04's notebook, `SlowMotion`, and the judge of "04.fix"."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from answers.lesson_04 import CountInATensor, Fixed, WithoutItsLock, WithSlots
from cells import answer_in, source, to_copy
from torch.utils.data import DataLoader

from dltutor.lessons.engine.checking import verdict
from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.engine.outcomes import Outcome
from dltutor.lessons.lesson_04 import fix
from dltutor.lessons.lesson_04.helpers import CountedClips, stretches
from dltutor.lessons.lesson_04.runs import Plan, Run, SlowMotion
from dltutor.observation import observe
from notebooks import NOTEBOOKS, read

TWIN = NOTEBOOKS / "solutions" / "04-global-state.ipynb"
FINISHED = Ending("finished", 6)

# Code from the notebook


def test_the_twins_buffer_goes_wrong_with_a_worker_and_is_right_without() -> None:
    frames = answer_in(read(TWIN), "setup", "buffer")["Frames"]()
    came = [
        [int(frame[0]) for frame in DataLoader(frames, None, num_workers=n, **how)]
        for n, how in ((0, {}), (1, {"multiprocessing_context": "fork"}))
    ]
    assert came[0] == list(range(16)) != came[1]


def test_the_code_for_on_call_shows_persistent_workers_the_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [code] = to_copy("on-call", read(TWIN))
    imports = "import torch\nfrom torch.utils.data import DataLoader, Dataset\n"
    (tmp_path / "on_call_04.py").write_text(f"{imports}{source('clips', read(TWIN))}\n\n{code}")
    monkeypatch.syspath_prepend(tmp_path)  # for workers of the fork server, which import the file
    dataset = import_module("on_call_04").MyClips()
    for method in ("fork", "forkserver"):
        loader: DataLoader[Any] = DataLoader(
            dataset, 8, num_workers=2, multiprocessing_context=method, persistent_workers=True
        )
        for epoch in range(4):
            dataset.set_epoch(epoch)
            first, *_ = loader
            assert first[0, 0] == 32 * epoch


# `SlowMotion`, which makes a race certain


def test_slow_motion_says_that_it_waits_for_another_number_of_workers() -> None:
    slow = SlowMotion(2)
    loader: DataLoader[Any] = DataLoader(
        Fixed(torch.zeros(8, 400)),
        num_workers=1,
        multiprocessing_context="fork",
        worker_init_fn=slow,
    )
    seen = observe(loader, deadline=30)
    assert "SlowMotion(2) waits for 2 workers, not for 1" in str(seen)


@pytest.mark.parametrize(
    ("answer", "loses"),
    [(WithoutItsLock, True), (CountInATensor, True), (Fixed, False), (WithSlots, False)],
)
def test_slow_motion_loses_counts_without_a_lock_and_none_with_it(
    answer: type[CountedClips], loses: bool
) -> None:
    dataset = answer(torch.zeros(8, 400))
    loader: DataLoader[Any] = DataLoader(
        dataset, num_workers=4, multiprocessing_context="fork", worker_init_fn=SlowMotion(4)
    )
    assert observe(loader, deadline=30).end == "finished"
    assert (int(dataset.silent()) < len(dataset)) is loses


# What the judge finds in made-up evidence that no answer in tests/answers reliably produces


def right(plan: Plan) -> Run:
    """Return the Run that a right answer to "04.fix" would produce under a plan."""
    epochs, silent = [], 0
    for epoch, draw in plan.epochs:
        came = stretches(plan.given, epoch)[draw]
        silent += int((~came.any(dim=1)).sum())
        epochs.append(([came], silent))
    return Run(plan, len(plan.given), tuple(epochs), FINISHED)


FAST, *_, SPAWNED = map(right, fix.PLANS)
DIED = Ending("worker died", 6, fates="W0 killed by SIGKILL")


def test_an_epoch_with_too_few_stretches_is_found() -> None:
    *others, ([last], counted) = FAST.epochs
    run = replace(FAST, epochs=(*others, ([last[:15]], counted)))
    assert verdict(lambda: fix.GRADER.judge((run,))).code == "missing"


def test_what_goes_wrong_only_in_spawned_workers_is_told_with_what_they_get() -> None:
    result = verdict(lambda: fix.GRADER.judge((FAST, replace(SPAWNED, epochs=(), end=DIED))))
    assert (result.outcome, result.code) == (Outcome.NOT_YET, "spawned")
    assert result.fields["finding"] == "worker-died"
    text = replace(result, exercise="04.fix").text
    assert "W0 killed by SIGKILL" in text and len(text) > len(DIED.fates) + 100
