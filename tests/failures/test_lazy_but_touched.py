"""Test that a lazily opened file fails once main uses it, unless each process opens its own."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest
from datasets import NO_PICKLE_OF_A_FILE

from dltutor.failures import lazy_but_touched
from dltutor.failures.tools.contract import Case
from dltutor.observation import observe


def wrong(case: Case) -> float:
    finding: Any = observe(case.loader, consume=case.consume).result
    return float(finding.value)


def test_untouched_the_lazy_dataset_reads_right() -> None:
    assert wrong(lazy_but_touched.broken(touched=False)) == 0


def test_main_can_go_on_reading_with_a_file_for_each_process() -> None:
    case = lazy_but_touched.fixed()
    assert wrong(case) == 0
    assert case.loader.dataset[5].unique().tolist() == [5]


def test_touched_it_cannot_be_sent_to_a_new_process() -> None:
    with pytest.raises(TypeError, match=re.escape(NO_PICKLE_OF_A_FILE)):
        pickle.dumps(lazy_but_touched.broken().loader.dataset)
