"""Test the handle that each process opens for itself, and the slow disk that the cases read."""

from __future__ import annotations

import pickle
from pathlib import Path

from dltutor.failures.data.records import open_slowly, shared_records
from dltutor.failures.tools.handles import PerProcess


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
