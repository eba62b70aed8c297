"""Test that the collate function decides whether main hangs if /dev/shm is too small."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dltutor.failures import shm_exhausted
from dltutor.failures.shm_exhausted import ByteSlices, Slices, as_arrays, shared_scan
from dltutor.observation import confine

pytestmark = pytest.mark.timeout(100, method="thread")

SHM = "24M"


@pytest.mark.thorough  # starts an interpreter that imports torch
def test_a_list_of_tensors_is_lost_in_the_queue_and_main_waits_for_ever() -> None:
    seen = confine(shm_exhausted.broken, shm=SHM, deadline=5, collate="list")
    assert seen.end == "hung"
    assert "Traceback" in seen.stderr and "unable to allocate shared memory(shm)" in seen.stderr
    assert all(worker.exitcode is None for worker in seen.workers), "nobody died"


@pytest.mark.thorough  # starts an interpreter that imports torch
def test_numpy_arrays_need_no_shared_memory() -> None:
    seen = confine(shm_exhausted.broken, shm="2M", collate="numpy")
    assert (seen.end, seen.samples) == ("finished", shm_exhausted.LENGTH)


def test_bytes_and_numbers_hold_the_same_picture() -> None:
    numbers, gray = Slices(shared_scan())[7], ByteSlices(shared_scan())[7]
    assert torch.equal(numbers, gray.float() / 255)
    assert numbers.nbytes == 4 * gray.nbytes == 1 << 20
    assert np.array_equal(as_arrays([gray, gray])[1], gray.numpy())
