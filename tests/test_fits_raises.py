"""What raises and what dies, on recorded evidence: which name it gets, and which it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from recorded import PARTS

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Finding
from dltutor.diagnosis.measures import Measures
from dltutor.diagnosis.probes.culprit import Culprit
from dltutor.diagnosis.probes.culprit.uncollatable import blame
from dltutor.diagnosis.probes.in_workers import InWorkers
from dltutor.diagnosis.probes.leftovers import Leftover
from dltutor.diagnosis.probes.parts import Parts
from dltutor.diagnosis.probes.samples import Samples
from dltutor.diagnosis.reading import findings
from dltutor.diagnosis.rules import RULES

PARTS = replace(
    PARTS,
    where="scans.py, line 8",
    batch_size=4,
    length=40,
    batches=10,
    sampler="SequentialSampler",
    loop=False,
)
FORKSERVER = replace(PARTS, method="forkserver")
RAISED = Measures("raised", "ValueError: 9", "ValueError", "ValueError")
HUNG = Measures("hung", batches=2)
EARLY = Measures("finished", passes=(("a", "b"),), finished=(True,))
DIED = Measures("worker died", "RuntimeError: killed", "RuntimeError", codes=(None, -9))
SWALLOWED = Measures("finished", codes=(None, -9), passes=(("a",),), finished=(False,))
SAMPLE = Culprit("sample", "dataset[9]", "ValueError", "9", "scans.py, line 9", "ValueError")
COLLATE = Culprit("collate", "batch 2", "TypeError", "no", arrives="TypeError")
QUICK = Samples(40)


def fit(name: str, run: Measures, parts: Parts = PARTS, **further: Any) -> Finding | None:
    return RULES[name](Evidence(parts, run, **further))


@pytest.mark.parametrize(
    ("name", "run", "further", "near"),
    [
        (
            "corrupt_images",
            RAISED,
            {"culprit": replace(SAMPLE, decoder="PIL")},
            {"culprit": replace(SAMPLE, image="a.png: no", readable=0)},
        ),
        (
            "none_in_batch",
            RAISED,
            {"culprit": replace(COLLATE, blame="none")},
            {"culprit": COLLATE},
        ),
        ("lost_exception_type", replace(RAISED, kind="RuntimeError"), {"culprit": SAMPLE}, None),
        (
            "unpicklable_exception",
            HUNG,
            {"culprit": replace(SAMPLE, unsent="PicklingError: no")},
            {"culprit": SAMPLE},
        ),
        (
            "unpicklable_batch",
            HUNG,
            {"culprit": Culprit("transport", "batch 0", unsent="TypeError: no", part="batch[1]")},
            {"culprit": Culprit("")},
        ),
        (
            "silent_stop",
            EARLY,
            {"culprit": replace(SAMPLE, kind="StopIteration")},
            {"culprit": SAMPLE},
        ),
        (
            "ragged_batch",
            replace(RAISED, kind="TypeError", raised="TypeError"),
            {"culprit": replace(COLLATE, blame="ragged")},
            {"culprit": COLLATE, "samples": Samples(40)},
        ),
        (
            "dead_worker",
            DIED,
            {"samples": Samples(0, ended="died", at=9, code=-11)},
            {"samples": QUICK, "culprit": replace(SAMPLE, kind="SystemExit")},
        ),
        (
            "misleading_exit",
            DIED,
            {"in_workers": InWorkers("worker died", failed=((9, "SystemExit", "2", ""),))},
            {"in_workers": InWorkers("worker died", failed=((9, "ValueError", "2", ""),))},
        ),
        (
            "leftover_iterator",
            Measures("finished"),
            {"leftover": Leftover(alive=2, freed=1, kind="ValueError")},
            {"leftover": Leftover(alive=2)},
        ),
    ],
)
def test_each_fits_what_shows_it_and_not_what_only_looks_like_it(
    name: str, run: Measures, further: dict[str, Any], near: dict[str, Any] | None
) -> None:
    found = fit(name, run, **further)
    assert found is not None and found.certainty == "shown"
    assert fit(name, RAISED if near is None else run, **(further if near is None else near)) is None


def test_a_death_that_nobody_tells_of_is_a_lost_cause_under_forkserver_alone() -> None:
    assert fit("lost_cause", SWALLOWED, FORKSERVER, samples=QUICK) is not None
    assert fit("dead_worker", SWALLOWED, FORKSERVER, samples=QUICK) is None
    assert fit("lost_cause", SWALLOWED, samples=QUICK) is None
    assert fit("dead_worker", SWALLOWED, samples=QUICK) is not None
    terminated = replace(SWALLOWED, codes=(None, -15))  # as torch does after a break
    assert fit("dead_worker", terminated, samples=QUICK) is None


def test_an_exception_without_a_name_is_told_with_its_sample_and_line() -> None:
    (found,) = findings(Evidence(PARTS, RAISED, culprit=SAMPLE))
    assert (found.name, found.where) == ("raises", SAMPLE.at)
    assert "dataset[9] raises it" in found.evidence
    (found,) = findings(Evidence(PARTS, RAISED, culprit=replace(COLLATE, blame="none")))
    assert found.name == "none_in_batch"


def test_what_samples_cannot_be_joined_for_is_found_by_leaving_it_out() -> None:
    def join(samples: list[Any]) -> Any:
        assert len({len(each) for each in samples}) == 1
        return samples

    assert blame(join, ["ab", None, "cd"], [4, 5, 6], None) == ("none", "dataset[5] is None")
    kind, told = blame(join, [[1, 2], [1, 2, 3]], [4, 5], None)
    assert (kind, told) == ("ragged", "dataset[4] is of length 2, dataset[5] is of length 3")
    assert blame(lambda samples: 1 / 0, [[1], [2]], [0, 1], None) == ("", "")
