"""Test what happens if `len` is too large for a dataset, or wrong for a stream."""

from __future__ import annotations

import warnings

import pytest
from datasets import Stream, load

from dltutor.failures.wrong_length import STRIDE, WINDOWS, Windows, recording
from dltutor.observation import observe


class TooManyWindows(Windows):
    """A dataset whose length counts windows that start too late to fit."""

    def __len__(self) -> int:
        return len(self.recording) // STRIDE


class MeasuredStream(Stream):
    def __init__(self, length: int, said: int) -> None:
        super().__init__(length)
        self.said = said

    def __len__(self) -> int:
        return self.said


def test_too_large_a_length_fails_in_the_last_batch() -> None:
    seen = observe(load(TooManyWindows(recording()), batch_size=8))
    assert (seen.end, seen.raised_in_worker) == ("raised", "IndexError")
    assert seen.samples == WINDOWS  # all existing windows arrived first


@pytest.mark.parametrize(("said", "warned"), [(4, True), (100, False)])
def test_a_stream_ends_when_it_ends_whatever_its_length_says(said: int, warned: bool) -> None:
    loader = load(MeasuredStream(8, said), batch_size=1, num_workers=0)
    assert len(loader) == said
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert len(list(loader)) == 8
    assert any("Length of IterableDataset" in str(each.message) for each in told) == warned
