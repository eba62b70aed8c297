"""Test that under forkserver, torch's error doesn't say what killed a worker."""

from __future__ import annotations

from typing import Any

import pytest

from dltutor.failures import lost_cause
from dltutor.failures.lost_cause import lose_a_worker
from dltutor.observation import observe

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


def test_under_forkserver_the_error_has_an_empty_queue_for_a_cause() -> None:
    def loop(loader: Any) -> None:
        for _ in lose_a_worker(loader, []):
            pass

    observation = observe(lost_cause.broken(start_method="forkserver").loader, consume=loop)
    assert [kind for kind, _ in observation.chain] == ["RuntimeError", "Empty"]
    assert "signal" not in observation.raw
    assert observation.workers[0].signal == "SIGKILL"
