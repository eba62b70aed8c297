"""Lesson 12: what its judges say of recorded evidence, and what its notebook shows and gives."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from answers.lesson_12 import RIGHT_ANSWERS
from cells import answer_in, source
from torch.utils.data import DataLoader, IterableDataset, Subset, get_worker_info

from dltutor.failures.kit.contract import load
from dltutor.lessons.engine.checking import check, verdict
from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.engine.outcomes import Outcome, Result
from dltutor.lessons.lesson_12 import fix, job, transfer
from dltutor.lessons.lesson_12.job import RECORDS, ByRankAndWorker, ByWorker, census, summary
from dltutor.lessons.lesson_12.material import GENERATORS, generators, kept, torchrun, warnings_of
from notebooks import NOTEBOOKS, read

NOTEBOOK = NOTEBOOKS / "12-silently-the-same.ipynb"
FINISHED = Ending("finished", 8)
HUNG = Ending("hung", 8, stood="W0 was at a.py, line 3.")


# 12.fix


def noise(seed: int, epoch: int) -> dict[int, Any]:
    rng = np.random.default_rng((seed, epoch))
    return dict(enumerate(map(tuple, rng.normal(size=(120, 4)).round(5).tolist())))


GOOD = tuple(
    fix.Run(workers, 1200, seed, FINISHED, tuple((epoch, noise(seed, epoch)) for epoch in epochs))
    for workers, seed, epochs in ((2, 3, (0, 1, 0)), (0, 3, (1, 100)), (4, 3, (0, 100)))
)


TIED = (1.0, 1.0, 0.5, -0.5)


def told_of_fix(place: int = 0, **differs: Any) -> Result:
    runs = [replace(each, **differs) if i == place else each for i, each in enumerate(GOOD)]
    return verdict(lambda: fix.judge(runs))


def test_one_noise_for_each_seed_epoch_and_index_is_correct() -> None:
    result = told_of_fix()
    assert result.outcome is Outcome.CORRECT
    assert result.text.startswith("360 noises, one for each seed, epoch and index")


def one_more(**differs: Any) -> tuple[tuple[int, dict[int, Any]], ...]:
    # Epoch 0, where some samples are others.
    return ((0, {**noise(3, 0), **{int(name[1:]): each for name, each in differs.items()}}),)


@pytest.mark.parametrize(
    ("differs", "told"),
    [
        ({"end": HUNG}, "With 2 workers under fork, the run did not end within 8 s. W0 was at"),
        ({"epochs": one_more(i5=noise(3, 0)[6])}, "1 of 120 noises of epoch 0 had come before"),
        ({"epochs": ((0, noise(3, 0)), (1, noise(3, 0)))}, "Who reads the epoch"),
        (
            {"epochs": ((0, noise(3, 0)), (0, noise(3, 5)))},
            "with 2 workers under fork, asked twice",
        ),
        (
            {"epochs": ((0, noise(9, 0)),), "place": 2},
            "fork (1200 signals), and with 4 workers under fork (1200",
        ),
        ({"epochs": one_more(i5="a `tuple`")}, "sample 5 is a `tuple`"),
        (
            {"epochs": one_more(i5=TIED, i6=TIED[::-1], i7=(2.0,) * 4)},
            "four numbers of their",
        ),
        ({"epochs": ((0, {}),)}, "0 of 120 samples came in epoch 0"),
        ({"moved": ("torch",), "place": 1}, "Without workers, your class sets or draws from the"),
        ({"moved": ("random", "torch")}, "the global generator of `random` and of `torch`"),
        ({"changed": True}, "the signals that the class was given were changed"),
    ],
)
def test_what_is_wrong_with_noise_is_told(differs: dict[str, Any], told: str) -> None:
    result = told_of_fix(**differs)
    assert result.outcome in (Outcome.NOT_YET, Outcome.ERROR)
    assert told in result.text


def test_two_numbers_of_a_noise_may_be_almost_the_same() -> None:
    runs = [replace(GOOD[0], epochs=one_more(i5=TIED, i6=TIED[::-1]))]
    assert verdict(lambda: fix.judge(runs)).outcome is Outcome.CORRECT


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda x: x + 1, "a mean of 1.0"),
        (lambda x: x * 2, "a standard deviation of 2.0"),
        (lambda x: x**3 / 15**0.5, "a kurtosis of"),
    ],
)
def test_noise_that_is_not_standard_normal_is_told(
    change: Callable[[float], float], told: str
) -> None:
    changed = {index: tuple(map(change, each)) for index, each in noise(3, 0).items()}
    result = verdict(lambda: fix.judge([replace(GOOD[0], epochs=((0, changed),))]))
    assert told in result.text


# 12.transfer


PLAN = transfer.Plan(2, 2, 9)


def shared(*ranks: list[int], plan: transfer.Plan = PLAN, batch: int = 4) -> transfer.Run:
    # Records by their number; W0 and W1 give them by turns.
    records = transfer.records_of(plan)
    rows = [[(place % 2, str(records[n])) for place, n in enumerate(rank)] for rank in ranks]
    batches = [tuple(tuple(row[i : i + batch]) for i in range(0, len(row), batch)) for row in rows]
    return transfer.Run(plan, tuple(transfer.Rank(FINISHED, (each,)) for each in batches))


def told_of_transfer(run: transfer.Run) -> Result:
    return verdict(lambda: transfer.judge([run]))


def test_records_that_are_shared_evenly_are_correct() -> None:
    assert told_of_transfer(shared([0, 2, 4, 6], [1, 3, 5, 7])).outcome is Outcome.CORRECT


EPOCH_1 = transfer.Run(
    replace(PLAN, epochs=2),
    tuple(
        replace(rank, epochs=(*rank.epochs, ()))
        for rank in shared([0, 2, 4, 6], [1, 3, 5, 7]).ranks
    ),
)


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (shared([0, 1], [1, 2]), "record 9037 from W1 of rank 0 and W0 of rank 1. How"),
        (shared([0, 2, 4, 6, 8], [1, 3, 5, 7]), "get 5 and 4 records. 4 each would be equal"),
        (shared([0, 2, 4], [1, 3, 5]), "with 1 left out. Equal, but too few: which"),
        (EPOCH_1, "in epoch 1, the ranks get 0 and 0 records. 4 each would be equal, with 1 left"),
        (EPOCH_1, "Epoch 0 was right."),
        (
            transfer.Run(PLAN, (transfer.Rank(replace(HUNG)),)),
            "With 2 ranks, 2 workers each, and 9 records, on rank 0, the run did not end",
        ),
        (
            transfer.Run(
                PLAN, (transfer.Rank(FINISHED, ((((0, "x"),),),)), transfer.Rank(FINISHED, ((),)))
            ),
            "`x` came, which is no record",
        ),
    ],
)
def test_what_is_wrong_with_shares_is_told(run: transfer.Run, told: str) -> None:
    result = told_of_transfer(run)
    assert result.outcome is Outcome.NOT_YET
    assert told in result.text


def test_unequal_batches_and_an_idle_worker_are_told() -> None:
    even, odd = [0, 2, 4, 6], [1, 3, 5, 7]
    one, other = shared(even, odd).ranks[0], shared(even, odd, batch=2).ranks[1]
    text = told_of_transfer(transfer.Run(PLAN, (one, other))).text
    assert "in 1 and 2 batches" in text
    plan = transfer.Plan(1, 4, 30)
    assert "W2 of rank 0 gives none" in told_of_transfer(shared([*range(30)], plan=plan)).text


@pytest.mark.parametrize("plan", transfer.PLANS, ids=str)
def test_the_records_of_a_plan_are_all_different(plan: transfer.Plan) -> None:
    assert len({*transfer.records_of(plan)}) == plan.records


# What the notebook shows


def test_torch_seeds_three_generators_and_no_other() -> None:
    rows = generators().rows  # it asserts what they must be
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
    assert summary(came) == "1 missing, 63 came 1x, 1 came 2x"


def test_a_census_counts_over_epochs() -> None:
    assert census([torch.tensor([1, 2]), torch.tensor([2])], epochs=2) == {1: 2, 2: 4}


def test_the_warning_is_counted() -> None:
    class Twice(IterableDataset[int]):
        def __len__(self) -> int:
            return 4

        def __iter__(self) -> Iterator[int]:
            return iter(range(8))

    assert warnings_of(load(Twice(), 0, "fork", batch_size=1)) == (8, 4)


PRINTED = f"""W1 run.py] ****
ByWorker: 0 missing, 65 came 2x
  steps of the ranks: [9, 9]
