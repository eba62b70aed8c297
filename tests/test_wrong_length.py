"""Too small a length is silent; too large a one is up to __getitem__; a stream's is not asked."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from datasets import Stream, load

from dltutor.failures import wrong_length
from dltutor.failures.wrong_length import (
    STRIDE,
    WINDOWS,
    CountedWindows,
    TooManyWindows,
    Windows,
    recording,
)
from dltutor.observation import observe


class MeasuredStream(Stream):
    def __init__(self, length: int, said: int) -> None:
        super().__init__(length)
        self.said = said

    def __len__(self) -> int:
        return self.said


@pytest.mark.parametrize("workers", [0, 2])
def test_too_small_a_length_is_silent_with_and_without_workers(workers: int) -> None:
    case = wrong_length.broken(workers=workers)
    seen = observe(case.loader, consume=case.consume)
    finding: Any = seen.result
    assert seen.end == "finished" and not seen.stderr
    assert finding.value == WINDOWS // 2


def test_too_large_a_length_fails_in_the_last_batch() -> None:
    case = wrong_length.broken(kind="long")
    seen = observe(case.loader, consume=case.consume)
    assert seen.end == "raised" and seen.raised_in_worker == "IndexError"
    assert seen.samples == WINDOWS  # all that exist had come before


def test_the_length_that_is_right_is_that_of_what_is_indexed() -> None:
    lengths = [len(kind(recording())) for kind in (Windows, CountedWindows, TooManyWindows)]
    assert lengths == [WINDOWS // 2, WINDOWS, WINDOWS + 1]
    windows = CountedWindows(recording())
    assert [int(windows[index][0]) for index in (0, WINDOWS - 1)] == [0, (WINDOWS - 1) * STRIDE]
    with pytest.raises(IndexError):
        windows[WINDOWS]


@pytest.mark.parametrize(("said", "warned"), [(4, True), (100, False)])
def test_a_stream_ends_when_it_ends_whatever_its_length_says(said: int, warned: bool) -> None:
    loader = load(MeasuredStream(8, said), batch_size=1, num_workers=0)
    assert len(loader) == said
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert len(list(loader)) == 8
    assert any("Length of IterableDataset" in str(each.message) for each in told) == warned
