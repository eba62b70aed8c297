"""Scaling a view: what it does depends on who owns the data and how long it lives."""

from __future__ import annotations

from typing import Any

import pytest

from dltutor.failures import mutated_in_place
from dltutor.failures.mutated_in_place import LENGTH
from dltutor.observation import observe

HISTORIES = [
    # workers, persistent, start method, as numpy, wrong
    (0, False, "fork", True, LENGTH),
    (2, False, "fork", True, 0),
    (2, True, "fork", True, LENGTH),
    (2, False, "fork", False, 0),
    (1, False, "forkserver", True, 0),
    (1, False, "forkserver", False, LENGTH),  # a tensor is moved to shared memory, not copied
]


@pytest.mark.parametrize(("workers", "persistent", "method", "as_numpy", "wrong"), HISTORIES)
def test_no_workers_fresh_workers_and_persistent_workers_differ(
    workers: int, persistent: bool, method: str, as_numpy: bool, wrong: int
) -> None:
    case = mutated_in_place.broken(
        workers=workers, start_method=method, persistent=persistent, as_numpy=as_numpy
    )
    finding: Any = observe(case.loader, consume=case.consume).result
    assert finding.value == wrong


@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, False), (2, True)])
@pytest.mark.parametrize("as_numpy", [True, False])
def test_a_new_array_is_right_whoever_owns_the_data(
    workers: int, persistent: bool, as_numpy: bool
) -> None:
    case = mutated_in_place.fixed(workers=workers, persistent=persistent, as_numpy=as_numpy)
    finding: Any = observe(case.loader, consume=case.consume).result
    assert finding.value == 0


def test_the_same_sample_twice_tells_the_broken_dataset_from_the_mended_one() -> None:
    broken, fixed = mutated_in_place.Spectra(), mutated_in_place.UntouchedSpectra()
    assert (broken[1].tolist(), broken[1].tolist()) == ([4.0] * 8, [8.0] * 8)
    assert (fixed[1].tolist(), fixed[1].tolist()) == ([4.0] * 8, [4.0] * 8)
