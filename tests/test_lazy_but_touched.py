"""Lazy opening is only as good as the main process's hands are still."""

from __future__ import annotations

from typing import Any

import pytest
from datasets import NO_PICKLE_OF_A_FILE

from dltutor.failures import lazy_but_touched
from dltutor.failures.tools.contract import Case
from dltutor.observation import observe


def wrong(case: Case) -> float:
    finding: Any = observe(case.loader, consume=case.consume).result
    return float(finding.value)


@pytest.mark.parametrize("start_method", ["fork", "forkserver"])
def test_untouched_the_lazy_dataset_reads_right(start_method: str) -> None:
    assert wrong(lazy_but_touched.broken(start_method=start_method, touched=False)) == 0


def test_one_look_at_a_sample_makes_it_read_wrong() -> None:
    assert wrong(lazy_but_touched.broken(touched=True)) > 0


@pytest.mark.parametrize("touched", [False, True])
def test_keyed_by_process_it_may_be_touched(touched: bool) -> None:
    assert wrong(lazy_but_touched.fixed(touched=touched)) == 0


def test_keyed_by_process_it_can_be_pickled_though_touched() -> None:
    assert wrong(lazy_but_touched.fixed(start_method="forkserver")) == 0


def test_the_main_process_can_go_on_reading_afterwards() -> None:
    case = lazy_but_touched.fixed()
    assert wrong(case) == 0
    assert case.loader.dataset[5].unique().tolist() == [5]


def test_touched_it_does_not_get_past_spawn() -> None:
    case = lazy_but_touched.broken(start_method="spawn")
    seen = observe(case.loader, consume=case.consume)
    assert seen.chain[0] == ("TypeError", NO_PICKLE_OF_A_FILE)
