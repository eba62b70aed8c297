"""One read position for two workers: plain file, zip and tar, and what fixes them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from datasets import NO_PICKLE_OF_A_FILE

from dltutor.failures import shared_file_offset
from dltutor.failures.data.records import Kind, open_slowly, shared_records
from dltutor.failures.tools.contract import Case
from dltutor.failures.tools.handles import PerProcess
from dltutor.observation import Observation, observe

every_kind = pytest.mark.parametrize("kind", ["file", "zip", "tar"])


def run(case: Case) -> Observation:
    return observe(case.loader, consume=case.consume)


@every_kind
@pytest.mark.parametrize("workers", [0, 1])
def test_one_reader_alone_reads_right(kind: Kind, workers: int) -> None:
    result: Any = run(shared_file_offset.broken(workers=workers, kind=kind)).result
    assert result.value == 0


@pytest.mark.parametrize("kind", ["file", "tar"])
def test_two_workers_read_wrong_samples_without_a_word(kind: Kind) -> None:
    seen = run(shared_file_offset.broken(kind=kind))
    result: Any = seen.result
    assert seen.end == "finished" and not seen.stderr
    assert result.value > 0


def test_a_zip_archive_seems_damaged() -> None:
    seen = run(shared_file_offset.broken(kind="zip"))
    assert seen.raised_in_worker == "BadZipFile", seen


@every_kind
def test_opened_in_each_worker_every_kind_reads_right(kind: Kind) -> None:
    result: Any = run(shared_file_offset.fixed(kind=kind)).result
    assert result.value == 0


def test_pread_needs_no_position() -> None:
    result: Any = run(shared_file_offset.fixed(positioned=True)).result
    assert result.value == 0


@pytest.mark.parametrize("start_method", ["spawn", "forkserver"])
def test_an_open_file_does_not_get_past_spawn(start_method: str) -> None:
    seen = run(shared_file_offset.broken(start_method=start_method))
    assert seen.chain[0] == ("TypeError", NO_PICKLE_OF_A_FILE)


def test_a_handle_of_each_process_is_opened_once_and_never_pickled(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("")
    opened = PerProcess(path.stat)
    assert opened.get() is opened.get()
    again = pickle.loads(pickle.dumps(opened))
    assert again.get() is again.get() is not opened.get()


def test_the_slow_disk_reads_what_the_file_holds() -> None:
    path = shared_records("zip")
    with open_slowly(path) as file:
        assert file.read() == path.read_bytes()
