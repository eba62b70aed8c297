"""A worker counts for itself; what is shared counts for all."""

from __future__ import annotations

from typing import Any

import pytest

from dltutor.failures import global_state
from dltutor.failures.global_state import MISSING
from dltutor.failures.tools.contract import Case
from dltutor.observation import observe


def not_counted(case: Case) -> Any:
    return observe(case.loader, consume=case.consume).result


def test_without_workers_the_global_variable_counts_right() -> None:
    assert not_counted(global_state.broken(workers=0)).value == 0
    assert global_state.replaced == MISSING


def test_with_workers_the_main_process_keeps_its_nought() -> None:
    assert not_counted(global_state.broken()).value == MISSING
    assert global_state.replaced == 0


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
@pytest.mark.parametrize("shared", ["slots", "value"])
def test_shared_memory_counts_right_with_any_number_of_workers(shared: Any, workers: int) -> None:
    assert not_counted(global_state.fixed(workers=workers, shared=shared)).value == 0


def test_each_process_counts_in_its_own_slot() -> None:
    case = global_state.fixed(workers=2)
    not_counted(case)
    slots = case.loader.dataset.replaced.tolist()  # type: ignore[attr-defined]
    # One of eight is missing, in batches of eight: each batch has one.
    assert slots == [MISSING // 2, MISSING // 2]


def test_a_value_must_come_from_the_context_of_the_start_method() -> None:
    case = global_state.fixed(start_method="forkserver", shared="value")
    assert not_counted(case).value == 0
    forked = global_state.ReadingsWithValue("fork")
    loader = global_state.fixed(start_method="forkserver", shared="value").loader
    other = type(loader)(forked, num_workers=1, multiprocessing_context="forkserver")
    [(kind, message)] = observe(other).chain
    assert kind == "RuntimeError" and "created in a fork context" in message
