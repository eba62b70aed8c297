"""Test that main's error hides why a worker called `sys.exit`, and that the fixed case says why."""

from __future__ import annotations

from multiprocessing import active_children
from multiprocessing.connection import wait
from typing import Any

import pytest
from own_process import DEADLINE
from torch.utils.data import DataLoader

from dltutor.failures import misleading_exit
from dltutor.observation import observe

pytestmark = [
    pytest.mark.usefixtures("nothing_left_behind"),
    # If torch can't fetch a batch, it opens ten temporary files to see whether it's out of
    # descriptors. Main may learn just then that the worker died, and leave the files open.
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


UNFETCHED = ("FileNotFoundError", "ConnectionResetError", "ConnectionRefusedError", "EOFError")


def busy_until_a_worker_is_gone(loader: DataLoader[Any]) -> None:
    others = set(active_children())
    for step, _batch in enumerate(loader):
        if step == 0:
            wait([worker.sentinel for worker in set(active_children()) - others], timeout=DEADLINE)


def test_a_batch_that_was_on_its_way_is_a_missing_file() -> None:
    loader = misleading_exit.broken(start_method="forkserver").loader  # main gets no SIGCHLD
    observation = observe(loader, consume=busy_until_a_worker_is_gone)
    assert observation.chain[-1][0] in UNFETCHED
    assert "multiprocessing/" in observation.raw


def test_the_error_names_no_file_and_the_last_words_do() -> None:
    observation = observe(misleading_exit.broken().loader)
    assert observation.end == "worker died"
    assert [worker.exitcode for worker in observation.workers] == [1, None]
    assert "009.json" not in observation.raw
    assert observation.stderr.startswith("009.json: Expecting ',' delimiter")


def test_handed_over_it_costs_one_sample() -> None:
    reasons = [each for _, reasons in misleading_exit.fixed(workers=0).loader for each in reasons]
    assert len(reasons) == 1
    assert reasons[0].startswith("sample 9: UnreadableReading: sample 9: 009.json")
