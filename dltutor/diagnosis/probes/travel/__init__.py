"""Can the dataset and its functions be pickled for a worker that isn't forked?

Pickle the dataset, the collate_fn, and the worker_init_fn as main does for a spawned worker, and
part by part if that fails. Unpickle the dataset here, and draw samples from the copy, without
starting another process.
"""

from __future__ import annotations

import pickle
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any, Final

import numpy as np

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.limits import in_time
from dltutor.diagnosis.objects.digests import digest
from dltutor.diagnosis.objects.walking import walk
from dltutor.diagnosis.probes.travel import packing
from dltutor.diagnosis.running.random_states import seed_all
from dltutor.diagnosis.running.subject import Subject, Unanswered
from dltutor.failures.tools.gauge import as_for_spawned
from dltutor.observation.foreign import first_line, is_a
from dltutor.tables import MB

_DRAWN: Final = 16
_LARGE: Final = 16 * MB  # bytes; a smaller array isn't worth mapping


@dataclass(frozen=True)
class Travel:
    """The result of pickling the dataset and its functions, and of copying the dataset.

    Args:
        cannot: The smallest parts that can't be pickled, each as (path, class, error).
        gone: The smallest parts whose pickle refers to a tensor that's freed before anything can
            unpickle it, each as (path, class).
        unreadable: The smallest parts that can be pickled, but not unpickled, each as (path, class,
            error).
        main: The classes and functions of `__main__` that the pickles refer to by name.
        script: The file of `__main__`, or "" in a notebook, which has none.
        raised: The error from drawing a sample from an unpickled copy, or "" if there was none.
        unlike: How many samples differed between the copy and the original, with the same seeds.
        bytes: Size of the dataset's pickle in bytes. It's 0 if workers are forked, if `cannot` or
            `gone` has a part, or if the pickle can't be made or read.
        seconds: Seconds that it takes to write the pickle and, up to 64 MB, to read it.
        mapped: Arrays over 16 MB that map a file and that a pickle would copy, each as (path,
            bytes).
    """

    cannot: tuple[tuple[str, str, str], ...] = ()
    gone: tuple[tuple[str, str], ...] = ()
    unreadable: tuple[tuple[str, str, str], ...] = ()
    main: tuple[str, ...] = ()
    script: str = ""
    raised: str = ""
    unlike: int = 0
    bytes: int = 0
    seconds: float = 0.0
    mapped: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        if self.cannot:
            path, kind, _ = self.cannot[0]
            return f"`{path}`, a {kind}, can't be pickled."
        if self.unreadable:
            path, kind, error = self.unreadable[0]
            return f"They can, but `{path}`, a {kind}, can't be unpickled: {error}."
        if self.raised or self.unlike:
            unlike = self.raised or f"{self.unlike} samples differ"
            return f"They can, but a copy of the dataset behaves differently: {unlike}."
        return "They can, and no difference showed in a copy of the dataset."


def needed(evidence: Evidence) -> bool:
    """Return whether there are workers."""
    return evidence.parts.workers > 0


def ask(subject: Subject) -> Travel:
    """Pickle the dataset, the collate_fn, and the worker_init_fn, and try a copy of the dataset."""
    inner = subject.inner
    cannot: list[tuple[str, str, str]] = []
    gone: list[tuple[str, str]] = []
    names: dict[str, None] = {}
    with as_for_spawned():
        for path, thing in (
            ("dataset", subject.dataset),
            ("collate_fn", inner.collate_fn),
            ("worker_init_fn", inner.worker_init_fn),
        ):
            try:
                packed, count = packing.pack(thing, subject.seconds / 2)
            except Unanswered:
                raise
            except Exception:  # pickling may raise anything
                cannot += packing.refused(path, thing)
                continue
            names |= dict.fromkeys(packing.names_of_main(packed))
            gone += packing.fleeting(path, thing) if count else []
    main: Any = sys.modules.get("__main__")
    sent = subject.method != "fork" and not (cannot or gone)  # a forked worker needs no pickle
    size, took = _timed(subject.dataset) if sent else (0, 0.0)
    unreadable: list[tuple[str, str, str]] = []
    raised, unlike = "", 0
    if not (cannot or gone):
        copy = _copy(subject.dataset)
        if copy is None:
            unreadable = packing.unreadable("dataset", subject.dataset)
        elif not subject.stream:
            raised, unlike = _compared(subject, copy)
        unreadable += packing.unreadable("collate_fn", inner.collate_fn)
        unreadable += packing.unreadable("worker_init_fn", inner.worker_init_fn)
    return Travel(
        cannot=tuple(cannot[:4]),
        gone=tuple(gone[:4]),
        unreadable=tuple(unreadable[:4]),
        main=tuple(names),
        script=str(getattr(main, "__file__", None) or ""),
        raised=raised,
        unlike=unlike,
        bytes=size,
        seconds=took,
        mapped=tuple(_mapped(subject.dataset)),
    )


def _mapped(dataset: Any) -> list[tuple[str, int]]:
    # numpy pickles a memmap as an ordinary array, with its content instead of its path.
    return [
        (each.path, int(each.thing.nbytes))
        for each in walk(dataset, with_globals=False)
        if is_a(each.thing, np.memmap) and each.thing.nbytes > _LARGE
    ]


def _timed(dataset: Any) -> tuple[int, float]:
    with suppress(Exception), as_for_spawned():
        began = time.perf_counter()
        pickled = ForkingPickler.dumps(dataset)
        if len(pickled) <= packing.HEAVY:
            pickle.loads(pickled)
        return len(pickled), time.perf_counter() - began
    return 0, 0.0


def _copy(dataset: Any) -> Any:
    # Return an unpickled copy of the dataset, or None if it can't be unpickled, for example because
    # of a part that can be unpickled only while a worker starts. If the pickle is large, return the
    # dataset itself.
    with suppress(Exception):
        try:
            packed = pickle.dumps(dataset)
        except Exception:  # a multiprocessing lock or queue needs multiprocessing's pickler
            with as_for_spawned():
                packed = bytes(ForkingPickler.dumps(dataset))
        return pickle.loads(packed) if len(packed) < packing.HEAVY else dataset
    return None


def _compared(subject: Subject, copy: Any) -> tuple[str, int]:
    # Return the error from drawing a sample from the copy if the original can draw it, or "" if
    # there's none, and how many samples differ.
    unlike = 0
    for index in in_time(subject.indices()[:_DRAWN], 1.0):
        try:
            own = _drawn(subject.dataset, index)
        except Exception:  # drawing from the original also fails, so skip this sample
            continue
        try:
            unlike += _drawn(copy, index) != own
        except Exception as error:
            return first_line(error), unlike
    return "", unlike


def _drawn(dataset: Any, index: int) -> str:
    seed_all()
    return digest(dataset[index])


EXPERIMENT: Final = probe("travel", 5.0, needed, ask)
