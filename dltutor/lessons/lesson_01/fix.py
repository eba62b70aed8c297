"""Grade "01.fix", which asks for every usable image, and for reasons why the others are bad."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image, ImageOps

from dltutor.failures.corrupt_images import load_on_white
from dltutor.failures.data.images import CLASSES, SIDE, SPOILERS, draw
from dltutor.lessons.lesson_01.delivery import grader
from dltutor.lessons.lesson_01.helpers import Folder, Kind, StartImages, fill


def _fade(path: Path, image: Image.Image) -> None:
    faded = ImageOps.invert(image.convert("L"))
    faded.putalpha(Image.linear_gradient("L").resize(image.size))
    faded.save(path)


def _add_bytes(path: Path, image: Image.Image) -> None:
    image.save(path)
    path.write_bytes(path.read_bytes() + bytes(64))


def _use_16_bits(path: Path, image: Image.Image) -> None:
    Image.fromarray(np.array(image.convert("L"), np.uint16) * 257).save(path)


def _break_a_chunk(path: Path, image: Image.Image) -> None:
    Image.effect_noise((300, 300), 90).save(path)  # large enough for two IDAT chunks
    path.write_bytes(b"\0DAT".join(path.read_bytes().rsplit(b"IDAT", 1)))


_USUAL: Final = ("jpg", "png")
_KINDS: Final = (
    Kind(SPOILERS["cut-short.png"], "a PNG cut short", "damaged", "png"),
    Kind(SPOILERS["cut-short.jpg"], "a JPEG cut short", "damaged", "jpg"),
    Kind(_break_a_chunk, "a PNG with a broken chunk", "damaged", "png"),
    Kind(SPOILERS["empty.jpg"], "an empty file", "damaged", "jpg"),
    Kind(SPOILERS["web-page.jpg"], "a web page named .jpg", "damaged", "jpg", "arrow"),
    Kind(SPOILERS["deleted.jpg"], "a file deleted since it was listed", "missing", "jpg"),
    Kind(lambda path, _: path.mkdir(), "a folder named .jpg", "other", "jpg"),
    Kind(_use_16_bits, "a 16-bit gray image", "other", "png"),
    Kind(SPOILERS["bomb.png"], "a header that promises 400 million pixels", "too large", "png"),
    Kind(SPOILERS["gray.jpg"], "a gray image", "", "jpg"),
    Kind(SPOILERS["palette.png"], "an image with a palette", "", "png"),
    Kind(SPOILERS["transparent.png"], "an image with transparency", "", "png"),
    Kind(_fade, "a gray image with transparency", "", "png"),
    Kind(_add_bytes, "a JPEG with more bytes after its end", "", "jpg"),
    *(Kind(lambda to, x: x.reduce(2).save(to), suffix=s) for s in (*_USUAL * 6, "JPG", "bmp")),
)


def fresh_images(root: Path, seed: int) -> Folder:
    """Fill an empty folder with images whose contents and names differ from the lesson's."""
    return fill(root, seed, _KINDS, CLASSES, partial(draw, side=2 * SIDE), load_on_white)


GRADER: Final = grader(fresh_images, StartImages)
