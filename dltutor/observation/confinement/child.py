"""Call `confine`'s target in the child, and observe the loader that the target returns.

The child is already under its limits. When the loader starts, the child makes the empty file
`observing` in its folder. Each worker adds a line with its pid and number to the file `workers`,
and the child adds each Moment, pickled, to the file `moments`.
"""

from __future__ import annotations

import os
import pickle
import time
from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from torch.utils.data import DataLoader

from dltutor.observation import errors
from dltutor.observation.confinement.results import timeline_of
from dltutor.observation.memory.moments import Moment
from dltutor.observation.observing import check_arguments, observe
from dltutor.observation.report import Observation
from dltutor.observation.stacks import answer_when_asked
from dltutor.observation.worker_init import WorkerInit


@dataclass(frozen=True)
class KilledFirst:
    """A `WorkerInit` function that steers the OOM killer to a worker and records the worker's pid.

    Otherwise the OOM killer often chooses main, because torch's pages count for every process that
    has touched them, and main has touched more. With two workers that grew alike, the OOM killer
    chose main at a limit of 300 MB, and a worker at 400 MB (Linux 6.18). The OOM killer still makes
    the choice, but a score of 1000 adds the whole limit to a worker's size. Half of the limit
    wasn't enough for torch's CUDA build, whose files alone take up 290 MB in main and don't count
    against the limit.

    Args:
        folder: The folder with the file `workers`, which gets the pid.
        added_score: How much to add to the worker's oom_score_adj.
    """

    folder: str
    added_score: int

    def __call__(self, worker_id: int) -> None:
        with (Path(self.folder) / "workers").open("a") as file:
            file.write(f"{os.getpid()} {worker_id}\n")
        score = Path("/proc/self/oom_score_adj")  # a process needs no privilege to raise its score
        if self.added_score and score.exists():
            score.write_text(str(min(int(score.read_text()) + self.added_score, 1000)))


def observe_made(
    folder: str,
    name: str,
    options: dict[str, Any],
    deadline: float,
    added_score: int,
) -> Observation:
    """Call a function that makes a loader, observe the loader, and return the Observation.

    If the function raises an exception, the Observation reports that.

    Args:
        folder: The folder for the files `observing`, `workers`, and `moments`.
        name: The function's module and its name in the module, such as "jobs:Job.make".
        options: The function's keyword arguments.
        deadline: How many seconds the loader may run.
        added_score: How much to add to the workers' oom_score_adj.

    Raises:
        TypeError: The function returns neither a loader nor a Case.
    """
    answer_when_asked(folder)
    started = time.perf_counter()
    try:
        made = resolve_name(name)(**options)
    except Exception as error:
        return Observation(
            end="raised",
            deadline=deadline,
            seconds=time.perf_counter() - started,
            timeline=timeline_of([], "the loader couldn't be built"),
            **vars(errors.read(error)),
        )
    loader, consume = getattr(made, "loader", made), getattr(made, "consume", None)
    if isinstance(loader, DataLoader):
        first = KilledFirst(folder, added_score)
        loader.worker_init_fn = WorkerInit(loader.worker_init_fn, before=first)
    try:
        check_arguments(loader, deadline, consume, 1)
    except TypeError as error:
        called = name.partition(":")[2]
        raise TypeError(
            f"target must return a DataLoader or a Case, but {called}() doesn't: {error}"
        ) from None
    with (Path(folder) / "moments").open("wb") as file:

        def keep(moment: Moment) -> None:
            pickle.dump(moment, file)
            file.flush()

        (Path(folder) / "observing").touch()
        seen = observe(loader, deadline=deadline, consume=consume, often=True, listeners=[keep])
    try:
        pickle.dumps(seen.result)
    except Exception:  # the loop may return something that can't be pickled
        return replace(seen, result=repr(seen.result))
    return seen
