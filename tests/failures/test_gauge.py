"""Test whose memory a `Gauge` counts, and that `growth` ignores what a worker needs to start."""

from __future__ import annotations

import functools
import mmap
import multiprocessing
from collections.abc import Callable
from multiprocessing.synchronize import Event

import pytest
import torch
from small_datasets import Numbers, load
from torch.utils.data import get_worker_info

from dltutor.failures.tools.gauge import Gauge, growth, no_proc
from dltutor.tables import MB

pytestmark = pytest.mark.skipif(no_proc() is not None, reason=str(no_proc()))


class Hoard(Numbers):
    """A dataset that keeps 50 MB in each worker, from the worker's first sample on."""

    hoard = b""

    def __getitem__(self, index: int) -> torch.Tensor:
        self.hoard = self.hoard or bytes(range(256)) * 204_800
        return super().__getitem__(index)


class Scratch(Numbers):
    """A dataset that needs 48 MB to make a sample, and frees this memory before it returns."""

    def __getitem__(self, index: int) -> torch.Tensor:
        with mmap.mmap(-1, 50_000_000) as scratch:
            for page in range(0, len(scratch), mmap.PAGESIZE):
                scratch[page] = 1
        return super().__getitem__(index)


@pytest.mark.parametrize(
    "start_method", ["fork", pytest.param("spawn", marks=pytest.mark.thorough), "forkserver"]
)
def test_what_workers_keep_is_read_under_every_start_method(
    start_method: str, nothing_left_behind: Callable[..., None]
) -> None:
    most = {}
    for dataset in (Numbers(), Hoard()):
        gauge = Gauge()
        most[type(dataset)] = max(gauge.private() for _ in load(dataset, start_method))
    assert most[Hoard] - most[Numbers] == pytest.approx(50, abs=20)


def test_a_worker_is_read_between_batches_and_not_within_one() -> None:
    assert growth(load(Scratch())) < 3


def test_workers_that_were_there_before_are_not_counted() -> None:
    earlier = iter(load(Hoard(), persistent_workers=True))
    next(earlier)
    gauge = Gauge()
    later = iter(load(Numbers(), num_workers=1))
    assert len(gauge.each()) == 1
    del earlier, later


def test_without_workers_main_is_read() -> None:
    gauge = Gauge()
    before = gauge.private()
    kept = mmap.mmap(-1, 10_000_000)  # not from the heap, which may have free memory
    for page in range(0, len(kept), mmap.PAGESIZE):
        kept[page] = 1
    assert gauge.private() - before == pytest.approx(len(kept) / MB, abs=2)


def test_batches_on_their_way_and_batches_kept_are_counted_once() -> None:
    gauge = Gauge()
    kept = list(load(torch.zeros(8, MB, dtype=torch.uint8)))
    assert gauge.shared() == pytest.approx(8, rel=0.01)
    assert Gauge().shared() == 0, "what is kept already is another's"
    kept.clear()
    assert gauge.shared() == 0


def test_what_a_worker_takes_to_start_is_no_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    # W1 waits until main has read the memory after the first batch, which W0 made. Then W1 takes
    # 50 MB before its first sample, which `growth` could mistake for growth.
    first_was_read = multiprocessing.get_context("fork").Event()
    read = Gauge.private

    def read_and_tell(gauge: Gauge) -> float:
        size = read(gauge)
        first_was_read.set()
        return size

    monkeypatch.setattr(Gauge, "private", read_and_tell)
    late = functools.partial(_start_late, first_was_read)
    assert growth(load(Numbers(), worker_init_fn=late)) < 10
    assert growth(load(Hoard(), num_workers=1)) < 10, "kept from the first sample on"


def _start_late(first_was_read: Event, worker: int) -> None:
    if worker == 1:
        assert first_was_read.wait(20)
        get_worker_info().dataset.hoard = bytes(range(256)) * 204_800
