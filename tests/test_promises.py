"""A broken promise is a finding by itself, whether or not a failure mode explains it.

Each broken loader here breaks one promise in a way that the catalog has no name for. Nothing is
found on the healthy ones, which do the same things right. Below, the verdicts are read off recorded
evidence.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from recorded import PARTS
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, get_worker_info

from dltutor import Diagnosis, diagnose
from dltutor.diagnosis.difference import between
from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.measures import Measures
from dltutor.diagnosis.probes.fetched import Fetched
from dltutor.diagnosis.probes.memory import Memory
from dltutor.diagnosis.probes.samples import Samples
from dltutor.diagnosis.probes.shares import Shares as Shared
from dltutor.diagnosis.probes.travel import Travel
from dltutor.diagnosis.promises import broken
from dltutor.diagnosis.promises.verdicts import verdicts
from dltutor.diagnosis.reading import findings
from dltutor.diagnosis.running.pace import Paces

pytestmark = [pytest.mark.usefixtures("nothing_left_behind"), pytest.mark.timeout(170)]


def load(dataset: Any, **options: Any) -> DataLoader[Any]:
    settings: dict[str, Any] = {"batch_size": 4, "num_workers": 2} | options
    if settings["num_workers"]:
        settings.setdefault("multiprocessing_context", "fork")
    return DataLoader(dataset, **settings)


class Rows(Dataset[torch.Tensor]):
    """Rows of a table, each unlike the others."""

    def __init__(self, length: int = 64) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < self.length:
            raise IndexError(index)
        return torch.full((8,), float(index))


# Same


class Scaled(Rows):
    """Hands unknown attributes on to what is inside, or has a way of its own to fetch a batch."""

    def __init__(self, own: bool) -> None:
        super().__init__()
        self.inner = _Fetches()
        self.own = own

    def __getattr__(self, name: str) -> Any:
        if name in ("inner", "own") or (name == "__getitems__" and self.own):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index) / 7


class _Fetches(Rows):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


class Pairs(Rows):
    """Some have a second part."""

    def __init__(self, always: bool) -> None:
        super().__init__()
        self.always = always

    def __getitem__(self, index: int) -> dict[str, Any]:
        sample = {"left": super().__getitem__(index)}
        if self.always or index % 3:
            sample["right"] = -sample["left"]
        return sample


def by_the_first(samples: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        name: torch.stack([each[name] for each in samples if name in each]) for name in samples[0]
    }


class ByWorker(Rows):
    """Odd workers have another scale."""

    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        return super().__getitem__(index) * (2.0 if info and info.id else 1.0)


class Noisy(Scaled):
    """With noise."""

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index) + torch.rand(8)


# Complete


class Neighbor(Rows):
    """A row that can't be read is the next one, or an error."""

    def __init__(self, bad: tuple[int, ...]) -> None:
        super().__init__()
        self.bad = bad

    def __getitem__(self, index: int) -> Any:
        try:
            if index in self.bad:
                raise OSError(f"row {index} is truncated")
            return super().__getitem__(index)
        except OSError:
            return self[index + 1]


class Resumed(Sampler[list[int]]):
    """Batches without the first ones. Whether it is asked twice may matter."""

    def __init__(self, eager: bool) -> None:
        self.eager = eager
        self.skip = 4

    def __iter__(self) -> Iterator[list[int]]:
        return self._skipped() if self.eager else self._lazily()

    def _skipped(self) -> Iterator[list[int]]:
        batches = iter([list(range(at, at + 4)) for at in range(0, 64, 4)])
        for _ in range(self.skip):
            next(batches)
        self.skip = 0
        return batches

    def _lazily(self) -> Iterator[list[int]]:
        for at in range(4 * self.skip, 64, 4):
            yield list(range(at, at + 4))


class Shares(IterableDataset[torch.Tensor]):
    """A stream that is dealt out among the workers, once or twice."""

    def __init__(self, times: int) -> None:
        self.times = times

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        numbers = list(range(48))
        for _ in range(self.times if info else 0):
            numbers = numbers[info.id :: info.num_workers]
        return (torch.full((8,), float(each)) for each in numbers)


# Bounded, quick


class Opens(Rows):
    """Opens a file for each row, and forgets to close it."""

    kept: list[Any] = []  # noqa: RUF012 - shared by all, as in the wild

    def __getitem__(self, index: int) -> Any:
        self.kept.append(open(__file__))  # noqa: SIM115 - that is what's wrong
        return super().__getitem__(index)


