"""The failures that make data wrong without a word, each on recorded evidence: a fit, a near miss.

Nothing is run here: `scripts/doctor.py` does that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from recorded import PARTS

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Finding
from dltutor.diagnosis.measures import Measures
from dltutor.diagnosis.probes.copies import Copies
from dltutor.diagnosis.probes.ending import Ending
from dltutor.diagnosis.probes.epochs import Epochs
from dltutor.diagnosis.probes.handles import Handles
from dltutor.diagnosis.probes.order import Order
from dltutor.diagnosis.probes.repeats import Repeats
from dltutor.diagnosis.probes.shares import Shares
from dltutor.diagnosis.probes.state import State
from dltutor.diagnosis.probes.twice import Twice
from dltutor.diagnosis.rules import RULES
from dltutor.failures import CATALOGUE

FINISHED = Measures("finished", counted=(64,), finished=(True,))
FEWER = replace(FINISHED, counted=(48,))
WELL = Evidence(PARTS, FINISHED, alone=FINISHED)

FILE = Handles(kind="file", paths=("dataset.scans",), looked=24, wrong=20)
LAZY = replace(FILE, lazy="dataset.scans")
SOCKET = replace(FILE, kind="socket")
RANDOM = Repeats(sources=(("own", 12, 24, 24, 24, 24),), own=("dataset.rng",))
TWICE = Twice(looked=4, own=4, paths=("dataset.scans",), index="3")
EPOCHS = Epochs(looked=60, stale=60, arrived=60, moved=60, first=True, paths=("dataset.epoch",))
STREAM = Shares(whole=64, ended=True, shares=(64, 64), complete=True, same=48, compared=48)
STREAM = replace(STREAM, distinct=48)
DEALT = replace(STREAM, shares=(32, 32), same=0)
COUNTED = Twice(looked=4, counter="dataset.step")
COUNT = State(steady=True, same=False, content=True, paths=(("dataset.bad", "0", "8"),))
ORDER = Order(epochs=3, repeated=2, moves=True, ranks=2, shuffles=True)
DROPS = Evidence(replace(PARTS, stream=True, drop_last=True), FEWER, alone=FINISHED)


def ill(**found: Any) -> Evidence:
    """A loader that runs well, and what was found out about it."""
    return replace(WELL, **found)


FITS = [
    ("shared_file_offset", ill(handles=FILE)),
    ("lazy_but_touched", ill(handles=LAZY)),
    ("shared_connection", ill(handles=SOCKET)),
    ("repeated_randomness", ill(repeats=RANDOM)),
    ("mutated_in_place", ill(twice=TWICE)),
    ("stale_epoch", ill(epochs=EPOCHS)),
    ("reused_buffer", ill(copies=Copies(looked=8, differ=8, steady=True, path="dataset.row"))),
    ("repeated_stream", ill(shares=STREAM)),
    ("lost_tail", replace(DROPS, shares=DEALT)),
    ("wrong_length", ill(ending=Ending(60, 64))),
    ("wrong_length", ill(ending=Ending(60, 58, said="IndexError: list index out of range"))),
    ("global_state", ill(state=COUNT)),
    ("global_state", ill(twice=COUNTED, repeats=RANDOM, alone=replace(FINISHED, passes=(("a",),)))),
    ("ranks", ill(order=ORDER)),
    ("ranks", ill(order=Order(epochs=1, moves=False, ranks=2, twice=1))),
]

NEAR_MISSES = [
    ("nothing was found out", ill()),
    ("a file is used by all, and a lock keeps them apart", ill(handles=replace(FILE, wrong=0))),
    ("a connection is used by one at a time", ill(handles=replace(SOCKET, wrong=0))),
    ("each worker has numbers of its own", ill(repeats=Repeats((("own", 12, 0, 24, 0, 24),)))),
    ("one or two samples vary: too few", ill(repeats=Repeats((("own", 2, 4, 4, 4, 4),)))),
    (
        "all workers must shuffle a stream alike to deal it out",
        ill(repeats=Repeats((("all", 48, 48, 48, 0, 48),), order=True), shares=DEALT),
    ),
    ("a sample counts its visits elsewhere", ill(twice=replace(TWICE, paths=()))),
    ("the epoch is in shared memory", ill(epochs=replace(EPOCHS, stale=0))),
    ("the epoch changes nothing for anybody", ill(epochs=replace(EPOCHS, moved=0))),
    ("a buffer is copied by the collate function", ill(copies=Copies(8, 0, steady=True))),
    ("batches are others in every run", ill(copies=Copies(8, 8, steady=False))),
    ("a stream is dealt out", ill(shares=DEALT)),
    ("all samples of a stream are equal", ill(shares=replace(STREAM, distinct=1))),
    ("nothing is left to drop", replace(DROPS, run=FINISHED, shares=DEALT)),
    ("the length is a limit", ill(ending=Ending(60, 64, limits=("dataset.limit",)))),
    ("the dataset ends nowhere", ill(ending=Ending(60))),
    ("a count decides, and is the same for all", ill(twice=COUNTED)),
    ("a count is in shared memory", ill(state=replace(COUNT, same=True))),
    ("the loop says how long it took", ill(state=replace(COUNT, steady=False))),
    ("the epoch is told", ill(order=replace(ORDER, told=3, repeated=0))),
    ("one epoch has no other to repeat", ill(order=replace(ORDER, epochs=1, repeated=0))),
]


def fits(evidence: Evidence) -> dict[str, Finding]:
    """What fits, by name."""
    found = {each.name: RULES[each.name](evidence) for each in CATALOGUE}
    return {name: fit for name, fit in found.items() if fit}


@pytest.mark.parametrize(("name", "evidence"), FITS)
def test_what_it_is_and_nothing_else_fits(name: str, evidence: Evidence) -> None:
    assert list(fits(evidence)) == [name]


@pytest.mark.parametrize(("healthy", "evidence"), NEAR_MISSES)
def test_a_healthy_loader_that_looks_ill_has_no_finding(healthy: str, evidence: Evidence) -> None:
    assert not fits(evidence), healthy


def test_a_run_that_ends_through_a_shared_file_is_told_as_that_first() -> None:
    raised = Measures("raised", kind="BadZipFile", raised="BadZipFile")
    fit = fits(replace(ill(handles=FILE), run=raised))["shared_file_offset"]
    assert fit.ended
    assert "20" in fit.evidence and "dataset.scans" in fit.fix
