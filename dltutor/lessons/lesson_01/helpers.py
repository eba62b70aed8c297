"""Make images, loaders, and tables for notebook 01, and fill folders for its checks."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing import current_process
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from dltutor.failures.corrupt_images import Images
from dltutor.failures.data.images import SPOILERS, make_images
from dltutor.failures.tools import load
from dltutor.lessons.engine.forms import whole_number
from dltutor.observation import Observation, observe
from dltutor.tables import Table

# A sample has a file's values if they differ by at most this much on average. In images, whose
# values are from 0 to 1, two correct ways to shrink differ by 0.03, and reading palette indices as
# gray values, which is a mistake, differs by 0.38.
TOLERANCE: Final = 0.04
HEALTHY: Final = "a healthy file"

Values = NDArray[np.float32]
Identified = tuple[str, int | None]  # a sample's file and class number (see `Folder.identify`)
Draw = Callable[[str, np.random.Generator], Any]  # draws an image or a reading for a class


class Kind(NamedTuple):
    """A kind of file that `fill` writes to a folder: healthy, odd but usable, or unusable."""

    write: Callable[[Path, Any], object]  # takes the path, and an image or a reading
    odd: str = HEALTHY  # what's odd about the file, for a message
    cause: str = ""  # "missing", "damaged", "too large", or "other", or "" if the file is usable
    suffix: str = "npy"
    label: str = ""  # the file's class, or "" if it can have any class


@dataclass(frozen=True)
class Folder:
    """A record of the files that `fill` wrote, to find out which file a sample comes from.

    Each path has a class in `listed` and a kind in `kinds`. If the file is usable, its path also
    has the right values in `contents`.
    """

    root: Path
    listed: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)
    contents: dict[str, Values] = field(default_factory=dict)

    @property
    def right(self) -> str:
        """The form that a sample should have, such as "(floats (3, 128), int)"."""
        return f"(floats {next(iter(self.contents.values())).shape}, int)"

    def identify(self, sample: Any) -> Identified:
        """Return the path of a sample's file, and the sample's class number.

        If no usable file has these values, return their range instead of the path. If the sample
        has the wrong form, return that form and None.
        """
        if (kind := _kind(sample)) != self.right:
            return kind, None
        return self._file_of(torch.as_tensor(sample[0]).detach().float().numpy()), int(sample[1])

    def spoil(self, path: str, how: str) -> None:
        """Damage a file so that it's "deleted", "cut in half", or "emptied", as `how` says."""
        whole = (self.root / path).read_bytes()
        (self.root / path).unlink()
        if how != "deleted":
            (self.root / path).write_bytes(whole[: len(whole) // 2 * (how == "cut in half")])

    def _file_of(self, values: Values) -> str:
        for path, held in self.contents.items():
            if held.shape == values.shape and float(np.abs(held - values).mean()) <= TOLERANCE:
                return path
        return f"from {values.min():.3g} to {values.max():.3g}"


def _kind(thing: Any) -> str:
    if isinstance(thing, (tuple, list)):
        return f"({', '.join(map(_kind, thing))})"
    floats = "float" in str(getattr(thing, "dtype", type(thing)))
    whole = not floats and not isinstance(thing, str) and whole_number(thing) is not None
    if whole and np.ndim(thing) == 0:
        return "int"
    if isinstance(thing, (torch.Tensor, np.ndarray)):
        dtype = "floats" if floats else str(thing.dtype).removeprefix("torch.")
        return f"{dtype} {tuple(thing.shape)}"
    return type(thing).__name__


def fill(
    root: Path, seed: int, kinds: Sequence[Kind], classes: Sequence[str], draw: Draw, load: Any
) -> Folder:
    """Write files with neutral names, and a `labels.csv` that lists them, and return the Folder.

    Args:
        root: The empty folder to fill.
        seed: The seed for the files' random order, and for `draw`.
        kinds: The kinds of files, each as often as it should appear.
        classes: The names of three classes.
        draw: A function that draws an image or a reading for a class, with a random generator.
        load: A function that takes a path and returns the values of a usable file.
    """
    rng = np.random.default_rng(seed)
    folder = Folder(root)
    for i, k in enumerate(rng.permutation(len(kinds))):
        kind = kinds[k]
        path, drawn = f"set{i % 2}/{i:03}.{kind.suffix}", classes[(i + 1) % 3]
        (root / path).parent.mkdir(exist_ok=True)
        kind.write(root / path, draw(drawn, rng))
        folder.listed[path], folder.kinds[path] = kind.label or drawn, kind
        if not kind.cause:
            folder.contents[path] = np.asarray(load(root / path))
    write_list(root, folder.listed.items())
    return folder


def write_list(root: Path, listed: Iterable[tuple[str, str]]) -> None:
    """Write each file's path and label to `labels.csv`."""
    (root / "labels.csv").write_text("".join(f"{path},{label}\n" for path, label in listed))


@cache
def lesson_images() -> Path:
    """Make the lesson's folder of images, and return its path."""
    root = make_images()
    listed = [line for line in Images(root).listed if "no-permission" not in line[0]]
    write_list(root, listed)  # without the file that only root can read, because you may be root
    return root


class StartImages(Images):
    """The notebook's starter for "01.fix", which doesn't put any file into `quarantined`."""

    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined: dict[str, str] = {}

    __getitem__ = Images.__getitem__


#: Return a loader with forked workers, and batches of 8 unless the options set `batch_size`.
loader_of: Final = partial(load, start_method="fork", batch_size=8)


def last_line(seen: Observation) -> str:
    """Return the last line of a run's error, cut after 88 characters.

    Without an error, return how the run ended, such as "finished".
    """
    lines = seen.raw.replace(f"{lesson_images()}/", "").strip().splitlines()
    return f"{lines[-1]:.88}" if lines else seen.end


def in_a_row(*images: Image.Image, side: int = 128) -> Image.Image:
    """Return the images in a row of gray frames, scaled to `side` pixels without smoothing."""
    row = Image.new("RGB", ((side + 2) * len(images), side + 2), "gray")
    for i, image in enumerate(images):
        tile = image.convert("RGB").resize((side, side), Image.Resampling.NEAREST)
        row.paste(tile, (i * (side + 2) + 1, 1))
    return row


def looks(root: Path) -> Table:
    """Show what happens when Pillow opens, verifies, or loads each odd file."""
    ways = {"open": "tell", "verify()": "verify", "load()": "load"}  # heading -> method to call

    def outcome(path: str, way: str) -> str:
        try:
            getattr(Image.open(root / path), ways[way])()
            return "ok"
        except Exception as error:
            return type(error).__name__

    odd = sorted(path for path, _ in Images(root).listed if Path(path).name in SPOILERS)
    rows = [(path, *(outcome(path, way) for way in ways)) for path in odd]
    return Table("Odd files", tuple(rows), ("file", *ways))


def side_by_side(*kinds: type) -> Table:
    """Show how a run ends with each dataset class, and how many images of each label arrive."""
    listed = sorted(Counter(label for _, label in Images(lesson_images()).listed).items())
    rows = []
    for kind in kinds:
        # Make the dataset in a worker, from a copy, because a class may crash or change the files.
        with TemporaryDirectory() as copy:
            shutil.copytree(lesson_images(), copy, dirs_exist_ok=True)
            only: Any = [(kind, Path(copy))]
            loader = loader_of(only, 1, batch_size=None, collate_fn=_epoch)
            seen = observe(loader, deadline=10, consume=lambda loader: next(iter(loader)))
        came: Any = seen.result
        arrived = (
            f"{came[i]} of {n}" if seen.result is not None else "-"
            for i, (_, n) in enumerate(listed)
        )
        rows.append((kind.__name__, seen.end, *arrived))
    return Table(
        "What arrives in one epoch", tuple(rows), ("", "end", *(name for name, _ in listed))
    )


def _epoch(made_of: tuple[type, Path]) -> Counter[int]:
    # A class may check its files in several processes, but a daemonic worker can't start any, so
    # make this worker an ordinary process.
    current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    kind, root = made_of
    dataset = kind(root)
    return Counter(int(dataset[index][1]) for index in range(len(dataset)))
