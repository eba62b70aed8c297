"""What one run measures is enough to say, and what it didn't measure isn't said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from recorded import PARTS

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.examination import silent
from dltutor.diagnosis.measures import Measures
from dltutor.diagnosis.other_machines import elsewhere
from dltutor.diagnosis.probes.parts import Parts
from dltutor.diagnosis.probes.travel import Travel
from dltutor.diagnosis.promises import broken
from dltutor.tables import MB

DRAWN = tuple(map(str, range(60)))
WHOLE = Measures(
    "finished", batches=8, passes=(("a",),), drawn=(DRAWN,), counted=(60,), finished=(True,)
)
TWO = replace(WHOLE, passes=(("a",), ("a",)), drawn=(DRAWN, DRAWN[:40]), finished=(True, True))
STREAM = replace(PARTS, stream=True)


@pytest.mark.parametrize(
    ("parts", "run", "promise"),
    [
        (replace(STREAM, length=48), WHOLE, "complete"),
        (replace(STREAM, length=60), WHOLE, None),
        (replace(STREAM, length=48), replace(WHOLE, finished=(False,)), None),
        (replace(STREAM, length=48), replace(TWO, counted=(60, 40)), None),
        (replace(STREAM, length=61, drop_last=True), WHOLE, None),
        (PARTS, replace(WHOLE, ending=5.8, first=0.2), "ends"),
        (replace(PARTS, method="spawn"), replace(WHOLE, ending=5.8, first=14.0), None),
        (PARTS, replace(WHOLE, cores=(1, 2)), "quick"),
        (PARTS, replace(WHOLE, cores=(2, 2)), None),
        (PARTS, replace(WHOLE, cores=(1, 1)), None),
        (replace(PARTS, workers=1), replace(WHOLE, cores=(1, 2)), None),
    ],
    ids=[
        "len() is too small",
        "len() is right",
        "the epoch wasn't seen to its end",
        "its length is random",
        "the last batch is dropped",
        "workers don't exit",
        "workers take long to start, too",
        "two workers on one core",
        "a core for each worker",
        "main has one core, too",
        "a single worker",
    ],
)
def test_what_a_run_measures(parts: Parts, run: Measures, promise: str | None) -> None:
    found = broken(Evidence(parts, run, alone=WHOLE), ())
    assert [each.promise for each in found] == ([promise] if promise else [])


@pytest.mark.parametrize(
    ("method", "size", "promise"), [("spawn", 80, "bounded"), ("spawn", 20, ""), ("fork", 80, "")]
)
def test_a_mapped_file_is_copied_into_workers_that_are_not_forked(
    method: str, size: int, promise: str
) -> None:
    travel = Travel(mapped=(("dataset.images", size * MB),), bytes=size * MB)
    evidence = Evidence(replace(PARTS, method=method), WHOLE, alone=WHOLE, travel=travel)
    assert [each.promise for each in broken(evidence, ())] == ([promise] if promise else [])
    assert bool(elsewhere(evidence)) == (method == "fork")


def test_a_loop_that_leaves_the_loader_alone_shows_nothing() -> None:
    assert silent(Evidence(PARTS, Measures("finished")))
    assert not silent(Evidence(replace(PARTS, loop=False), Measures("finished")))
    assert not silent(Evidence(PARTS, WHOLE))
