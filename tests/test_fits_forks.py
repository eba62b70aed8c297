"""Recorded evidence of start methods and forks, and the failure modes that it fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from recorded import PARTS

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.measures import Measures
from dltutor.diagnosis.other_machines import elsewhere
from dltutor.diagnosis.probes.imported import Imported
from dltutor.diagnosis.probes.parts import Parts
from dltutor.diagnosis.probes.samples import Samples
from dltutor.diagnosis.probes.travel import Travel
from dltutor.diagnosis.probes.two_ranks import TwoRanks
from dltutor.diagnosis.probes.waits import Waits
from dltutor.diagnosis.rules import RULES
from dltutor.failures import CATALOGUE

LINE = "tiles.py, line 12, in __getitem__: with self.lock:"
PARTS = replace(
    PARTS,
    dataset="Tiles",
    where="tiles.py, line 10",
    batch_size=4,
    length=16,
    batches=4,
    sampler="SequentialSampler",
    loop=False,
)
SPAWN = replace(PARTS, method="spawn")
WELL = Measures("finished", batches=4, finished=(True,), drawn=(("a", "b"),))
HUNG = Measures("hung")
DIED = Measures("worker died", error="RuntimeError: DataLoader worker exited unexpectedly")
RAISED = Measures("raised", "TypeError: 'NoneType' object", "TypeError", "TypeError")
SAMPLES = Samples(16)


def of(parts: Parts, run: Measures, **found: Any) -> Evidence:
    """Evidence of a loader that runs well without workers."""
    return Evidence(parts, run, **({"samples": SAMPLES, "alone": WELL} | found))


def stuck(kind: str, by: str = "tiles.py", freed: bool = True, **found: Any) -> Waits:
    """What a witness found in W0."""
    return Waits(((0, LINE, kind, "dataset.lock", by, freed),), **found)


HELD = ("dataset.lock",)
REFUSED = replace(RAISED, said="daemonic processes are not allowed to have children")
NO_PICKLE = Measures("raised", "TypeError: cannot pickle 'socket' object", "TypeError")
SOCKET = Travel((("dataset.net", "socket", "TypeError: cannot pickle 'socket' object"),))
NO_CLASS = replace(DIED, said="Can't get attribute 'Tiles' on <module '__main__' (built-in)>")
SCRIPT = replace(DIED, said="An attempt has been made to start a new process before the current")
GONE = Travel(gone=(("dataset.rng", "Generator"),))
GIVEN = Imported("finished", batches=4, names=("tiles.SCALE",))
DREW = replace(WELL, drawn=(("1", "2"),), finished=(True,))
OTHERS = replace(WELL, drawn=(("1", "3"),), finished=(True,))

FITS = {
    "held_lock": of(PARTS, HUNG, waits=stuck("lock", held=HELD)),
    "plot_in_thread": of(PARTS, HUNG, waits=stuck("lock", "/x/matplotlib/figure.py", held=HELD)),
    "lost_thread": of(PARTS, HUNG, waits=stuck("executor")),
    "openmp_after_fork": of(PARTS, HUNG, waits=stuck("", freed=False, threads=2), one_thread=WELL),
    "children_of_workers": of(PARTS, REFUSED),
    "unpicklable_handle": of(SPAWN, NO_PICKLE, travel=SOCKET),
    "main_only_class": of(SPAWN, NO_CLASS, travel=Travel(main=("Tiles",))),
    "missing_main_guard": of(SPAWN, SCRIPT, travel=Travel()),
    "generator_attribute": of(SPAWN, DIED, travel=GONE),
    "global_only_in_parent": of(SPAWN, RAISED, forked=WELL, imported=GIVEN),
}
MISSES = {
    "a lock that is given back and changes nothing": of(
        PARTS, HUNG, waits=stuck("lock", freed=False, held=HELD)
    ),
    "a lock that the same thread takes twice, in main too": of(
        PARTS, HUNG, waits=stuck("lock"), alone=HUNG
    ),
    "a lock that is held, and that no worker waits for": of(
        PARTS, WELL, while_held=Waits(held=HELD)
    ),
    "a worker that hangs with one thread too": of(
        PARTS, HUNG, waits=stuck("", freed=False, threads=2), one_thread=HUNG
    ),
    "a worker that computes with one thread anyway": of(
        PARTS, HUNG, waits=stuck("", freed=False, threads=1), one_thread=WELL
    ),
    "a socket in a dataset of forked workers": of(PARTS, WELL, travel=SOCKET),
    "a generator that never travels": of(PARTS, WELL, travel=GONE),
    "a class of main's that new interpreters find": of(SPAWN, WELL, travel=Travel(main=("T",))),
    "new interpreters that fail with main's globals as well": of(
        SPAWN, RAISED, forked=WELL, imported=replace(GIVEN, end="raised", batches=0)
    ),
    "forked workers that differ from main as well": of(
        SPAWN, WELL, alone=DREW, forked=OTHERS, imported=GIVEN
    ),
}


def fitting(evidence: Evidence) -> list[str]:
    """The failure modes of this group that fit."""
    return [each.name for each in CATALOGUE if each.name in FITS and RULES[each.name](evidence)]


@pytest.mark.parametrize("name", FITS)
def test_evidence_of_a_failure_fits_it_and_no_other(name: str) -> None:
    assert fitting(FITS[name]) == [name]


@pytest.mark.parametrize("what", MISSES)
def test_what_only_looks_like_it_fits_none(what: str) -> None:
    assert fitting(MISSES[what]) == []


def test_a_fit_names_the_path_and_what_was_done() -> None:
    fit = RULES["held_lock"](FITS["held_lock"])
    assert fit is not None
    assert "`dataset.lock`" in fit.where
    assert "W0 went on" in fit.evidence


def test_what_cannot_travel_is_said_of_forked_workers_only() -> None:
    [said] = elsewhere(of(PARTS, WELL, travel=SOCKET))
    assert "`dataset.net`" in said
    assert not elsewhere(of(SPAWN, NO_PICKLE, travel=SOCKET))


def test_batches_larger_than_the_shared_memory_of_a_container_are_counted() -> None:
    assert not elsewhere(of(PARTS, replace(WELL, batch_bytes=12 << 20)))
    [said] = elsewhere(of(PARTS, replace(WELL, batch_bytes=20 << 20)))
    assert said.startswith("In a container")


def test_a_stream_that_takes_no_share_by_rank_is_named() -> None:
    assert elsewhere(of(PARTS, WELL, two_ranks=TwoRanks(32, 32, 32)))
    assert not elsewhere(of(PARTS, WELL, two_ranks=TwoRanks(32, 0, 32)))
    assert not elsewhere(of(PARTS, WELL, two_ranks=TwoRanks(32, 32, 1)))