rank 0 waited in vain in all_reduce, step 5
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
        "ByWorker: 0 missing, 65 came 2x",
        "  steps of the ranks: [9, 9]",
        "rank 0 waited in vain in all_reduce, step 5",
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
    torchrun(deadline=1.5)
    assert "It was ended after 1.5 s." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("exercise", "cell"), [("12.fix", "my-signals"), ("12.transfer", "my-stream")]
)
def test_the_starter_of_the_notebook_is_not_attempted(exercise: str, cell: str) -> None:
    known = {"np": np, "torch": torch, "IterableDataset": IterableDataset}
    defined = answer_in(read(NOTEBOOK), cell, get_worker_info=get_worker_info, **known)
    answer = defined["MySignals" if exercise == "12.fix" else "MyStream"]
    assert check(exercise, answer).outcome is Outcome.NOT_ATTEMPTED


# The fixes of the first screen


def first_screen(*, equal: bool = False) -> dict[str, Any]:
    code = source("card", read(NOTEBOOK)).partition("```python\n")[2].partition("```")[0]
    if equal:  # the last line in place of the one before
        before, _, last = code.rstrip().rpartition("    # return ")
        code = f"{before.rstrip().rpartition(chr(10))[0]}\n    return {last}"
    known: dict[str, Any] = {"np": np, "torch": torch}
    exec(code, known)
    return known


