"""The dataset returns None for a sample that it can't load, and the batch can't be built.

Symptom: `AttributeError: 'NoneType' object has no attribute 'numel'`, or `TypeError:
default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class
'NoneType'>`.

Mechanism: `__getitem__` swallows the error and returns None, for the training loop to skip. The
loop never gets the chance, because `default_collate` runs in the worker, before any batch is sent,
and it rejects None on purpose. Which message you see depends on where in the batch the None is,
because the first sample decides how torch joins the samples. The first message, for a None after a
tensor, comes from a worker. With `num_workers=0`, the same batch raises `TypeError: expected Tensor
as element N in argument 0, but got NoneType`. A whole sample that is None, after a tuple, raises
`TypeError: object of type 'NoneType' has no len()`.

Fix: decide before the epoch which samples exist (see `corrupt_images`). If you can't, drop the
missing ones in `collate_fn`, expect a batch with nothing left in it, and count what you drop.

Seen in: pytorch#1137, pytorch#57429 (a `collate_fn` that filters everything), YOLOX#1523.
"""

from __future__ import annotations

from typing import Any

from torch.utils.data import default_collate

from dltutor.failures.corrupt_images import Images, VerifiedImages, shared_images
from dltutor.failures.tools import Case, Failure, Says, facts_of, load


class SkippingImages(Images):
    """A dataset of images that returns (None, None) for an image that doesn't load."""

    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except Exception:
            return None, None


class ImagesOrNone(VerifiedImages):
    """A dataset of images that returns None for a bad image, which `collate_present` drops."""

    def __init__(self, root: Any) -> None:
        Images.__init__(self, root)  # VerifiedImages would check every file before the epoch

    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except RuntimeError:
            return None


def collate_present(samples: list[Any]) -> tuple[Any, int]:
    """Collate the samples that aren't None.

    Returns:
        The batch (None if no sample is left), and the number of missing samples.
    """
    present = [sample for sample in samples if sample is not None]
    missing = len(samples) - len(present)
    return (default_collate(present) if present else None), missing


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset returns (None, None) for a bad image, for the loop to skip."""
    return Case(load(SkippingImages(shared_images()), workers, start_method, batch_size=8))


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose `collate_fn` drops and counts the missing samples."""
    dataset = ImagesOrNone(shared_images())
    return Case(load(dataset, workers, start_method, batch_size=8, collate_fn=collate_present))


FAILURE = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Says(
        "raised",
        (
            "AttributeError: 'NoneType' object has no attribute 'numel'",
            "found <class 'NoneType'>",
        ),
    ),
)
