"""Check how much memory a Prediction says a loader will use, and whether the loader may run."""

from __future__ import annotations

import math
import mmap
import os
import re
import shutil
from dataclasses import replace
from typing import Any

import pytest
from test_machine import THIS

from dltutor.observation.budget import usage
from dltutor.observation.budget.prediction import Footprint, Prediction, Settings
from dltutor.observation.budget.usage import Room, room
from dltutor.system import cgroup_files
from dltutor.system.this_machine import Machine

MB = 1 << 20
GB = 1 << 30

BINDER = replace(THIS, cpu_quota=1.0, memory=64 * GB, memory_limit=2 * GB)
FORK = Footprint("fork", main=150 * MB, once=0, worker=15 * MB)
FORKSERVER = Footprint("forkserver", main=150 * MB, once=12 * MB, worker=150 * MB)
EMPTY = Room(shm=64 * MB, memory=2 * GB)


def prediction(
    footprint: Footprint = FORK, machine: Machine = BINDER, **settings: Any
) -> Prediction:
    usual = {"num_workers": 2, "prefetch_factor": 2, "batch_size": 4, "sample_bytes": MB}
    made = Settings(**(usual | settings), start_method=footprint.start_method)
    return Prediction(made, footprint, machine)


@pytest.mark.parametrize(
    ("workers", "ahead", "batches"), [(1, 1, 2), (2, 2, 5), (2, 8, 17), (4, 2, 9)]
)
def test_every_worker_is_ahead_by_its_prefetch_factor_and_the_loop_holds_one_batch(
    workers: int, ahead: int, batches: int
) -> None:
    held = prediction(num_workers=workers, prefetch_factor=ahead).settings.shared
    assert held == batches * 4 * MB


def test_a_batch_takes_whole_pages_of_shared_memory() -> None:
    one_byte = prediction(num_workers=1, prefetch_factor=1, batch_size=1, sample_bytes=1)
    assert one_byte.settings.shared == 2 * mmap.PAGESIZE
    full = prediction(num_workers=1, prefetch_factor=1, batch_size=1, sample_bytes=mmap.PAGESIZE)
    assert full.settings.shared == 2 * mmap.PAGESIZE


def test_the_total_counts_main_each_worker_its_unfinished_samples_and_the_batches() -> None:
    assert prediction().total == (150 + 2 * 15 + 2 * 4 + 5 * 4) * MB
    assert prediction(num_workers=3).total == (150 + 3 * 15 + 3 * 4 + 7 * 4) * MB


def test_what_starts_once_is_counted_once() -> None:
    assert prediction(FORKSERVER).total == (150 + 12 + 2 * 150 + 2 * 4 + 5 * 4) * MB
    assert prediction(FORKSERVER, num_workers=4).processes == (150 + 12 + 4 * 150 + 4 * 4) * MB


def test_the_limit_of_the_memory_is_the_lower_one() -> None:
    assert prediction().memory_limit == 2 * GB
    assert prediction(machine=replace(BINDER, memory_limit=None)).memory_limit == 64 * GB
    assert prediction(machine=replace(BINDER, memory_limit=99 * GB)).memory_limit == 64 * GB
    assert prediction(machine=replace(BINDER, memory=0)).memory_limit == 2 * GB  # 0: unknown


def test_text_and_html_tell_the_numbers() -> None:
    made = prediction(FORKSERVER)
    lines = str(made).splitlines()
    numbers = ["4", "4 MB", "20 MB", "5", "4", "1", "24 MB", "64 MB"]
    numbers += ["490 MB", "150 MB", "2", "150 MB", "12 MB", "8 MB", "20 MB", "2 GB"]
    assert re.findall(r"\d+(?: [MG]B)?", "\n".join(lines[1:])) == numbers
    assert all(line.split("  ")[-1].strip() in made._repr_html_() for line in lines)
    assert "12 MB" not in str(prediction()), "nothing starts once"
    assert "64 MB" not in str(prediction(machine=replace(BINDER, shm=None)))


# --- which loaders may be run, and how much room there is


def test_three_quarters_of_a_shared_memory_of_64_mb_are_safe_and_no_byte_more() -> None:
    just = prediction(num_workers=1, prefetch_factor=10)
    assert just.settings.peak_shared == 48 * MB
    assert just.refusal(EMPTY) == ""
    more = prediction(num_workers=1, prefetch_factor=11)
    refusal = more.refusal(EMPTY)
    assert re.findall(r"\d+ MB", refusal) == ["52 MB", "64 MB", "48 MB"]
    assert "/dev/shm" in refusal


def test_what_others_have_in_shared_memory_is_not_free() -> None:
    assert prediction().refusal(EMPTY) == ""
    assert " 20 MB " in prediction().refusal(replace(EMPTY, shm=20 * MB))


def test_too_much_memory_is_refused_where_shared_memory_would_do() -> None:
    wide = prediction(FORKSERVER, num_workers=8, prefetch_factor=1, sample_bytes=1)
    assert wide.refusal(replace(EMPTY, memory=4 * GB)) == ""
    refusal = wide.refusal(replace(EMPTY, memory=GB))
    assert re.findall(r"[\d.]+ [MG]B", refusal) == ["1.3 GB", "1 GB", "768 MB"]
    assert "/dev/shm" not in refusal


def test_without_a_dev_shm_only_the_memory_counts() -> None:
    mac = replace(BINDER, shm=None)
    assert prediction(machine=mac, prefetch_factor=16).refusal(Room(math.inf, 4 * GB)) == ""
    assert "of memory" in prediction(machine=mac, sample_bytes=GB).refusal(Room(math.inf, 4 * GB))


def test_room_is_what_is_free_now(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = shutil.disk_usage("/dev/shm").total if os.path.isdir("/dev/shm") else None
    now = room()
    assert now.memory > 0
    assert (now.shm == math.inf) == (disk is None)
    assert disk is None or 0 <= now.shm <= disk
    monkeypatch.setattr(usage, "shared_memory", lambda: (16 * MB, 64 * MB))
    assert room().shm == 48 * MB
    monkeypatch.setattr(usage, "shared_memory", lambda: (None, None))
    assert room().shm == math.inf


def test_room_ends_where_the_cgroup_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup_files, "memory_left", lambda: MB)
    assert room().memory == MB
    monkeypatch.setattr(cgroup_files, "memory_left", lambda: 99 << 40)
    assert MB < room().memory < 99 << 40


# --- settings out of range


@pytest.mark.parametrize("name", ["num_workers", "prefetch_factor", "batch_size", "sample_bytes"])
@pytest.mark.parametrize("value", [0, -1, 2.0, "2", None, True])
def test_a_setting_that_is_no_whole_number_of_1_or_more_is_named(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be .*got {re.escape(repr(value))}"):
        prediction(**{name: value})
