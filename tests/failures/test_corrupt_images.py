"""Test that the broken dataset fails on bad files, and that the fixed dataset sets them aside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dltutor.failures.corrupt_images import Images, VerifiedImages, shared_images
from dltutor.failures.data.images import SIDE, make_images

# If an image can't be read, the broken dataset leaves the file open, as many datasets do.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")

UNUSABLE = {
    "cut-short.jpg": "OSError: image file is truncated",
    "cut-short.png": "OSError: image file is truncated",
    "empty.jpg": "UnidentifiedImageError: cannot identify image file",
    "web-page.jpg": "UnidentifiedImageError: cannot identify image file",
    "deleted.jpg": "FileNotFoundError",
    "bomb.png": "DecompressionBombError",
}
if os.geteuid() != 0:  # root may read the file anyway
    UNUSABLE["no-permission.jpg"] = "PermissionError"


def test_each_unusable_file_is_set_aside_with_its_reason_and_no_other() -> None:
    verified = VerifiedImages(shared_images())
    reasons = {Path(path).name: why for path, why in verified.quarantined.items()}
    assert reasons.keys() == UNUSABLE.keys()
    assert all(reasons[name].startswith(why) for name, why in UNUSABLE.items())
    everything = [path for path, _ in Images(shared_images()).listed]
    assert sorted([*dict(verified.listed), *verified.quarantined]) == sorted(everything)


def test_the_broken_dataset_fails_on_every_unusable_file_and_misjudges_other_modes() -> None:
    images = Images(shared_images())
    failing, odd = set(), set()
    for index, (path, _) in enumerate(images.listed):
        try:
            shape = images[index][0].shape
        except Exception:
            failing.add(Path(path).name)
        else:
            if shape != (3, SIDE, SIDE):
                odd.add(Path(path).name)
    assert failing == UNUSABLE.keys() | {"gray.jpg", "palette.png"}
    assert odd == {"transparent.png"}


def test_a_file_that_goes_bad_after_the_look_is_named_with_its_index(tmp_path: Path) -> None:
    make_images(tmp_path, per_class=1, spoiled=False)
    verified = VerifiedImages(tmp_path)
    index, path = next((i, path) for i, (path, _) in enumerate(verified.listed) if "square" in path)
    (tmp_path / path).write_bytes(b"")
    with pytest.raises(RuntimeError) as caught:
        verified[index]
    assert str(caught.value).startswith(f"sample {index}, {path}: UnidentifiedImageError: ")
    assert isinstance(caught.value.__cause__, OSError)
