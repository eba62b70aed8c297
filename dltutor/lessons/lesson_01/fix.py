"""Grade "01.fix": every usable image arrives as what it is, and the rest is accounted for."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image, ImageFile

from dltutor.failures.corrupt_images import Images, VerifiedImages
from dltutor.failures.material.images import SIDE, make_images
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class
from dltutor.lessons.kit.outcomes import Result, not_yet
from dltutor.lessons.lesson_01 import deliveries
from dltutor.lessons.lesson_01.accounts import LOAD_BY_HAND, account
from dltutor.lessons.lesson_01.deliveries import Evidence
from dltutor.lessons.lesson_01.material import Folder, Values, measure, read_list, write_list

# Ways to make an image smaller differ by 0.03. Palette indices, taken for gray values, by 0.38.
_TOLERANCE: Final = 0.04
_SEED: Final = 52
_PER_CLASS: Final = 10

# The name that make_images gives -> what is odd about the file.
_KINDS: Final = {
    "cut-short.jpg": "a JPEG cut short",
    "cut-short.png": "a PNG cut short",
    "empty.jpg": "an empty file",
    "web-page.jpg": "a web page named .jpg",
    "gray.jpg": "a gray image",
    "palette.png": "an image with a palette",
    "transparent.png": "an image with transparency",
    "deleted.jpg": "a file deleted since it was listed",
    "no-permission.jpg": "a file that may not be read",
    "bomb.png": "a header that promises 400 million pixels",
}
_CUT_SHORT: Final = {"a JPEG cut short", "a PNG cut short"}
_CONVERTIBLE: Final = {"a gray image", "an image with a palette", "an image with transparency"}


def look(answer: Any) -> type:
    """The answer, if it is a class of the learner's own that is no longer the starter."""
    fixed = a_fixed_class(answer, Images)
    if issubclass(fixed, VerifiedImages):
        not_yet(
            "that is the package's own `VerifiedImages`, and it is known to work. Write the class "
            "yourself, without it: at work there is no such class for your files."
        )
    return fixed


def gather(answer: type) -> Evidence:
    """What the answer delivers of images that it has not seen."""
    return deliveries.gather(answer, fresh_images(Path(tempfile.mkdtemp())))


def judge(evidence: Evidence) -> Result:
    """Correct if every image that can be used came, and nothing else did."""
    return account(evidence, _where_to_look)


def fresh_images(root: Path) -> Folder:
    """Images with other contents, order and names than the lesson's.

    Args:
        root: An empty folder for them.
    """
    make_images(root, per_class=_PER_CLASS, seed=_SEED)
    odd = _rename_odd(root)
    switch = ImageFile.LOAD_TRUNCATED_IMAGES
    # What the files hold does not depend on what the learner has switched on.
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    folder = measure(root, "image", odd, _load, _TOLERANCE)
    ImageFile.LOAD_TRUNCATED_IMAGES = switch
    return folder


def _rename_odd(root: Path) -> dict[str, str]:
    # Named like all the others: an answer has to look into the files.
    odd: dict[str, str] = {}
    renamed = []
    for path, label in read_list(root):
        name = path.rpartition("/")[2]
        if name in _KINDS:
            old, path = root / path, f"{label}/{100 + len(odd)}{Path(name).suffix}"
            if old.exists():
                old.rename(root / path)
            odd[path] = _KINDS[name]
            if name == "no-permission.jpg" and os.access(root / path, os.R_OK):
                # Root may read every file. A folder where a file should be stops root as well.
                (root / path).unlink()
                (root / path).mkdir()
        renamed.append((path, label))
    write_list(root, renamed)
    kinds = list(_KINDS.values())
    return dict(sorted(odd.items(), key=lambda item: kinds.index(item[1])))


def _load(path: Path) -> Values:
    with Image.open(path) as image:
        small = np.asarray(image.convert("RGB").resize((SIDE, SIDE)), dtype=np.float32)
    return small.transpose(2, 0, 1) / 255


def _where_to_look(kinds: Collection[str]) -> str:
    if _CONVERTIBLE.issuperset(kinds):
        return "These load without an error. Which shape do they have then, and the others?"
    if _CUT_SHORT.issuperset(kinds):
        return "Such a file is healthy at its beginning. How far does your look read?"
    return LOAD_BY_HAND


GRADER: Final = Grader(
    gather=gather, judge=judge, look=look, runs=deliveries.RUNS, at_most=deliveries.AT_MOST
)
