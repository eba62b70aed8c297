"""Check that `diagnose` rejects bad input in one sentence, and copes with odd loaders.

Odd loaders are empty, huge, or slow. In each case, `diagnose` must leave nothing behind, and some
tests also check that it keeps to its deadline.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from small_datasets import Numbers, load
from torch.utils.data import DataLoader, IterableDataset

from dltutor import diagnose
from dltutor.diagnosis import examination
from dltutor.diagnosis.errors import CannotRun
from dltutor.diagnosis.report import Diagnosis
from dltutor.tables import MB

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

SLACK = 4.0  # extra seconds after the deadline for a busy machine


class Slow(Numbers):
    """A dataset whose samples each take `pause` seconds."""

    def __init__(self, pause: float, length: int) -> None:
        super().__init__(length=length)
        self.pause = pause

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.pause)
        return super().__getitem__(index)


class Exhausted(IterableDataset[int]):
    """A stream with nothing left to read, as if it had been read to its end before."""

    def __init__(self) -> None:
        self.rows = iter(())

    def __iter__(self) -> Iterator[int]:
        return self.rows


class Lists:
    """An object that you can iterate, but that isn't a DataLoader and doesn't hold one."""

    def __iter__(self) -> Iterator[int]:
        return iter([1, 2, 3])


def rows(length: int = 32, **options: Any) -> Any:
    return load(Numbers(length=length), **options)


def why_not(diagnosis: Diagnosis, question: str) -> str:
    """Return why the doctor didn't answer the question that begins with `question`.

    If the doctor did answer that question, raise StopIteration.
    """
    return next(each.why for each in diagnosis.untried if each.question.startswith(question))


AS_IT_IS = "How does the loader run as it is?"


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        ([1, 2], r"takes a torch DataLoader, got list: \[1, 2\]"),  # test_observe.py has more
        (Lists(), "Lists has none in its attributes"),
    ],
)
def test_what_is_no_loader_is_told_as_what_it_is(thing: Any, said: str) -> None:
    with pytest.raises(TypeError, match=rf"^diagnose\(\) .*{said}"):
        diagnose(thing)


def raises() -> Any:
    raise FileNotFoundError("no /data/train.csv")


def dies() -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def exits() -> Any:
    os._exit(3)


def quits() -> Any:
    sys.exit("usage: train.py FOLDER")


def asks() -> Any:
    return rows(int(input("How many rows? ")))


def hangs() -> Any:
    lock = threading.Lock()
    with lock:
        lock.acquire()


def takes_all() -> Any:
    return [torch.ones(64 << 20) for _ in range(400)]


def needs(folder: str) -> Any:
    return folder


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: None, "the function didn't return a loader: diagnose.* takes a torch DataLoader"),
        (lambda: iter(rows()), "the function didn't return a loader: .* which runs once"),
        (raises, "making the loader raised FileNotFoundError: no /data/train.csv$"),
        (dies, "making the loader ended its process by SIGKILL$"),
        (exits, "making the loader ended its process with exit code 3$"),
        (quits, "making the loader raised SystemExit: usage: train.py FOLDER$"),
        (asks, "making the loader raised EOFError: input"),
        (needs, "making the loader raised TypeError: needs.* missing 1 required"),
        (takes_all, "making the loader was stopped, because it used more memory than"),
    ],
)
def test_a_function_that_makes_no_loader_is_told_in_one_sentence(
    make: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Pretend that no memory is free. Otherwise, `takes_all` could use half of the free memory.
    monkeypatch.setattr(examination, "free", lambda: 0)
    monkeypatch.setattr(examination, "MEMORY", 200 * MB)
    with pytest.raises(CannotRun, match=f"^{said}"):
        diagnose(make)


def test_a_function_that_hangs_is_left_at_the_deadline_and_it_is_said_where_it_was() -> None:
    began = time.monotonic()
    with pytest.raises(
        CannotRun, match=r"didn't finish within \d s: it was at .*in hangs: lock\.ac"
    ):
        diagnose(hangs, deadline=4)
    assert time.monotonic() - began < 4 + SLACK


@pytest.mark.parametrize(
    "loader",
    [rows(0, num_workers=0), DataLoader(Exhausted(), batch_size=4)],
    ids=["no rows", "exhausted stream"],
)
def test_a_loader_without_a_batch_is_told_to_be_empty(loader: Any) -> None:
    diagnosis = diagnose(loader)
    assert [each.name for each in diagnosis.findings] == ["no_batch"]
    assert not diagnosis.ok


@pytest.mark.thorough  # it's slow, and test_diagnose.py has a healthy loader of 16 samples
def test_one_sample_is_healthy() -> None:
    diagnosis = diagnose(rows(1))
    assert diagnosis.findings == () and AS_IT_IS in [each.question for each in diagnosis.tried]


@pytest.mark.thorough  # it takes up to 30 s
def test_ten_million_samples_in_any_order_are_healthy() -> None:
    began = time.monotonic()
    diagnosis = diagnose(rows(10_000_000, batch_size=64, shuffle=True))
    assert diagnosis.findings == () and AS_IT_IS in [each.question for each in diagnosis.tried]
    assert time.monotonic() - began < 30 + SLACK


@pytest.mark.thorough  # it takes 30 s
def test_samples_of_twenty_seconds_are_no_hang() -> None:
    began = time.monotonic()
    diagnosis = diagnose(load(Slow(20.0, length=32)))
    assert time.monotonic() - began < 30 + SLACK
    assert diagnosis.findings == ()
    assert "a longer deadline would tell" in why_not(diagnosis, AS_IT_IS)
    assert "in __getitem__: time.sleep" in why_not(diagnosis, "What are the samples like")


@pytest.mark.thorough  # it takes 16 s
def test_a_batch_that_takes_longer_than_there_is_time_is_told_with_its_time() -> None:
    diagnosis = diagnose(load(Slow(1.0, length=64), batch_size=32), deadline=16)
    assert diagnosis.findings == ()
    assert "a batch of 32 takes about 32 s" in why_not(diagnosis, AS_IT_IS)
