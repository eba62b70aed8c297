"""What the child of `confine` does with a function: call it, observe the loader, hand over.

It runs in an interpreter of its own that has taken its limits on already. All that it hands over
lies in the folder that it is given: `observation`, and while it runs `observing`, `workers` and
`moments`.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader

from dltutor.observation import errors
from dltutor.observation.confinement.unobserved import timeline_of, unobserved
from dltutor.observation.memory.moments import Moment
from dltutor.observation.memory.process_curves import Bounds
from dltutor.observation.observing import check_arguments, observe
from dltutor.observation.report import Observation
from dltutor.observation.stacks import answer_when_asked


@dataclass(frozen=True)
class Expendable:
    """A `worker_init_fn` that makes a worker the OOM killer's choice and says which one it is.

    Without it the kernel often takes main: the pages of torch count for every process that has
    touched them, and main has touched more. With two workers that grew alike it took main under
    300 MB, and a worker under 400 MB (Linux 6.18). The decision is still the kernel's: it adds the
    whole limit to a worker's size. Half of it wasn't enough for torch's build for CUDA, whose files
    alone are 290 MB of main, and don't count against the limit.

    Args:
        folder: Where to say it, in the file `workers`.
        put_forward: What to add to its oom_score_adj.
        init_fn: The learner's `worker_init_fn`, or None.
    """

    folder: str
    put_forward: int
    init_fn: Callable[[int], None] | None

    def __call__(self, worker_id: int) -> None:
        with (Path(self.folder) / "workers").open("a") as file:
            file.write(f"{os.getpid()} {worker_id}\n")
        score = Path("/proc/self/oom_score_adj")  # to raise it needs no privilege
        if self.put_forward and score.exists():
            score.write_text(str(min(int(score.read_text()) + self.put_forward, 1000)))
        if self.init_fn is not None:
            self.init_fn(worker_id)


def main(folder: str) -> None:
    """Do what the file `function` asks for, and end this process."""
    answer_when_asked(folder)
    call = pickle.loads((Path(folder) / "function").read_bytes())
    result = _observe(folder, *call)
    unfinished = Path(folder) / "unfinished"
    unfinished.write_bytes(_pickled(result))
    unfinished.rename(Path(folder) / "observation")
    # All that would be tidied up at exit is in the folder, or a process that the supervisor ends.
    os._exit(0)


def _pickled(found: Observation | TypeError) -> bytes:
    try:
        return pickle.dumps(found)
    except Exception:  # all else in an Observation is plain: it is what the loop returned
        assert isinstance(found, Observation)
        return pickle.dumps(replace(found, result=repr(found.result)))


def _observe(
    folder: str,
    module: str,
    name: str,
    options: dict[str, Any],
    deadline: float,
    put_forward: int,
) -> Observation | TypeError:
    started = time.perf_counter()
    try:
        target: Any = import_module(module)
        for part in name.split("."):
            target = getattr(target, part)
        made = target(**options)
    except Exception as error:
        return unobserved(
            "raised",
            deadline=deadline,
            seconds=time.perf_counter() - started,
            timeline=timeline_of([], Bounds(), "the loader could not be built"),
            failed=errors.read(error),
        )
    loader, consume = getattr(made, "loader", made), getattr(made, "consume", None)
    if isinstance(loader, DataLoader):
        loader.worker_init_fn = Expendable(folder, put_forward, loader.worker_init_fn)
    try:
        check_arguments(loader, deadline, consume, 1)
    except TypeError as error:
        return TypeError(f"target must return a DataLoader or a Case, {name}() does not: {error}")
    with (Path(folder) / "moments").open("wb") as file:

        def keep(moment: Moment) -> None:
            pickle.dump(moment, file)
            file.flush()

        (Path(folder) / "observing").touch()
        return observe(loader, deadline=deadline, consume=consume, memory="often", listeners=[keep])
