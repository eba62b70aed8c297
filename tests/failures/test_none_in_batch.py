"""Test what torch says about a None in a batch, and that the fixed collate function counts it."""

from __future__ import annotations

import pytest
import torch
from datasets import load
from torch.utils.data import Subset

from dltutor.failures import none_in_batch
from dltutor.failures.corrupt_images import VerifiedImages, shared_images
from dltutor.failures.none_in_batch import ImagesOrNone, SkippingImages, collate_present
from dltutor.observation import observe
from dltutor.observation.texts import said

# If an image can't be read, the broken dataset leaves the file open, as many datasets do.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")

SAMPLE = (torch.ones(3), 1)


@pytest.mark.parametrize(
    ("wanted", "workers", "told"),
    [
        (["good", "bad"], 2, "AttributeError: 'NoneType' object has no attribute 'numel'"),
        (
            ["good", "bad"],
            0,
            "TypeError: expected Tensor as element 1 in argument 0, but got NoneType",
        ),
        (["bad", "good"], 2, "found <class 'NoneType'>"),
        (["bad", "good"], 0, "found <class 'NoneType'>"),
    ],
)
def test_what_is_said_depends_on_where_the_none_stands_and_on_the_workers(
    wanted: list[str], workers: int, told: str
) -> None:
    skipping = SkippingImages(shared_images())
    index = {"bad" if skipping[i] == (None, None) else "good": i for i in range(len(skipping))}
    loader = load(Subset(skipping, [index[each] for each in wanted]), num_workers=workers)
    [(kind, message)] = observe(loader).chain
    assert said(kind, message).endswith(told)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_whole_none_after_a_tuple_has_no_length(workers: int) -> None:
    [(kind, message)] = observe(load([SAMPLE, None], num_workers=workers)).chain
    assert said(kind, message) == "TypeError: object of type 'NoneType' has no len()"


def test_what_is_there_is_batched_and_what_is_missing_is_counted() -> None:
    (pixels, labels), missing = collate_present([SAMPLE, None, SAMPLE])
    assert (pixels.shape, labels.tolist(), missing) == ((2, 3), [1, 1], 1)
    assert collate_present([None, None]) == (None, 2)


def test_over_an_epoch_what_came_and_what_was_missed_add_up_to_all_files() -> None:
    loader = none_in_batch.fixed(workers=0).loader
    came = missed = 0
    for batch, missing in loader:
        came += 0 if batch is None else len(batch[1])
        missed += missing
    verified = VerifiedImages(shared_images())
    assert (came, missed) == (len(verified), len(verified.quarantined))


def test_no_file_is_opened_before_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    monkeypatch.setattr("PIL.Image.open", lambda path, *args: opened.append(path))
    ImagesOrNone(shared_images())
    assert not opened
