"""Check lesson 12's judge on made-up evidence, its helpers, and the fixes in its notebook."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest
import torch
from cells import run_copied
from torch.utils.data import Subset

from dltutor.failures.tools.contract import load
from dltutor.lessons.engine.checking import verdict
from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.engine.outcomes import Outcome
from dltutor.lessons.lesson_12 import fix, job, transfer
from dltutor.lessons.lesson_12.helpers import kept, torchrun
from dltutor.lessons.lesson_12.job import census

NOISE = np.random.default_rng(0).normal(size=(120, 4)).round(5).tolist()


def test_two_numbers_of_a_noise_may_be_almost_the_same() -> None:
    tied = [1.0, 1.0, 0.5, -0.5]
    came: dict[int, Any] = dict(enumerate(map(tuple, [*NOISE[2:], tied, tied[::-1]])))
    run = fix.Run(2, 1200, 3, Ending("finished", 8), ((0, came),))
    assert verdict(lambda: fix.judge([run])).outcome is Outcome.CORRECT


@pytest.mark.parametrize("plan", transfer.PLANS, ids=str)
def test_the_records_of_a_plan_are_all_different(plan: transfer.Plan) -> None:
    assert len({*transfer.records_of(plan)}) == plan.records


# Helpers that the notebook uses


PRINTED = f"""W1 run.py] ****
ByWorker: 0 missing, 65 arrived twice
  steps of the ranks: [9, 9]
rank 0 waited 5 s in all_reduce, step 5, and gave up
[rank1]: RuntimeError: [/x/gloo.cc:1] Connection closed by peer [127.0.0.1]:1
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
{job.__file__} FAILED
  rank      : 1 (local_rank: 1)
  exitcode  : -15 (pid: 12)  (SIGTERM)
Root Cause (first observed failure):
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 11)
"""


def test_of_what_torchrun_prints_the_lines_are_kept_that_are_the_same_in_every_run() -> None:
    assert kept(PRINTED) == [
        "ByWorker: 0 missing, 65 arrived twice",
        "  steps of the ranks: [9, 9]",
        "rank 0 waited 5 s in all_reduce, step 5, and gave up",
        "job.py FAILED",
        "  rank      : 0",
        "  exitcode  : 1",
    ]


def test_the_exception_is_kept_of_the_rank_that_failed_first() -> None:
    printed = PRINTED.replace("rank      : 0", "rank      : 1")
    assert "[rank1]: RuntimeError: [/x/gloo.cc:1] Connection closed" in "".join(kept(printed))


def test_a_job_that_takes_too_long_is_ended(
    capsys: pytest.CaptureFixture[str], nothing_left_behind: Callable[..., None]
) -> None:
    torchrun(deadline=0.3)
    assert "Stopped after 0.3 s." in capsys.readouterr().out


# The function `reseed`, which learners copy from `On call`


def reseeding() -> dict[str, Any]:
    """Return the globals of the code to copy, which defines `reseed`."""
    return run_copied("12", "on-call-code")


class OwnGenerator(torch.utils.data.Dataset[float]):
    """A dataset that draws every sample from the one generator that it keeps in `rng`."""

    def __init__(self, rng: Any) -> None:
        self.rng = rng

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> float:
        if isinstance(self.rng, torch.Generator):
            return float(torch.rand((), generator=self.rng, dtype=torch.float64))
        return float(self.rng.random())


@pytest.mark.parametrize(
    "rng",
    [
        np.random.default_rng(0),
        np.random.Generator(np.random.Philox(0)),
        np.random.RandomState(0),
        random.Random(0),
        torch.Generator(),
    ],
    ids=lambda rng: type(rng).__name__,
)
def test_reseed_makes_any_generator_differ_for_each_seed_of_a_worker_and_rank(rng: Any) -> None:
    defined, draws = reseeding(), set[float]()
    for seed, rank in product((5, 6, 905, 906), range(2)):
        info = Mock(dataset=OwnGenerator(rng), seed=seed)
        with patch.dict(defined, get_worker_info=lambda info=info: info):
            defined["reseed"](rank, worker_id=0)
        draws.update(info.dataset[index] for index in range(8))
    assert len(draws) == 8 * 8


def test_reseed_makes_workers_and_epochs_and_ranks_differ() -> None:
    draws = Counter[Any]()
    for rank in range(2):
        torch.manual_seed(0)
        reseed = partial(reseeding()["reseed"], rank)
        dataset = OwnGenerator(np.random.default_rng(0))
        draws += census(load(dataset, 2, "fork", worker_init_fn=reseed), epochs=2)
    assert len(draws) == draws.total() == 256


def test_reseed_raises_if_the_generator_is_somewhere_else() -> None:
    behind: Any = Subset(OwnGenerator(None), range(8))
    loader = load(behind, 2, "fork", worker_init_fn=partial(reseeding()["reseed"], 0))
    with pytest.raises(AttributeError, match="'Subset' object has no attribute 'rng'"):
        census(loader)
