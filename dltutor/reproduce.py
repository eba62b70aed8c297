"""reproduce(): run a failure mode of the catalogue, broken or fixed, where it is safe to."""

from __future__ import annotations

from typing import Any, Final

from dltutor.failures import Failure
from dltutor.observation import Observation, confine, observe

STARTING: Final = 10.0  # seconds more for workers that import torch first
_MINUTE: Final = 60.0


def reproduce(
    failure: Failure, *, fixed: bool = False, workers: int = 2, start_method: str = "fork"
) -> Observation:
    """Run the broken or the fixed case of a failure mode and say what happened.

    Args:
        failure: An entry of the catalogue.
        fixed: Run the mended case instead of the broken one.
        workers: The number of workers.
        start_method: "fork", "spawn" or "forkserver".

    Returns:
        The Observation; under the limits that the failure asks for, if it asks for any.

    Raises:
        CannotConfine: This machine does not permit these limits.
    """
    make = failure.fixed if fixed else failure.broken
    deadline = failure.deadline + (0 if start_method == "fork" else STARTING)
    if fixed:
        deadline = max(deadline, _MINUTE)
    if failure.limits is not None:
        limits: dict[str, Any] = dict(failure.limits)
        return confine(
            make, deadline=deadline, workers=workers, start_method=start_method, **limits
        )
    case = make(workers=workers, start_method=start_method)
    return observe(case.loader, consume=case.consume, deadline=deadline)
