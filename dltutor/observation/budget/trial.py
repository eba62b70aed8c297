"""The budget on trial: measured in an interpreter of its own, where no kernel can come to harm.

A button's callback may run in any thread of a kernel, and `observe` needs the main one. A child
has a main thread in any case, and its figures do not depend on what a notebook did before.
"""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dltutor.observation.budget.filled import Filled
from dltutor.observation.budget.prediction import Footprint, Prediction
from dltutor.observation.budget.room import room
from dltutor.observation.budget.settings import Settings, check_start_method
from dltutor.observation.budget.usage import Usage
from dltutor.observation.confinement.supervisor import argv_of, supervised, workspace
from dltutor.observation.confinement.task import Task
from dltutor.observation.texts import end_of_file
from dltutor.observation.time_limits import check_deadline

_START: Final = 60.0  # seconds for the child to import torch, and to tidy up
_FOOTPRINT: Final = 60.0  # seconds for a worker with nothing to do
_SAID: Final = 2000  # characters of what it wrote, the last ones
_CHILD: Final = "dltutor.observation.budget.filled"

_footprints: dict[str, Footprint] = {}


@dataclass(frozen=True)
class Trial:
    """A prediction, and what a real run held.

    Args:
        prediction: What was to be tried.
        filled: The run.
    """

    prediction: Prediction
    filled: Filled

    @property
    def steady(self) -> Usage:
        """With full queues, when the loop held its last batch."""
        return self.filled.looks[-1]

    @property
    def peak_shared(self) -> int | None:
        """The most in `/dev/shm` at any look, in bytes; None where there is none."""
        found = [look.shared for look in self.filled.looks if look.shared is not None]
        return max(found, default=None)

    @property
    def peak(self) -> Usage:
        """The look with the most memory in all."""
        return max(self.filled.looks, key=lambda look: look.total)


def footprint(start_method: str) -> Footprint:
    """Measure what main and a worker take up: a real loader with one worker and empty samples.

    It is done once for each start method, in a child interpreter, and takes a few seconds.

    Args:
        start_method: fork, spawn or forkserver.

    Raises:
        ValueError: There is no such start method here.
        RuntimeError: The worker did not do its work.
    """
    check_start_method(start_method)
    if start_method not in _footprints:
        filled = _in_child(Settings(1, 1, 1, 1, start_method), _FOOTPRINT)
        before, then = filled.before, filled.looks[-1]
        worker = then.processes - then.once - before.processes
        _footprints[start_method] = Footprint(start_method, before.processes, then.once, worker)
    return _footprints[start_method]


def trial(prediction: Prediction, *, deadline: float = 60) -> Trial:
    """Run for real what was predicted, on synthetic samples, in a child interpreter.

    The loop takes a batch only when all others are made, so the queues are full.

    Args:
        prediction: What to try.
        deadline: Seconds for the run, without the start of the child.

    Returns:
        The Trial.

    Raises:
        ValueError: It would take more than is safe here now, or the deadline is not positive.
        RuntimeError: The run did not finish.
        KeyboardInterrupt: You pressed Stop; everything is cleaned up first.
    """
    check_deadline(deadline)
    if refusal := prediction.refusal(room()):
        raise ValueError(refusal)
    return Trial(prediction, _in_child(prediction.settings, deadline))


def _in_child(settings: Settings, deadline: float) -> Filled:
    with workspace() as (folder, interrupts):
        (folder / "task").write_bytes(pickle.dumps((settings, deadline)))
        task = Task(os.getpid(), argv_of(_CHILD, folder), str(folder), seconds=deadline + _START)
        with supervised(task) as supervisor:
            report, _ = supervisor.wait(interrupts)
        if report.stopped:
            raise RuntimeError("the run did not finish: its process had to be killed")
        return _result(folder, report.exitcode)


def _result(folder: Path, exitcode: int | None) -> Filled:
    if not (folder / "result").exists():
        said = end_of_file(folder / "output")[-_SAID:]
        raise RuntimeError(f"the run ended with exit code {exitcode}.\n{said}".strip())
    result: Filled | str = pickle.loads((folder / "result").read_bytes())
    if isinstance(result, str):
        raise RuntimeError(result)
    return result
