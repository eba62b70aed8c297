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
from cells import to_copy
from torch.utils.data import DataLoader, Subset

from dltutor.failures.tools.contract import load
from dltutor.lessons.engine.checking import check, verdict
from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.engine.outcomes import Outcome, Result
from dltutor.lessons.lesson_12 import fix, job, transfer
from dltutor.lessons.lesson_12.helpers import GENERATORS, generators, kept, torchrun
from dltutor.lessons.lesson_12.job import RECORDS, ByRankAndWorker, ByWorker, census, summary
from notebooks import NOTEBOOKS, read

NOTEBOOK = NOTEBOOKS / "12-silently-the-same.ipynb"
NOISE = np.random.default_rng(0).normal(size=(120, 4)).round(5).tolist()


def judged(noises: list[list[float]]) -> Result:
    """Return what the judge of "12.fix" says about an epoch with these noises."""
    came: dict[int, Any] = dict(enumerate(map(tuple, noises)))
    run = fix.Run(2, 1200, 3, Ending("finished", 8), ((0, came),))
    return verdict(lambda: fix.judge([run]))


def test_two_numbers_of_a_noise_may_be_almost_the_same() -> None:
    tied = [1.0, 1.0, 0.5, -0.5]
    assert judged([*NOISE[2:], tied, tied[::-1]]).outcome is Outcome.CORRECT


@pytest.mark.parametrize("plan", transfer.PLANS, ids=str)
def test_the_records_of_a_plan_are_all_different(plan: transfer.Plan) -> None:
    assert len({*transfer.records_of(plan)}) == plan.records


# Helpers that the notebook uses


def test_torch_seeds_three_generators_and_no_other() -> None:
    rows = generators().rows  # generators() asserts the other columns
    assert [row[0] for row in rows] == list(GENERATORS)


@pytest.mark.parametrize(
    ("stream", "shares"),
    [(ByWorker, [[33, 32], [33, 32]]), (ByRankAndWorker, [[17, 16], [16, 16]])],
)
def test_the_jobs_streams_share_as_the_lesson_says(
    stream: Callable[..., Any], shares: list[list[int]]
) -> None:
    seen = []
    for rank in range(2):
        batches = list(DataLoader(stream(job.read, rank, 2), 64, **_TWO))
        seen.append([len(batch) for batch in batches])
    assert seen == shares


_TWO: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "fork"}


def test_a_summary_counts_missing_and_repeated_records() -> None:
    came = Counter(range(RECORDS - 1)) + Counter([0])
    assert summary(came) == "1 missing, 63 arrived once, 1 arrived twice"


def test_a_census_counts_over_epochs() -> None:
    assert census([torch.tensor([1, 2]), torch.tensor([2])], epochs=2) == {1: 2, 2: 4}


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


# The fixes under On call


def on_call() -> dict[str, Any]:
    known: dict[str, Any] = {}
    exec(to_copy("on-call-code", read(NOTEBOOK))[0], known)
    return known


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
    defined, draws = on_call(), set[float]()
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
        reseed = partial(on_call()["reseed"], rank)
        dataset = OwnGenerator(np.random.default_rng(0))
        draws += census(load(dataset, 2, "fork", worker_init_fn=reseed), epochs=2)
    assert len(draws) == draws.total() == 256


def test_reseed_raises_if_the_generator_is_somewhere_else() -> None:
    behind: Any = Subset(OwnGenerator(None), range(8))
    loader = load(behind, 2, "fork", worker_init_fn=partial(on_call()["reseed"], 0))
    with pytest.raises(AttributeError, match="'Subset' object has no attribute 'rng'"):
        census(loader)


def test_the_stream_under_on_call_passes_the_lessons_own_check() -> None:
    class Stream(ByRankAndWorker):
        __iter__ = on_call()["__iter__"]

    assert check("12.transfer", Stream).outcome is Outcome.CORRECT
