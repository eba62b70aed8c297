"""How much shared memory and how many open files does this machine allow?

See whether the run gets through if it needs less. For shared memory, run with one worker that loads
one batch ahead, then with arrays instead of tensors. For descriptors, run a loop that keeps
nothing, then the same run with a higher limit.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from typing import Any, Final

from dltutor.diagnosis.evidence import Evidence, Limits, Run
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit import trial
from dltutor.diagnosis.kit.bench import Bench
from dltutor.diagnosis.kit.changed_batches import with_tensors
from dltutor.tables import MB

_RUN: Final = 2.0  # seconds
_PATIENCE: Final = 3.0
_TIMES: Final = 16  # times as many descriptors
_SHM: Final = "/dev/shm"


def needed(evidence: Evidence | None) -> bool:
    """Ask if a run said there was none left, or would run out before the epoch ends."""
    if evidence is None or not evidence.parts.workers:
        return False
    run = evidence.run
    if run.well:
        return by_the_end(evidence) > 0.9 * resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return bool({"shm_exhausted", "too_many_open_files"} & {*run.named})


def by_the_end(evidence: Evidence) -> float:
    """Estimate how many descriptors kept batches will cost main by the end of an epoch."""
    run = evidence.run
    if run.files < 16 or run.kept < 8:
        return 0.0
    return run.files / max(run.batches, 1) * max(evidence.parts.batches or 0, run.batches)


def ask(bench: Bench) -> Limits:
    """Run it so that it needs less."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    room = 0.0
    with suppress(OSError):
        system = os.statvfs(_SHM)
        room = system.f_blocks * system.f_frsize / MB
    named = bench.known.run.named if bench.known is not None else ()
    found: dict[str, Any] = {}
    if "shm_exhausted" in named:
        workers, prefetch = bench.inner.num_workers, bench.inner.prefetch_factor
        bench.change(num_workers=1, prefetch_factor=1, method="fork")
        lighter = _run(bench, own_loop=True)
        bench.change(num_workers=workers, prefetch_factor=prefetch)
        with_tensors(bench, lambda tensor: tensor.detach().cpu().numpy())
        found |= _said("lighter", lighter) | _said("arrays", _run(bench, own_loop=True))
        found["batch_bytes"] = lighter.batch_bytes
    else:
        found |= _said("nothing_kept", _run(bench, own_loop=True))
        found["more"] = _raise(files)
        if found["more"] > files:
            found |= _said("with_more", _run(bench, own_loop=False))
    return Limits(room=room, files=files, **found)


def _run(bench: Bench, *, own_loop: bool) -> Run:
    return trial.run(
        bench, seconds=_RUN, patience=_PATIENCE, content=False, epochs=1, own_loop=own_loop
    )


def _said(name: str, run: Run) -> dict[str, Any]:
    return {name: run.end, f"{name}_batches": run.batches}


def _raise(files: int) -> int:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for soft, most in ((_TIMES * files, max(_TIMES * files, hard)), (hard, hard)):
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, most))
            return soft
    return files


EXPERIMENT: Final = Experiment("limits", 12.0, needed, ask)
