"""What are the stuck workers waiting for, and do they continue once they get it?

This is asked when a loader with forked workers hangs. A witness in each worker looks at its stack,
releases the lock it waits for, and starts the threads that the fork left behind. If it finds
nothing of that kind, the loader runs once more with one OpenMP thread per worker.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from typing import Any, Final

from dltutor.diagnosis.evidence import Evidence, Run, Waits
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit import names, trial, witness
from dltutor.diagnosis.kit.bench import Bench

_LOOKED: Final = 1.5  # seconds of arriving batches
_PATIENCE: Final = 3.0  # seconds without a batch


def needed(evidence: Evidence | None) -> bool:
    """Ask if forked workers hang."""
    if evidence is None or evidence.parts.method != "fork":
        return False
    timed_out = "DataLoader timed out" in evidence.run.error
    return bool(evidence.run.end == "hung" or timed_out)


def ask(bench: Bench) -> Waits:
    """Run it with a witness in each worker, and maybe once more with one thread."""
    until = time.monotonic() + bench.seconds
    found = witnessed(bench)
    if not found.stuck or any(freed for *_, freed in found.stuck):
        return found
    if until - time.monotonic() < _LOOKED + _PATIENCE + 0.5:
        return found
    alone = _run(bench, alone=True)[0]
    return Waits(**{**vars(found), "alone": alone.end, "alone_batches": alone.batches})


def witnessed(bench: Bench, *, own_loop: bool = False) -> Waits:
    """Run it once with witnesses.

    Args:
        bench: The loader.
        own_loop: Whether to iterate plainly even if there's a training loop.
    """
    _, notes = _run(bench, own_loop=own_loop)
    stuck = [each for each in notes if "at" in each]
    return Waits(
        stuck=tuple(
            (
                each["worker"],
                each["at"],
                each.get("kind", ""),
                each.get("path", ""),
                each.get("by", ""),
                bool(each.get("freed")),
            )
            for each in stuck
        ),
        held=tuple(sorted({name for each in notes for name in each.get("held", ())})),
        threads=max((each["threads"] for each in stuck), default=0),
    )


def _run(
    bench: Bench, *, alone: bool = False, own_loop: bool = False
) -> tuple[Run, list[dict[str, Any]]]:
    folder = tempfile.mkdtemp()
    others: list[threading.Thread] = list(bench.threads)

    def remember() -> None:
        others.extend(each for each in threading.enumerate() if each not in others)

    os.register_at_fork(before=remember)  # for as long as this process lives
    own = bench.inner.worker_init_fn
    roots = names.roots_of(bench)
    bench.change(worker_init_fn=witness.Witness(folder, own, roots, others, alone=alone), timeout=0)
    run = trial.run(
        bench, seconds=_LOOKED, patience=_PATIENCE, content=False, epochs=1, own_loop=own_loop
    )
    bench.change(worker_init_fn=own)
    return run, witness.read(folder)


EXPERIMENT: Final = Experiment("waits", 14.0, needed, ask)
