"""A recording with a cycle waits for the collector, one without goes at once."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
import torch

from dltutor.failures import reference_cycle
from dltutor.failures.data.readings import shared_recordings
from dltutor.failures.reference_cycle import Recording, RecordingWithoutCycle


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def test_a_cycle_is_freed_by_the_collector_only() -> None:
    recording = Recording(shared_recordings(1, 100)[0])
    alive = weakref.ref(recording)
    del recording
    assert alive() is not None
    gc.collect()
    assert alive() is None


def test_without_a_cycle_the_last_reference_frees_it() -> None:
    recording = RecordingWithoutCycle(shared_recordings(1, 100)[0])
    alive = weakref.ref(recording)
    del recording
    assert alive() is None


def test_with_and_without_cycles_the_samples_are_the_same() -> None:
    broken, fixed = (
        make(workers=0).loader.dataset for make in (reference_cycle.broken, reference_cycle.fixed)
    )
    assert all(torch.equal(broken[index], fixed[index]) for index in (0, 7, 119))
