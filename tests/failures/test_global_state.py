"""Test that workers can count in shared memory, but not with another start method's `Value`."""

from __future__ import annotations

from small_datasets import load

from dltutor.failures import global_state
from dltutor.failures.global_state import MISSING, ReadingsWithValue
from dltutor.observation import observe


def test_each_process_counts_in_its_own_slot() -> None:
    case = global_state.fixed(workers=3)
    assert case.consume(case.loader).value == 0
    # In each batch of eight, one value is missing.
    assert case.loader.dataset.replaced.tolist() == [3, 3, 2]


def test_a_value_must_come_from_the_context_of_the_start_method() -> None:
    ours, forked = ReadingsWithValue("forkserver"), ReadingsWithValue("fork")
    assert observe(load(ours, "forkserver", batch_size=8)).end == "finished"
    assert ours.replaced.value == MISSING
    [(kind, message)] = observe(load(forked, "forkserver", num_workers=1)).chain
    assert kind == "RuntimeError" and "created in a fork context" in message
