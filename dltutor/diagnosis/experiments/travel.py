"""Can the dataset and its functions be pickled for a worker that isn't forked?

Pickle them the way a spawned worker gets them, and part by part if that fails. Unpickle what can be
pickled in this process again, and draw samples from the copy. No process is started.
"""

from __future__ import annotations

import pickle
import sys
import time
from contextlib import suppress
from multiprocessing.reduction import ForkingPickler
from typing import Any, Final

from dltutor.diagnosis.evidence import Evidence, Travel
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit import packing
from dltutor.diagnosis.kit.bench import Bench, TooSlow
from dltutor.diagnosis.kit.digests import digest
from dltutor.diagnosis.kit.pins import seed_all
from dltutor.failures.tools.gauge import as_for_spawned
from dltutor.observation.foreign import said
from dltutor.tables import MB

_DRAWN: Final = 16
_HEAVY: Final = 64 * MB  # bytes of a pickle above which no copy is made


def needed(evidence: Evidence | None) -> bool:
    """Ask if there are workers."""
    return evidence is not None and evidence.parts.workers > 0


def ask(bench: Bench) -> Travel:
    """Pack the dataset, the collate_fn and the worker_init_fn."""
    inner = bench.inner
    cannot: list[tuple[str, str, str]] = []
    gone: list[tuple[str, str]] = []
    names: dict[str, None] = {}
    with as_for_spawned():
        for path, thing in (
            ("dataset", bench.dataset),
            ("collate_fn", inner.collate_fn),
            ("worker_init_fn", inner.worker_init_fn),
        ):
            try:
                packed, count = packing.pack(thing, bench.seconds / 2)
            except TooSlow:
                raise
            except Exception:  # it can't be pickled, for whatever reason
                cannot += packing.refused(path, thing)
                continue
            names |= dict.fromkeys(packing.names_of_main(packed))
            gone += packing.fleeting(path, thing) if count else []
    main: Any = sys.modules.get("__main__")
    sent = bench.method != "fork" and not (cannot or gone)  # a forked worker needs no pickle
    size, took = _timed(bench.dataset) if sent else (0, 0.0)
    raised, unlike = ("", 0) if cannot or gone else _copied(bench)
    return Travel(
        cannot=tuple(cannot[:4]),
        gone=tuple(gone[:4]),
        main=tuple(names),
        script=str(getattr(main, "__file__", None) or ""),
        raised=raised,
        unlike=unlike,
        bytes=size,
        seconds=took,
    )


def _timed(dataset: Any) -> tuple[int, float]:
    with suppress(Exception), as_for_spawned():
        began = time.perf_counter()
        pickled = ForkingPickler.dumps(dataset)
        if len(pickled) <= _HEAVY:
            pickle.loads(pickled)
        return len(pickled), time.perf_counter() - began
    return 0, 0.0


def _copied(bench: Bench) -> tuple[str, int]:
    # What drawing from a copy raises that the original doesn't, and how many samples differ.
    if bench.stream:
        return "", 0
    try:
        packed = bytes(_pickled(bench.dataset))
        copy = pickle.loads(packed) if len(packed) < _HEAVY else bench.dataset
    except Exception:  # for example, something that works only while a worker starts
        return "", 0
    unlike, until = 0, time.monotonic() + 1.0
    for index in bench.indices()[:_DRAWN]:
        if time.monotonic() > until:
            break
        try:
            own = _drawn(bench.dataset, index)
        except Exception:  # a sample that fails in the original too
            continue
        try:
            unlike += _drawn(copy, index) != own
        except Exception as error:
            return said(error).splitlines()[0][:160], unlike
    return "", unlike


def _pickled(dataset: Any) -> Any:
    try:
        return pickle.dumps(dataset)
    except Exception:  # a lock or queue of multiprocessing needs its own pickler
        with as_for_spawned():
            return ForkingPickler.dumps(dataset)


def _drawn(dataset: Any, index: int) -> str:
    seed_all()
    return digest(dataset[index])


EXPERIMENT: Final = Experiment("travel", 5.0, needed, ask)
