"""What the failure modes of memory and files make of the evidence of one visit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from recorded import PARTS

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.measures import Measures
from dltutor.diagnosis.probes.ahead import Ahead
from dltutor.diagnosis.probes.memory import Memory
from dltutor.diagnosis.probes.segments import Segments
from dltutor.diagnosis.probes.views import Views
from dltutor.diagnosis.rules import RULES
from dltutor.failures import CATALOGUE
from dltutor.tables import MB

PARTS = replace(PARTS, dataset="Images", where="train.py, line 12", length=800, batches=100)
RUN = Measures("finished", batches=100, batch_bytes=MB)
ALL = Evidence(PARTS, RUN)
NAMES = ("dataset.names", "list", 300_000, 0.0, 0.9)
READ = Memory(copied=30, copied_frozen=29, read=(NAMES,))
CACHE = Memory(
    samples=32,
    late_samples=16,
    peak_as_it_is=13,
    peak_collected=13,
    peak_returned=12,
    peak_repeated=2,
    late_as_it_is=6,
    late_collected=6,
    late_returned=6,
    late_repeated=0,
    grown=(("dataset.cache", "dict", 1.0, None),),
)
CYCLE = replace(CACHE, peak_as_it_is=19, peak_collected=0, peak_returned=16, late_collected=0)
HEAP = replace(
    CACHE,
    peak_as_it_is=62,
    peak_collected=62,
    peak_returned=0.3,
    late_as_it_is=33,
    late_collected=33,
    late_returned=0,
    late_repeated=33,
    grown=(),
)
KEPT = replace(RUN, kept=97, kept_bytes=97 * MB, kept_then=((32, 29), (64, 61)))
SHM = Measures("raised", error="RuntimeError: no space", named=("shm_exhausted",))
FILES = Measures(
    "raised", error="RuntimeError: too many", named=("too_many_open_files",), batches=90
)
WELL = Measures("finished", batches=3)
ENDED = Measures("raised")

FITS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("copy_on_read", "names are read", {"memory": READ},
     {"memory": replace(READ, read=((*NAMES[:4], 0.01),))}),
    ("gc_dirties_pages", "collected in each sample",
     {"memory": Memory(copied=48, copied_frozen=2, collections=4)},
     {"memory": Memory(copied=48, copied_frozen=2, copied_in_loop=2, collections=4)}),
    ("growing_cache", "a cache without a bound", {"memory": CACHE},
     {"memory": replace(CACHE, grown=(("dataset.cache", "dict", 1.0, 0),))}),
    ("reference_cycle", "a collection frees it", {"memory": CYCLE}, {"memory": CACHE}),
    ("heap_growth", "mallopt frees it", {"memory": HEAP},
     {"memory": replace(HEAP, late_as_it_is=12, late_samples=60)}),
    ("kept_batches", "all are kept", {"run": KEPT},
     {"run": replace(KEPT, kept=8, kept_then=((32, 8), (64, 8)))}),
    ("view_of_a_giant", "copies are smaller", {"views": Views(6, 9.5, 0.1)},
     {"views": Views(6, 9.5, 9.0)}),
    ("prefetch_budget", "two are as fast", {"ahead": Ahead(30, 4, 0.01, 0.01, 0.02, 0.02)},
     {"ahead": Ahead(30, 4, 0.01, 0.01, 0.02, 0.03)}),
    ("shm_exhausted", "arrays get through",
     {"run": SHM, "arrays": WELL},
     {"run": SHM, "arrays": ENDED}),
    ("too_many_open_files", "nothing is kept",
     {"run": FILES, "nothing_kept": WELL},
     {"run": FILES, "nothing_kept": ENDED, "more_files": ENDED}),
    ("orphaned_segments", "some are left",
     {"segments": Segments(4, 5, "file_system", "file_descriptor")},
     {"segments": Segments(4, 0, "file_descriptor", "file_descriptor")}),
    ("orphaned_segments", "not one that was caught in its making",
     {"segments": Segments(4, 4, "file_descriptor", "file_system")},
     {"segments": Segments(4, 1, "file_descriptor", "file_descriptor")}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "why", "ill", "near"), FITS)
def test_it_is_told_from_what_looks_like_it(
    name: str, why: str, ill: dict[str, Any], near: dict[str, Any]
) -> None:
    found = [each.name for each in CATALOGUE if RULES[each.name](replace(ALL, **ill))]
    assert found == [name], why
    assert not [each.name for each in CATALOGUE if each.name == name and near_fits(each, near)]


def near_fits(failure: Any, near: dict[str, Any]) -> bool:
    return RULES[failure.name](replace(ALL, **near)) is not None


def test_nothing_fits_a_loader_of_which_nothing_was_found() -> None:
    assert [each.name for each in CATALOGUE if RULES[each.name](ALL)] == []