class OwnGenerator(torch.utils.data.Dataset[float]):
    def __init__(self, rng: Any, draw: Callable[[Any], Any]) -> None:
        self.rng, self.draw = rng, draw

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> float:
        return float(self.draw(self.rng))


OWN: dict[str, Callable[[], OwnGenerator]] = {
    "default_rng": lambda: OwnGenerator(np.random.default_rng(0), lambda rng: rng.normal()),
    "Philox": lambda: OwnGenerator(
        np.random.Generator(np.random.Philox(0)), lambda rng: rng.normal()
    ),
    "RandomState": lambda: OwnGenerator(np.random.RandomState(0), lambda rng: rng.normal()),
    "random.Random": lambda: OwnGenerator(random.Random(0), lambda rng: rng.gauss(0, 1)),
    "torch.Generator": lambda: OwnGenerator(
        torch.Generator(), lambda rng: torch.rand((), generator=rng, dtype=torch.float64)
    ),
}


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("kind", OWN)
def test_reseed_makes_workers_and_epochs_and_ranks_differ(
    kind: str, persistent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    came = Counter[Any]()
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        torch.manual_seed(0)
        options = {"worker_init_fn": first_screen()["reseed"], "persistent_workers": persistent}
        came += census(load(OWN[kind](), 2, "fork", **options), epochs=2)
    assert len(came) == came.total() == 256


def test_reseed_in_a_wrong_place_raises() -> None:
    behind: Any = Subset(OWN["default_rng"](), range(8))
    loader = load(behind, 2, "fork", worker_init_fn=first_screen()["reseed"])
    with pytest.raises(AttributeError, match="'Subset' object has no attribute 'rng'"):
        census(loader)


@pytest.mark.parametrize(("ranks", "workers"), [(2, 0), (2, 2), (3, 4), (1, 2)])
def test_the_last_line_of_the_first_screen_gives_ranks_equal_shares(
    ranks: int, workers: int
) -> None:
    class Stream(ByRankAndWorker):
        __iter__ = first_screen(equal=True)["__iter__"]

    steps, came = [], Counter[Any]()
    for rank in range(ranks):
        loader = load(Stream(job.read, rank, ranks), workers, "fork", batch_size=4)
        steps.append(len(list(loader)))
        came += census(loader)
    shares = ranks * max(workers, 1)
    assert len({*steps}) == 1
    assert came == Counter(range(RECORDS // shares * shares))


@pytest.mark.parametrize("workers", [0, 2, 4])
def test_the_stream_of_the_first_screen_gives_each_record_once(workers: int) -> None:
    class Stream(ByRankAndWorker):
        __iter__ = first_screen()["__iter__"]

    shares = [census(load(Stream(job.read, rank, 3), workers, "fork")) for rank in range(3)]
    assert sum(shares, Counter()) == Counter(range(RECORDS))
    assert sorted(share.total() for share in shares) == [21, 22, 22]


def test_right_answers_are_many() -> None:
    assert all(len(RIGHT_ANSWERS[f"12.{name}"]) >= 8 for name in ("fix", "transfer"))
