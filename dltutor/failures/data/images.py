"""Fill a folder with small images, a few of which are broken."""

from __future__ import annotations

import csv
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image, ImageDraw

from dltutor.failures.tools import own_folder

CLASSES: Final = ("circle", "square", "triangle")
SIDE: Final = 64  # pixels on each side


def draw(shape: str, rng: np.random.Generator, side: int = SIDE) -> Image.Image:
    """Draw one RGB image of a shape.

    Args:
        shape: One of `CLASSES`.
        rng: The generator for the colors, position, size, and grain. If you make it from the same
            seed, you get the same image.
        side: The width and height in pixels.

    Raises:
        ValueError: `shape` isn't one of `CLASSES`.
    """
    if shape not in CLASSES:
        raise ValueError(f"shape must be one of {', '.join(CLASSES)}, got {shape!r}")
    background, ink = (tuple(int(c) for c in rng.integers(low, low + 96, 3)) for low in (160, 0))
    image = Image.new("RGB", (side, side), background)
    pen = ImageDraw.Draw(image)
    radius = int(rng.integers(side // 5, side // 3))
    x, y = (int(v) for v in rng.integers(radius, side - radius, 2))
    box = (x - radius, y - radius, x + radius, y + radius)
    if shape == "circle":
        pen.ellipse(box, fill=ink)
    elif shape == "square":
        pen.rectangle(box, fill=ink)
    else:
        pen.polygon([(x, y - radius), (x - radius, y + radius), (x + radius, y + radius)], fill=ink)
    # Grain makes the compressed file long enough to be cut in half.
    grain = rng.integers(-12, 13, (side, side, 3))
    return Image.fromarray(np.clip(np.asarray(image) + grain, 0, 255).astype(np.uint8))


def make_images(
    folder: str | Path | None = None, *, per_class: int = 16, spoiled: bool = True, seed: int = 14
) -> Path:
    """Fill a folder with images and a list of them, `labels.csv`, with one `path,class` per line.

    With `spoiled`, one of the listed files doesn't exist, as if it had been deleted.

    Args:
        folder: The folder to fill, created if it's missing. If None (the default), the images go
            to a new temporary folder that Python removes at exit.
        per_class: The number of healthy images in each class (default 16).
        spoiled: Whether to add one file of each kind in `SPOILERS` (default True).
        seed: The same seed gives the same files (default 14), byte for byte as long as numpy and
            Pillow have the same versions.

    Returns:
        The path of the folder.

    Raises:
        ValueError: `per_class` is below 1.
        OSError: The folder can't be written to. The message names the folder.
    """
    if per_class < 1:
        raise ValueError(f"per_class must be 1 or more images, got {per_class}")
    if folder is None:
        folder = own_folder()
    root = Path(folder)
    try:
        _write(root, per_class, spoiled, np.random.default_rng(seed))
    except OSError as error:
        raise OSError(f"folder must be writable, got {str(root)!r}: {error}") from error
    return root


def _write(root: Path, per_class: int, spoiled: bool, rng: np.random.Generator) -> None:
    listed: list[tuple[str, str]] = []
    for shape in CLASSES:
        (root / shape).mkdir(parents=True, exist_ok=True)
        for i in range(per_class):
            path = f"{shape}/{i:03}.{'png' if i % 4 == 3 else 'jpg'}"
            draw(shape, rng).save(root / path)
            listed.append((path, shape))
    for i, (name, spoil) in enumerate(SPOILERS.items() if spoiled else ()):
        shape = CLASSES[i % len(CLASSES)]
        path = f"{shape}/{name}"
        (root / path).unlink(missing_ok=True)
        spoil(root / path, draw(shape, rng, 4 * SIDE))
        listed.append((path, shape))
    rng.shuffle(listed)
    with (root / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows(listed)


def _cut(path: Path, image: Image.Image) -> None:
    image.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def _bomb(path: Path, image: Image.Image) -> None:
    # Pillow rejects this PNG after reading its header, which promises 20,000 x 20,000 pixels.
    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", 20_000, 20_000, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(1000))
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


def _in_a_palette(path: Path, image: Image.Image) -> None:
    # Put the colors in the palette in random order, so an index doesn't tell you the brightness.
    indexed = image.quantize(256)
    order = np.random.default_rng(0).permutation(256)
    indexed.remap_palette([int(index) for index in order]).save(path)


def _cut_out(path: Path, image: Image.Image) -> None:
    # Keep only the shape. Make transparent pixels black, as most programs do.
    shape = image.convert("L").point([255 if gray < 128 else 0 for gray in range(256)])
    cut = Image.composite(image, Image.new("RGB", image.size), shape)
    cut.putalpha(shape)
    cut.save(path)


def _unreadable(path: Path, image: Image.Image) -> None:
    image.save(path)
    path.chmod(0)


# File name -> the function that makes this bad file. Real image sets contain every kind.
SPOILERS: Final[dict[str, Callable[[Path, Image.Image], object]]] = {
    "cut-short.jpg": _cut,
    "cut-short.png": _cut,
    "empty.jpg": lambda path, image: path.touch(),
    "web-page.jpg": lambda path, image: path.write_text("<html>404 Not Found</html>\n"),
    "gray.jpg": lambda path, image: image.convert("L").save(path),
    "palette.png": _in_a_palette,
    "transparent.png": _cut_out,
    "deleted.jpg": lambda path, image: None,
    "no-permission.jpg": _unreadable,
    "bomb.png": _bomb,
}
