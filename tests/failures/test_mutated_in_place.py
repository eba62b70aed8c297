"""Test that fresh workers hide an in-place change, unless they share a tensor."""

from __future__ import annotations

import pytest
from datasets import load

from dltutor.failures.mutated_in_place import LENGTH, Spectra, UntouchedSpectra, train


@pytest.mark.parametrize(
    ("workers", "method", "as_numpy", "wrong"),
    [
        (2, "fork", True, 0),
        (2, "fork", False, 0),
        (1, "forkserver", True, 0),
        (1, "forkserver", False, LENGTH),  # a tensor is moved to shared memory, not copied
    ],
)
def test_fresh_workers_hide_it_unless_they_share_a_tensor(
    workers: int, method: str, as_numpy: bool, wrong: int
) -> None:
    loader = load(Spectra(as_numpy=as_numpy), method, batch_size=4, num_workers=workers)
    assert train(loader).value == wrong


def test_the_same_sample_twice_tells_the_broken_dataset_from_the_mended_one() -> None:
    broken, fixed = Spectra(), UntouchedSpectra()
    assert (broken[1].tolist(), broken[1].tolist()) == ([4.0] * 8, [8.0] * 8)
    assert (fixed[1].tolist(), fixed[1].tolist()) == ([4.0] * 8, [4.0] * 8)
