"""Check that WorkerNames recognizes torch's workers and gives each one the right number."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from small_datasets import Numbers, load

from dltutor.observation.memory.worker_names import WorkerNames

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


def test_workers_are_known_by_the_name_that_torch_gives_them(tmp_path: Path) -> None:
    def named(pid: int, command: str) -> int:
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        (tmp_path / str(pid) / "comm").write_text(command + "\n")
        return pid

    names = WorkerNames(str(tmp_path))
    assert names(named(10, "python")) is None
    assert names(named(12, "pt_data_worker")) == "W0"
    assert names(named(11, "pt_data_worker")) == "W1"
    named(12, "reused")
    assert names(named(13, "pt_data_worker")) == "W0"
    assert names(10**9) is None


@pytest.mark.parametrize(
    "start_method", ["fork", "forkserver", pytest.param("spawn", marks=pytest.mark.thorough)]
)
def test_torch_names_its_workers_under_every_start_method(start_method: str) -> None:
    names = WorkerNames()
    found = {names(int(batch)) for batch in load(Pids(), start_method, batch_size=1, num_workers=1)}
    assert found == {"W0"}


class Pids(Numbers):
    """A dataset in which each sample is the pid of the worker that made it."""

    def __getitem__(self, index: int) -> Any:
        return os.getpid()
