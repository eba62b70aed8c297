"""Test which wrong samples or errors a shared read position causes, and that the fixes help."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from datasets import NO_PICKLE_OF_A_FILE

from dltutor.failures import shared_file_offset
from dltutor.failures.data.records import Kind, open_slowly, shared_records
from dltutor.failures.tools.contract import Case
from dltutor.failures.tools.handles import PerProcess
from dltutor.observation import Observation, observe


def run(case: Case) -> Observation:
    return observe(case.loader, consume=case.consume)


@pytest.mark.parametrize("kind", ["file", "zip", "tar"])
def test_one_worker_alone_reads_right(kind: Kind) -> None:
    result: Any = run(shared_file_offset.broken(workers=1, kind=kind)).result
    assert result.value == 0


def test_two_workers_read_wrong_samples_of_a_tar_archive_without_a_word() -> None:
    seen = run(shared_file_offset.broken(kind="tar"))
    result: Any = seen.result
    assert (seen.end, seen.stderr) == ("finished", "")
    assert result.value > 0


def test_a_zip_archive_seems_damaged() -> None:
    seen = run(shared_file_offset.broken(kind="zip"))
    assert seen.raised_in_worker == "BadZipFile", seen


@pytest.mark.parametrize("options", [{"kind": "zip"}, {"kind": "tar"}, {"positioned": True}])
def test_opened_in_each_worker_or_read_by_position_it_is_right(options: dict[str, Any]) -> None:
    result: Any = run(shared_file_offset.fixed(**options)).result
    assert result.value == 0


def test_an_open_file_cannot_be_sent_to_a_new_process() -> None:
    with pytest.raises(TypeError, match=re.escape(NO_PICKLE_OF_A_FILE)):
        pickle.dumps(shared_file_offset.broken().loader.dataset)


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
