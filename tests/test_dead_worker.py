"""A worker dies in each of four ways, and its fate says which."""

from __future__ import annotations

import pytest

from dltutor.failures import dead_worker
from dltutor.failures.dead_worker import How, VerifiedFrames
from dltutor.observation import observe

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

FATES: dict[How, tuple[str, str]] = {
    "killed": ("killed by SIGKILL (exit code -9)", "SIGKILL"),
    "segfault": ("killed by SIGSEGV (exit code -11)", "SIGSEGV"),
    "abort": ("killed by SIGABRT (exit code -6)", "SIGABRT"),
    "exit": ("ended with exit code 3", "exit code 3"),
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
    fate, _ = FATES[how]
    assert [str(worker) for worker in observation.workers] == [f"W0 {fate}", "W1 still running"]
    assert TOLD[how] in " ".join(message for _, message in observation.chain)
    assert ("segmentation fault encountered in worker" in observation.stderr) == (how == "segfault")


@pytest.mark.parametrize("how", FATES)
def test_tried_alone_the_bad_frame_is_found_and_the_rest_delivered(how: How) -> None:
    loader = dead_worker.fixed(how=how).loader
    assert isinstance(loader.dataset, VerifiedFrames)
    _, cause = FATES[how]
    assert loader.dataset.quarantined == {"09.frame": cause}
    observation = observe(loader)
    assert (observation.end, observation.samples) == ("finished", 15)
