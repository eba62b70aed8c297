"""Test that an Observation says how a worker died, and that `VerifiedFrames` skips a bad frame."""

from __future__ import annotations

import pytest

from dltutor.failures import dead_worker
from dltutor.failures.dead_worker import How, VerifiedFrames, film_paths
from dltutor.observation import observe

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

FATES: dict[How, str] = {
    "killed": "killed by SIGKILL (exit code -9)",
    "segfault": "killed by SIGSEGV (exit code -11)",
    "abort": "killed by SIGABRT (exit code -6)",
    "exit": "ended with exit code 3",
}
TOLD: dict[How, str] = {
    "killed": "is killed by signal: Killed",
    "segfault": "is killed by signal: Segmentation fault",
    "abort": "is killed by signal: Aborted",
    "exit": "exited unexpectedly with exit code 3",
}


@pytest.mark.parametrize("how", FATES)
def test_the_fate_of_the_worker_and_the_error_say_how_it_died(how: How) -> None:
    observation = observe(dead_worker.broken(how=how).loader)
    assert observation.end == "worker died"
    workers = [f"W0 {FATES[how]}", "W1 still running"]
    assert [str(worker) for worker in observation.workers] == workers
    assert TOLD[how] in " ".join(message for _, message in observation.chain)
    assert ("segmentation fault encountered in worker" in observation.stderr) == (how == "segfault")


@pytest.mark.parametrize(("how", "cause"), [("segfault", "SIGSEGV"), ("exit", "exit code 3")])
def test_tried_alone_the_bad_frame_is_found(how: How, cause: str) -> None:
    dataset = VerifiedFrames(film_paths(), how)
    assert dataset.quarantined == {"09.frame": cause}
    assert len(dataset) == 15