class Archive(Rows):
    """Reads all of a large file for each row, or the row's part of it."""

    def __init__(self, path: Path, whole: bool) -> None:
        super().__init__(32)
        self.path, self.whole = path, whole
        if not path.exists():
            rows = np.arange(32 * 8192, dtype=np.float32).reshape(32, 8192)
            np.save(path, rows)

    def __getitem__(self, index: int) -> Any:
        if self.whole:
            return torch.from_numpy(np.load(self.path)[index][:64].copy())
        with self.path.open("rb") as file:
            file.seek(128 + index * 8192 * 4)
            return torch.from_numpy(np.frombuffer(file.read(256), np.float32).copy())


class InLine(Rows):
    """A worker pauses before each row, as it does where only one at a time may make one."""

    def __init__(self, pause: float) -> None:
        super().__init__(48)
        self.pause = pause

    def __getitem__(self, index: int) -> Any:
        if get_worker_info() is not None:
            time.sleep(self.pause)
        time.sleep(0.005)
        return super().__getitem__(index)


# A loop of one's own


class Endless(DataLoader[Any]):
    """One iterator for all epochs, which is ahead of the loop."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        object.__setattr__(self, "batch_sampler", _Again(self.batch_sampler))
        self.batches = super().__iter__()

    def __iter__(self) -> Any:
        return (next(self.batches) for _ in range(len(self)))

    def __len__(self) -> int:
        return len(self.batch_sampler)  # type: ignore[arg-type]


class _Again:
    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from self.sampler


class Epochs(Sampler[int]):
    """An order for each epoch."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        order = [*range(self.length)]
        random.Random(self.epoch).shuffle(order)
        return iter(order)


def train(loader: Any) -> None:
    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        for _ in loader:
            pass


def named(diagnosis: Diagnosis) -> list[str]:
    return [each.name for each in diagnosis.findings]


def states(diagnosis: Diagnosis) -> dict[str, str]:
    return {each.promise: each.state for each in diagnosis.promises}


BROKEN: dict[str, tuple[str, str, Callable[[Path], Any]]] = {
    "a batch is fetched past the wrapper": (
        "same",
        "_Fetches.__getitems__",
        lambda _: load(Scaled(own=False)),
    ),
    "the first sample decides on the fields": (
        "same",
        "by_the_first",
        lambda _: load(Pairs(always=False), collate_fn=by_the_first),
    ),
    "a worker has another scale": ("same", "test_promises.py", lambda _: load(ByWorker())),
    "a neighbor stands in": (
        "complete",
        "test_promises.py",
        lambda _: load(Neighbor((17, 40)), shuffle=True),
    ),
    "the sampler is asked twice": (
        "complete",
        "Resumed.__iter__",
        lambda _: load(Rows(), batch_size=1, batch_sampler=Resumed(eager=True)),
    ),
    "dealt out twice": ("complete", "test_promises.py", lambda _: load(Shares(times=2))),
    "files stay open": ("bounded", "test_promises.py", lambda _: load(Opens())),
    "the whole file for one row": (
        "quick",
        "test_promises.py",
        lambda folder: load(Archive(folder / "rows.npy", whole=True)),
    ),
}
AGAIN = ("the first sample decides on the fields", "a neighbor stands in")
"""Those that another one here stands for in the default tier: a visit takes 4 s."""

HEALTHY: dict[str, tuple[Callable[[Path], Any], Callable[[Any], None] | None]] = {
    "all fields, and batches without the first ones": (
        lambda _: load(
            Pairs(always=True),
            collate_fn=by_the_first,
            batch_size=1,
            batch_sampler=Resumed(eager=False),
        ),
        None,
    ),
    "an order for each epoch, and files that are closed": (
        lambda folder: load(
            Archive(folder / "rows.npy", whole=False), sampler=Epochs(32), persistent_workers=True
        ),
        train,
    ),
    "a stream that is dealt out": (lambda _: load(Shares(times=1)), None),
    "random samples, and its own way to fetch": (lambda _: load(Noisy(own=True)), None),
}


