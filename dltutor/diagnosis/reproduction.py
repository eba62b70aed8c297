"""reproduce(): run a failure mode from the catalog, broken or fixed, under the limits it needs."""

from __future__ import annotations

from typing import Any, Final

from dltutor.failures import Failure
from dltutor.observation import Observation, confine, observe

STARTING: Final = 10.0  # extra seconds for workers that import torch first
_MINUTE: Final = 60.0
_PATIENCE: Final = 4  # multiplies the deadline if a worker is still starting when it passes


def reproduce(
    failure: Failure, *, fixed: bool = False, workers: int = 2, start_method: str = "fork"
) -> Observation:
    """Run the broken or the fixed case of a failure mode, and return an Observation of the run.

    If the failure mode needs limits or has to be isolated, it runs under `confine`. Otherwise, if
    the run hangs while a worker is still starting, it runs once more with a longer deadline.

    Args:
        failure: An entry in the catalog.
        fixed: Whether to run the fixed case instead of the broken one (default False).
        workers: The number of workers (default 2).
        start_method: "fork" (the default), "spawn", or "forkserver".

    Raises:
        CannotConfine: This machine doesn't permit the limits that the failure mode needs.
    """
    make = failure.fixed if fixed else failure.broken
    deadline = failure.deadline + (0 if start_method == "fork" else STARTING)
    if fixed:
        deadline = max(deadline, _MINUTE)
    if failure.limits or failure.isolated:
        limits: dict[str, Any] = dict(failure.limits)
        return confine(
            make, deadline=deadline, workers=workers, start_method=start_method, **limits
        )
    for patience in (1, _PATIENCE):
        case = make(workers=workers, start_method=start_method)
        observation = observe(case.loader, consume=case.consume, deadline=patience * deadline)
        if not _still_starting(observation):
            break
    return observation


def _still_starting(observation: Observation) -> bool:
    # On a busy machine, a new interpreter may start so slowly that it looks like a hang.
    return observation.end == "hung" and any(
        worker.exitcode is None and worker.stack is None for worker in observation.workers
    )
