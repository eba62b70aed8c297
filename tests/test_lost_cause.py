"""Fork and spawn say what a worker died of; under forkserver only the worker itself knows."""

from __future__ import annotations

from typing import Any

import pytest

from dltutor.failures import lost_cause
from dltutor.failures.lost_cause import lose_a_worker, train, train_and_ask_the_workers
from dltutor.failures.tools.sign import Finding
from dltutor.observation import Observation, observe

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


def raised(start_method: str) -> Observation:
    """The same death, with nobody to catch the error."""

    def loop(loader: Any) -> None:
        for _ in lose_a_worker(loader, []):
            pass

    return observe(lost_cause.broken(start_method=start_method).loader, consume=loop)


def test_under_fork_the_error_names_the_signal() -> None:
    assert "is killed by signal: Killed" in raised("fork").raw


def test_under_forkserver_it_has_an_empty_queue_for_a_cause_and_comes_late() -> None:
    observation = raised("forkserver")
    assert [kind for kind, _ in observation.chain] == ["RuntimeError", "Empty"]
    assert "signal" not in observation.raw
    assert observation.workers[0].signal == "SIGKILL"


@pytest.mark.parametrize("loop", [train, train_and_ask_the_workers])
def test_under_fork_both_loops_know_the_cause(loop: Any) -> None:
    found = observe(lost_cause.fixed().loader, consume=loop).result
    assert found == Finding(0, "of 1 deaths without a cause")
