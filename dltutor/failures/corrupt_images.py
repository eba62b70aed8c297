"""A few image files are broken, and the first one that the loader reads ends the epoch.

Symptom: `OSError: image file is truncated`, `PIL.UnidentifiedImageError: cannot identify image
file`, `FileNotFoundError`, or a shape error, under `Caught ... in DataLoader worker process N`,
in the middle of the epoch.

NOTE [ What One Bad File Does ]

A worker that raises doesn't die. The worker catches the exception, sends the type and the traceback
(as a string) to the main process, and waits for the next batch. Main then raises an exception of
the same type, if it can (see `lost_exception_type`). So the message is complete, but the new
exception has lost the attributes of the old one: `errno` and `filename` are None. Unless the
message names the file, nothing does, and nothing names the index.

Pillow opens a file by reading its header, and reads the pixels later. So a file that was cut short
opens without complaint and fails in `convert`, `resize`, or `numpy.asarray`. Gray, palette, and
transparent images do load, but they fail later, in code that expects three channels.

Fix: look at every file once before the first epoch, the way the loader will. Keep what loads.
Write down what doesn't, with the reason and the class, and show it. Name the path in every error
that can still happen after that.

Seen in: pytorch/vision#138, stylegan2-pytorch#7, detectron2#143.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

from dltutor.failures.data.images import SIDE, make_images
from dltutor.failures.tools import Case, Failure, Says, facts_of, load

Sample = tuple[torch.Tensor, int]


class Images(Dataset[Sample]):
    """Images and their classes, as `labels.csv` lists them."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        with (self.root / "labels.csv").open(newline="") as file:
            self.listed = [(path, label) for path, label in csv.reader(file)]
        self.classes = sorted({label for _, label in self.listed})

    def __len__(self) -> int:
        return len(self.listed)

    def __getitem__(self, index: int) -> Sample:
        path, label = self.listed[index]
        image = Image.open(self.root / path).resize((64, 64))
        pixels = torch.from_numpy(np.array(image))
        return pixels.permute(2, 0, 1) / 255, self.classes.index(label)


def load_on_white(file: Path) -> torch.Tensor:
    """Load an image as a (3, 64, 64) tensor of values from 0 to 1, with transparent parts white.

    Raises:
        ValueError: The image has more than 8 bits per channel.
        Exception: Pillow can't read the file. The type depends on what's wrong with the file.
    """
    with Image.open(file) as image:
        if image.mode[0] in "IF":  # in I;16, I, and F, convert would clip values at 255
            raise ValueError(f"mode {image.mode}: more than 8 bits")
        small = image.convert("RGBA").resize((SIDE, SIDE))
    white = Image.new("RGBA", small.size, "white")
    pixels = np.array(Image.alpha_composite(white, small).convert("RGB"))
    return torch.from_numpy(pixels).permute(2, 0, 1) / 255


class VerifiedImages(Images):
    """A dataset that checks every image file once, and leaves out the bad ones.

    Attributes:
        quarantined: The path of each bad file -> why the file can't be used.
    """

    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined: dict[str, str] = {}
        for path, _ in self.listed:
            try:
                self.load(path)
            except Exception as error:  # a bad file can make Pillow raise even a SyntaxError
                self.quarantined[path] = f"{type(error).__name__}: {error}"
        self.listed = [entry for entry in self.listed if entry[0] not in self.quarantined]

    def load(self, path: str) -> torch.Tensor:
        return load_on_white(self.root / path)

    def __getitem__(self, index: int) -> Sample:
        path, label = self.listed[index]
        try:
            return self.load(path), self.classes.index(label)
        except Exception as error:
            raise RuntimeError(
                f"sample {index}, {path}: {type(error).__name__}: {error}"
            ) from error


@cache
def shared_images() -> Path:
    """Make a folder with good and bad images, once per process, and return its path."""
    return make_images()


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that loads the images without checking them first."""
    return Case(load(Images(shared_images()), workers, start_method, batch_size=8))


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that checks every image once, and loads only the good ones."""
    return Case(load(VerifiedImages(shared_images()), workers, start_method, batch_size=8))


FAILURE = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Says("raised", ("OSError: image file is truncated",)),
)
