"""What "01.fix" is graded on: fresh pictures, and where to look in them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from PIL import Image, ImageFile

from dltutor.failures.corrupt_images import Pictures
from dltutor.failures.material.images import SIDE, make_pictures
from dltutor.lessons.lesson_01.fresh import Folder, Values, measure, read_list, write_list
from dltutor.lessons.lesson_01.task import LOAD_BY_HAND, Task

_SEED: Final = 52
_PER_CLASS: Final = 10

# The name that make_pictures gives -> what is odd about the file.
_KINDS: Final = {
    "cut-short.jpg": "a JPEG cut short",
    "cut-short.png": "a PNG cut short",
    "empty.jpg": "an empty file",
    "web-page.jpg": "a web page named .jpg",
    "grey.jpg": "a grey picture",
    "palette.png": "a picture with a palette",
    "transparent.png": "a picture with transparency",
    "deleted.jpg": "a file deleted since it was listed",
    "no-permission.jpg": "a file that may not be read",
    "bomb.png": "a header that promises 400 million pixels",
}
_CUT_SHORT: Final = {"a JPEG cut short", "a PNG cut short"}
_CONVERTIBLE: Final = {"a grey picture", "a picture with a palette", "a picture with transparency"}


@contextmanager
def fresh_pictures() -> Iterator[Folder]:
    """Pictures with other contents, order and names than the lesson's, removed after the block.

    Pillow's switches, which hold for the whole process, are put back too.
    """
    switches = ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS
    with TemporaryDirectory(prefix="dltutor-", ignore_cleanup_errors=True) as folder:
        root = make_pictures(folder, per_class=_PER_CLASS, seed=_SEED)
        odd = _rename_odd(root)
        try:
            # What the files hold does not depend on what the learner has switched on.
            ImageFile.LOAD_TRUNCATED_IMAGES = False
            measured = measure(root, _load, odd, (OSError, Image.DecompressionBombError))
            ImageFile.LOAD_TRUNCATED_IMAGES = switches[0]
            yield measured
        finally:
            ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS = switches


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


def _look_at_pictures(kinds: Collection[str]) -> str:
    if _CONVERTIBLE.issuperset(kinds):
        return "These load without an error. Which shape do they have then, and the others?"
    if _CUT_SHORT.issuperset(kinds):
        return "Such a file is healthy at its beginning. How far does your look read?"
    return LOAD_BY_HAND


def _invented_rows(pictures: Values) -> str:
    rows = [_last_rows_of_one_colour(picture) for picture in pictures]
    if not all(count > 3 for count in rows):
        return ""
    switch = (
        "`ImageFile.LOAD_TRUNCATED_IMAGES` is on: what does it put where a file ends? It holds for "
        "the whole process: if a cell of yours turned it on, turn it off there."
        if ImageFile.LOAD_TRUNCATED_IMAGES
        else "Where do those rows come from?"
    )
    return (
        f"{len(rows)} pictures end in rows of one colour that are in no file: "
        f"{' and '.join(map(str, rows))} of {SIDE} rows. {switch}"
    )


def _last_rows_of_one_colour(picture: Values) -> int:
    one_colour = (np.ptp(picture, axis=2) < 1e-3).all(axis=0)  # (3, rows, columns) -> rows
    count = 0
    while count < len(one_colour) and one_colour[-1 - count]:
        count += 1
    return count


MEND: Final = Task(
    starter=Pictures,
    noun="picture",
    fresh=fresh_pictures,
    shape=(3, SIDE, SIDE),
    unit_range=True,
    tolerance=0.1,  # a palette picture, resized before it is converted, differs by 0.09
    look=_look_at_pictures,
    invented=_invented_rows,
)
