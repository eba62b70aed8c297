"""What are the stuck workers waiting for, and do they continue once they get it?

The doctor asks this if a loader with forked workers hangs, or if a wait reaches a time limit. A
witness thread in each worker reads the worker's stack, releases the lock that the worker waits for,
and restarts threads that the fork didn't copy.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.probes.waits import witness
from dltutor.diagnosis.running import names, runner
from dltutor.diagnosis.running.notes import Notes
from dltutor.diagnosis.running.subject import Subject

#: Arguments to `runner.run` for a short run of a loader that may hang or fail.
SHORT: Final[dict[str, Any]] = {"seconds": 1.5, "patience": 3.0, "content": False, "epochs": 1}
# If a worker's exception arrives more seconds than this after the last batch, a wait with a time
# limit, such as `result(timeout=10)`, may have raised it.
_GAVE_UP: Final = 2.0
_PATIENCE: Final = 9.0  # `patience` for a run with witnesses, which usually end the run earlier


@dataclass(frozen=True)
class Waits:
    """The places where a loader's forked workers hang, and what the workers wait for.

    Args:
        stuck: Each place where a worker was stuck, as (worker, your line, kind, name, file of the
            code that waits there, freed). Kind is "lock", "executor", "thread", "answer" (the
            result of the named thread), or "" if nothing freed the worker. Freed says whether it
            went on once the witness released the lock, started the threads, or gave an answer.
        held: The names of locks that another thread already held when the worker started.
        threads: The most threads that torch or OpenCV would use for one call in a stuck worker.
    """

    stuck: tuple[tuple[int, str, str, str, str, bool], ...] = ()
    held: tuple[str, ...] = ()
    threads: int = 0

    def freed(self, *kinds: str) -> tuple[int, str, str, str, str, bool] | None:
        """Return the first entry of `stuck` with one of these kinds and a freed worker, or None."""
        return next((each for each in self.stuck if each[5] and each[2] in kinds), None)

    def __str__(self) -> str:
        for _, line, kind, name, _, freed in self.stuck:
            what = f" for the {kind} `{name}`" if kind else ""
            return f"One waits at {line}{what}{', and continues once it gets it' if freed else ''}."
        return "No worker was seen waiting inside a sample."


def needed(evidence: Evidence) -> bool:
    """Return whether a loader with forked workers hung, or a wait reached its time limit."""
    run = evidence.run
    if evidence.parts.method != "fork":
        return False
    gave_up = run.raised is not None and run.after > _GAVE_UP
    return run.waited or gave_up


def ask(subject: Subject, *, own_loop: bool = False) -> Waits:
    """Run the loader once, with a witness thread in each worker, and read what the witnesses saw.

    Args:
        subject: The loader, whose workers are forked.
        own_loop: Whether to use a plain loop even if there's a training loop.
    """
    notes = Notes()
    others: list[threading.Thread] = list(subject.threads)

    def remember() -> None:
        others.extend(each for each in threading.enumerate() if each not in others)

    os.register_at_fork(before=remember)  # the hook can't be removed, but it ends with this process
    subject.change(timeout=0)
    subject.in_workers(before=witness.Witness(notes, names.roots_of(subject), others))
    runner.run(subject, own_loop=own_loop, **{**SHORT, "patience": _PATIENCE})
    found = sorted(notes.read(), key=itemgetter("worker"))
    stuck: Any = tuple(tuple(each["stuck"]) for each in found if "stuck" in each)
    return Waits(
        stuck=stuck,
        held=tuple(sorted({name for each in found for name in each.get("held", ())})),
        threads=max((each.get("threads", 0) for each in found), default=0),
    )


EXPERIMENT: Final = probe("waits", 14.0, needed, ask)