@pytest.mark.parametrize(
    "what",
    [pytest.param(each, marks=pytest.mark.thorough if each in AGAIN else ()) for each in BROKEN],
)
def test_a_broken_promise_is_found_without_a_name_for_its_cause(what: str, tmp_path: Path) -> None:
    promise, where, make = BROKEN[what]
    diagnosis = diagnose(make(tmp_path))
    assert named(diagnosis)[:1] == [promise], diagnosis
    assert where in diagnosis.findings[0].where and diagnosis.findings[0].certainty == "shown"
    assert not diagnosis.ok and states(diagnosis)[promise] == "broken"


@pytest.mark.parametrize("what", HEALTHY)
def test_a_healthy_loader_breaks_none(what: str, tmp_path: Path) -> None:
    make, loop = HEALTHY[what]
    diagnosis = diagnose(make(tmp_path), consume=loop)
    assert named(diagnosis) == [], diagnosis
    found = states(diagnosis)
    assert "broken" not in found.values()
    assert found["ends"] == found["complete"] == found["same"] == "kept", diagnosis


def test_an_order_that_was_dealt_before_the_epoch_was_told() -> None:
    loader = Endless(Rows(), batch_size=4, sampler=Epochs(64), num_workers=2)
    diagnosis = diagnose(loader, consume=train)
    assert named(diagnosis) == ["independent"], diagnosis


class Waits(Rows):
    """Its rows never come from a worker."""

    def __getitem__(self, index: int) -> Any:
        if get_worker_info() is not None:
            time.sleep(1000)
        return super().__getitem__(index)


def test_a_loader_that_waits_for_what_never_comes_is_no_nothing() -> None:
    diagnosis = diagnose(load(Waits()), deadline=12)
    assert named(diagnosis) == ["ends"], diagnosis
    assert "in __getitem__" in diagnosis.findings[0].where and not diagnosis.ok


@pytest.mark.thorough  # it is timed; the default tier has its figures, below
def test_workers_that_make_it_slower_are_told() -> None:
    diagnosis = diagnose(load(InLine(0.15), batch_size=2))
    assert named(diagnosis) == ["quick"], diagnosis
    assert named(diagnose(load(InLine(0.0), batch_size=2))) == []


# On recorded evidence

RUN = Measures("finished", batches=4, passes=(("a", "b"),), drawn=(("1", "2", "3"),), counted=(3,))
RUN = replace(RUN, finished=(True,), pace=0.01)
PLAIN = Samples(looked=3, typical=0.001, bytes=100)


GROWS = Memory(late_as_it_is=90.0, late_collected=88.0, late_returned=91.0, samples=40)


def ill(run: Measures = RUN, **found: Any) -> Evidence:
    return Evidence(PARTS, run, **{"alone": RUN, "samples": PLAIN} | found)


def promises(evidence: Evidence) -> list[str]:
    return [each.promise for each in broken(evidence, ())]


def drew(*samples: str, **others: Any) -> Measures:
    return replace(RUN, drawn=(samples,), counted=(len(samples),), **others)


@pytest.mark.parametrize(
    ("run", "promise"),
    [
        (drew("1", "2"), "complete"),
        (drew("1", "2", "3", "3"), "complete"),
        (drew("1", "2", "4"), "same"),
        (drew("3", "2", "1"), None),
        (drew("1", "2", finished=(False,)), None),
    ],
)
def test_which_promise_a_difference_breaks(run: Measures, promise: str | None) -> None:
    assert promises(ill(run)) == ([promise] if promise else [])


def test_what_is_random_without_workers_is_not_compared() -> None:
    differs = ill(drew("1", "2", "4"), samples=replace(PLAIN, random=3))
    assert promises(differs) == []
    assert promises(replace(differs, reseeded=RUN)) == ["same"]
    assert promises(replace(differs, reseeded=drew("5", "6", "7"))) == []


def test_batches_are_compared_where_they_cannot_be_taken_apart() -> None:
    whole = replace(RUN, drawn=((),))
    assert (found := between(whole, replace(whole, passes=(("a", "c"),)))) is not None
    assert (found.unit, found.more, found.missing) == ("batches", 1, 1)


