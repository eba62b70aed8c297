"""Test that only the garbage collector frees a recording with a reference cycle."""

from __future__ import annotations

import gc
import weakref

from dltutor.failures.data.readings import shared_recordings
from dltutor.failures.reference_cycle import Recording, RecordingWithoutCycle


def test_only_the_collector_frees_a_cycle() -> None:
    path = shared_recordings(1, 100)[0]
    gc.disable()
    try:
        recordings = [Recording(path), RecordingWithoutCycle(path)]
        alive = [weakref.ref(recording) for recording in recordings]
        recordings.clear()
        assert [recording() is not None for recording in alive] == [True, False]
        gc.collect()
        assert alive[0]() is None
    finally:
        gc.enable()
