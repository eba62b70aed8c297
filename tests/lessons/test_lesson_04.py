"""Check lesson 04's tables and code, `SlowMotion`, and the judge of "04.fix"."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from answers.lesson_04 import (
    CountInATensor,
    Fixed,
    WithoutItsLock,
    WithSlots,
)
from cells import answer_in, source, to_copy
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from dltutor.lessons.engine.checking import verdict
from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.engine.outcomes import Outcome
from dltutor.lessons.lesson_04 import fix
from dltutor.lessons.lesson_04.helpers import (
    CountedClips,
    ask_every_process,
    side_by_side,
    stretches,
)
from dltutor.lessons.lesson_04.runs import Plan, Run, SlowMotion
from dltutor.observation import observe
from notebooks import NOTEBOOKS, read

TWIN = NOTEBOOKS / "solutions" / "04-global-state.ipynb"
FINISHED = Ending("finished", 6)

# Tables from the notebook. The table of `what_arrives` has no test here, because it takes spawned
# workers. Only the run of the solved notebook tests it.


def test_each_process_counts_for_itself_from_what_main_had_when_it_started() -> None:
    counts = {(kind, who): row for kind, who, *row in ask_every_process(main_sets=100).rows}
    assert counts == {
        ("fresh", "main"): ["0", "100", "100"],
        ("fresh", "W0"): ["4", "104", "104"],
        ("fresh", "W1"): ["4", "104", "104"],
        ("persistent", "main"): ["0", "100", "100"],
        ("persistent", "W0"): ["4", "8", "12"],
        ("persistent", "W1"): ["4", "8", "12"],
    }


def test_the_broken_class_is_shown_next_to_the_fixed_one() -> None:
    rows = side_by_side(CountedClips, Fixed).rows
    right = "16 of 16 right, silent() says"
    assert [row[3] for row in rows] == [f"{right} {count}" for count in (4, 7, 10)]
    assert [row[2] for row in rows[1:]] == ["0 of 16 right, silent() says 0"] * 2


# Code and claims from the notebook


class Cached(Dataset[torch.Tensor]):
    def __init__(self) -> None:
        self.cache: dict[int, torch.Tensor] = {}

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.cache.setdefault(index, torch.ones(1))


@pytest.mark.parametrize(("batch_size", "came"), [(1, [1, 1, 1]), (None, [1, 10, 100])])
def test_main_changes_the_cache_of_a_worker_where_nothing_was_stacked(
    batch_size: int | None, came: list[int]
) -> None:
    seen: list[int] = []

    def train(loader: DataLoader[torch.Tensor]) -> None:
        for sample in loader:
            seen.append(int(sample))
            sample.mul_(10)

    loader = DataLoader(
        Cached(), batch_size, num_workers=1, persistent_workers=True, multiprocessing_context="fork"
    )
    assert observe(loader, consume=train, epochs=3).end == "finished"
    assert seen == came


def test_a_distributed_samplers_epoch_reaches_persistent_workers() -> None:
    sampler: DistributedSampler[Any] = DistributedSampler(range(32), num_replicas=2, rank=0)  # type: ignore[arg-type]
    loader: DataLoader[Any] = DataLoader(
        range(32),  # type: ignore[arg-type]
        sampler=sampler,
        num_workers=2,
        persistent_workers=True,
        multiprocessing_context="fork",
    )
    orders = []
    for epoch in (0, 1, 0):
        sampler.set_epoch(epoch)
        orders.append([int(each) for each in loader])
    assert orders[0] == orders[2] != orders[1]


def test_the_twins_buffer_goes_wrong_with_a_worker_and_is_right_without() -> None:
    frames = answer_in(read(TWIN), "setup", "buffer")["Frames"]()
    came = [
        [int(frame[0]) for frame in DataLoader(frames, None, num_workers=n, **how)]
        for n, how in ((0, {}), (1, {"multiprocessing_context": "fork"}))
    ]
    assert came[0] == list(range(16)) != came[1]


_FOUR_EPOCHS = """

def starts(method):
    loader = DataLoader(
        dataset, 8, num_workers=2, multiprocessing_context=method, persistent_workers=True
    )
    for epoch in range(4):
        dataset.set_epoch(epoch)
        first, *_ = loader
        yield int(first[0, 0])


if __name__ == "__main__":
    dataset = MyClips()
    print([list(starts(method)) for method in ("fork", "forkserver")])
"""


def test_the_code_for_on_call_shows_persistent_workers_the_epoch(tmp_path: Path) -> None:
    clips = source("clips", read(TWIN))
    [code] = to_copy("on-call", read(TWIN))
    job = tmp_path / "job.py"
    imports = "import torch\nfrom torch.utils.data import DataLoader, Dataset\n"
    job.write_text(imports + clips + "\n\n" + code + _FOUR_EPOCHS)
    run = subprocess.run([sys.executable, job], capture_output=True, text=True)
    assert run.stdout == f"{[[0, 32, 64, 96]] * 2}\n", run.stderr


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