@pytest.mark.parametrize(
    ("found", "near"),
    [
        (
            {"samples": replace(PLAIN, read=30 * 2**20, of_files=2**20)},
            {"samples": replace(PLAIN, read=2 * 2**20, of_files=2**20)},
        ),
        (
            {"memory": GROWS},
            {"memory": replace(GROWS, late_collected=3.0)},
        ),
        (
            {"workerless": Paces((2.0, 2.0, 2.0), (1.0, 1.0, 1.0))},
            {"workerless": Paces((2.0, 1.0, 2.0), (1.0, 1.0, 1.0))},
        ),
    ],
)
def test_a_figure_and_one_that_is_near(found: dict[str, Any], near: dict[str, Any]) -> None:
    assert len(promises(ill(**found))) == 1
    assert promises(ill(**near)) == []


STREAM = replace(PARTS, stream=True, batches=None, length=None)
STAYS = replace(PARTS, persistent=True, loop=True)


def epochs(*passes: str) -> Measures:
    """A run of several epochs; each letter is a sample, and a batch."""
    each = tuple(map(tuple, passes))
    return replace(
        RUN, passes=each, drawn=each, counted=tuple(map(len, each)), finished=(True,) * len(each)
    )


@pytest.mark.parametrize(
    ("found", "near", "promise"),
    [
        (
            Evidence(PARTS, RUN, samples=replace(PLAIN, dealt=((8, 8), (8, 9)))),
            Evidence(PARTS, RUN, samples=replace(PLAIN, dealt=((8, 8), (5, 5)))),
            "complete",
        ),
        (
            Evidence(STREAM, epochs("abcdefgh", "abcdefgi")),
            Evidence(STREAM, epochs("abcdefgh", "ijklmnop")),
            "complete",
        ),
        (
            Evidence(STAYS, epochs("abcd", "abcd"), alone=epochs("abcd", "dcba")),
            Evidence(STAYS, epochs("abcd", "abcd"), alone=epochs("abcd", "abcd")),
            "same",
        ),
        (
            Evidence(PARTS, replace(RUN, batches=100, files=99)),
            Evidence(PARTS, replace(RUN, batches=1000, files=99)),
            "bounded",
        ),
        (
            Evidence(STREAM, RUN, shares=Shared(shares=(40, 0))),
            Evidence(STREAM, RUN, shares=Shared(shares=(40, 2))),
            "quick",
        ),
        (
            Evidence(PARTS, RUN, samples=replace(PLAIN, dealing=4.0)),
            Evidence(PARTS, RUN, samples=replace(PLAIN, dealing=4.0, typical=1.0)),
            "quick",
        ),
        (
            ill(epochs("abcd", "efgh"), alone=epochs("abcd", "ijkl"), fetched=Fetched()),
            ill(epochs("abcd", "efgh"), alone=epochs("abcd", "hgfe"), fetched=Fetched()),
            "same",
        ),
    ],
    ids=[
        "the sampler counts differently",
        "an epoch leaves some out",
        "workers that stay learn nothing",
        "main keeps descriptors",
        "a worker is idle",
        "the sampler works long",
        "the second epoch differs",
    ],
)
def test_what_breaks_a_promise_and_what_is_near(
    found: Evidence, near: Evidence, promise: str
) -> None:
    assert promises(found) == [promise]
    assert promises(near) == []


def test_beginnings_are_compared_only_where_the_order_is_the_same() -> None:
    begun = replace(RUN, end="enough", finished=(False,))
    differs = ill(begun, alone=replace(begun, drawn=(("1", "2", "4"),)))
    assert promises(differs) == []
    assert promises(replace(differs, fetched=Fetched())) == ["same"]
    assert promises(replace(differs, fetched=Fetched(dealt_once=True))) == []


def test_a_large_pickle_is_told_where_workers_get_one() -> None:
    heavy = ill(travel=Travel(bytes=10**7, seconds=3.0))
    assert promises(heavy) == []
    assert promises(replace(heavy, parts=replace(PARTS, method="spawn"))) == ["quick"]


def test_words_that_are_known_are_used() -> None:
    words = "Terminating: fork() called from a process already using GNU OpenMP, this is unsafe."
    died = ill(Measures("worker died", said=words, codes=(-6, None)), alone=RUN)
    [finding] = findings(died)
    assert (finding.name, finding.certainty) == ("openmp_after_fork", "likely")


def test_what_was_not_tested_is_never_kept() -> None:
    nothing = verdicts(Evidence(PARTS, Measures("not run")), (), ("no time was left",))
    assert {each.state for each in nothing} == {"not tested"}
    assert [each.said for each in nothing if each.promise == "ends"] == ["no time was left"]
