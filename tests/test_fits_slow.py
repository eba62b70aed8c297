"""The slow loaders of lesson 13: what evidence fits them, and what only looks like it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from recorded import PARTS

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.measures import Measures
from dltutor.diagnosis.probes.samples import Samples
from dltutor.diagnosis.probes.threads import Threads
from dltutor.diagnosis.rules import RULES
from dltutor.diagnosis.running.pace import Paces
from dltutor.failures import CATALOGUE

PARTS = replace(
    PARTS,
    dataset="Sounds",
    where="sounds.py, line 12",
    batch_size=16,
    length=9000,
    batches=563,
    persistent=True,
    collate="keep",
    init="start",
)
RUN = Measures(
    "finished", batches=6, tensors=96, passes=(("a",),) * 6, counted=(16,) * 6, finished=(False,)
)
SAMPLES = Samples(looked=200, typical=0.0005, slowest=1.5, slowest_at=7)
EVIDENCE = Evidence(PARTS, RUN, samples=SAMPLES)


def paces(as_is: float, changed: float, turns: int = 3) -> Paces:
    return Paces((as_is,) * turns, (changed,) * turns)


def threads(
    alone: tuple[int, ...], *turns: tuple[float, float], cores: int = 4, each: int = 4
) -> Evidence:
    return replace(EVIDENCE, threads=Threads(cores, (each, each), alone, turns))


def nested(counted: tuple[int, ...], own: tuple[int, ...], resumed: int = 1) -> Evidence:
    run = replace(RUN, counted=counted, finished=(True, True), resumed=resumed)
    return replace(EVIDENCE, run=run, not_kept=replace(run, counted=own))


ILL = {
    "tiny_tensors": replace(EVIDENCE, sending=paces(0.05, 0.005)),
    "cheap_samples": replace(EVIDENCE, workerless=paces(0.003, 0.0005)),
    "loader_per_step": replace(EVIDENCE, one_iterator=paces(0.12, 0.002, turns=2)),
    "head_of_line": replace(EVIDENCE, any_order=paces(1.6, 0.1, turns=2)),
    "oversubscribed": threads((1, 1), (1.9, 1.1), (1.0, 1.0)),
    "nested_persistent": nested((16, 64), (64, 64)),
}

HEALTHY = {
    "sending many tensors is a small part": ("tiny_tensors", "sending", paces(0.05, 0.04)),
    "one turn shows nothing": ("tiny_tensors", "sending", paces(0.05, 0.005, turns=1)),
    "a turn is otherwise": ("tiny_tensors", "sending", Paces((0.05, 0.05), (0.005, 0.05))),
    "workers do not help": ("cheap_samples", "workerless", paces(0.001, 0.0009)),
    "starting is a small part": ("loader_per_step", "one_iterator", paces(0.5, 0.4, turns=2)),
    "a new iterator costs little": ("loader_per_step", "one_iterator", paces(0.004, 0.001)),
    "the order changes little": ("head_of_line", "any_order", paces(1.6, 1.4, turns=2)),
    "the slow one is not slow": ("head_of_line", "any_order", paces(0.1, 0.01, turns=2)),
}


@pytest.mark.parametrize("name", ILL)
def test_a_slow_loader_fits_its_failure_and_no_other_of_them(name: str) -> None:
    fitting = [each.name for each in CATALOGUE if each.name in ILL and RULES[each.name](ILL[name])]
    assert fitting == [name]


@pytest.mark.parametrize(("name", "field", "measured"), HEALTHY.values(), ids=HEALTHY)
def test_what_a_changed_loader_does_as_well_is_no_failure(
    name: str, field: str, measured: Paces
) -> None:
    assert fit(name, replace(EVIDENCE, **{field: measured})) is None


def test_workers_are_not_too_many_where_their_slowness_has_another_cause() -> None:
    evidence = replace(EVIDENCE, workerless=paces(0.06, 0.005))
    assert fit("cheap_samples", replace(evidence, sending=paces(0.05, 0.005))) is None
    assert fit("cheap_samples", replace(evidence, one_iterator=paces(0.1, 0.001))) is None


def test_threads_that_have_a_core_each_or_are_needed_are_not_too_many() -> None:
    assert fit("oversubscribed", threads((1, 1), (1.0, 1.0), (1.0, 1.0), cores=8)) is None
    assert fit("oversubscribed", threads((1, 1), (0.5, 1.0), (0.5, 1.0))) is None
    assert fit("oversubscribed", threads((4, 4), (1.0, 1.0), (1.0, 1.0))) is None


def test_an_epoch_that_is_left_for_the_next_one_is_no_nested_loop() -> None:
    assert fit("nested_persistent", nested((16, 64), (16, 64))) is None
    assert fit("nested_persistent", nested((16, 64), (64, 64), resumed=0)) is None


def test_a_fit_names_the_loader_in_its_own_words() -> None:
    told = {name: fit(name, evidence) for name, evidence in ILL.items()}
    assert "Pack what keep puts" in told["tiny_tensors"].fix
    assert "dataset[7] takes 1.5 s" in told["head_of_line"].evidence
    assert told["oversubscribed"].where == "worker_init_fn=start"


def fit(name: str, evidence: Evidence) -> Any:
    return RULES[name](evidence)
