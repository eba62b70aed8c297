"""Test that the slices as bytes and as numbers show the same scan."""

from __future__ import annotations

import numpy as np
import torch

from dltutor.failures.shm_exhausted import ByteSlices, Slices, as_arrays, shared_scan


def test_bytes_and_numbers_hold_the_same_picture() -> None:
    numbers, gray = Slices(shared_scan())[7], ByteSlices(shared_scan())[7]
    assert torch.equal(numbers, gray.float() / 255)
    assert numbers.nbytes == 4 * gray.nbytes == 1 << 20
    assert np.array_equal(as_arrays([gray, gray])[1], gray.numpy())
