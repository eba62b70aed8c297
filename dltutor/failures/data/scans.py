"""Make scans, one of them far longer than the others, for a dataset that unpacks whole scans.

This isn't a failure mode. Lesson 03 uses these cases to make the OOM killer kill a worker, so run
them in `confine`. All scans except one have the usual length, so memory doesn't grow from sample to
sample, and no chart warns you. The worker that loads the long scan needs 700 MB, so Linux kills the
worker within a second or two. The fix is to choose the slices before unpacking them.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from torch.utils.data import Dataset

from dltutor.failures.tools import Case, load, own_folder

SIDE: Final = 1024  # pixels on each side. With one byte per pixel, a slice is 1 MB.
WANTED: Final = 4  # slices from each scan in a sample
COUNT: Final = 12  # the number of scans
USUAL: Final = 12  # slices in a usual scan
LONG: Final = 700  # slices in the long scan
THE_LONG_ONE: Final = 8  # the index of the long scan


def unpack(packed: bytes) -> np.ndarray:
    """Unpack a slice, and return its pixels in an array of shape (1024, 1024)."""
    return np.frombuffer(zlib.decompress(packed), np.uint8).reshape(SIDE, SIDE)


def read_scan(path: Path) -> list[bytes]:
    """Return the packed slices of a scan."""
    data = path.read_bytes()
    size = int.from_bytes(data[:4], "little")
    return [data[start : start + size] for start in range(4, len(data), size)]


class Scans(Dataset[list[np.ndarray]]):
    """Four slices of each scan, at even distances, reduced to thumbnails."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = list(paths)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> list[np.ndarray]:
        slices = [unpack(packed) for packed in read_scan(self.paths[index])]
        return [each[::16, ::16].copy() for each in evenly(slices)]


class ThinScans(Scans):
    """A dataset with the same thumbnails as Scans, but it unpacks only the four that it uses."""

    def __getitem__(self, index: int) -> list[np.ndarray]:
        slices = [unpack(packed) for packed in evenly(read_scan(self.paths[index]))]
        return [each[::16, ::16].copy() for each in slices]


def evenly(slices: list[Any]) -> list[Any]:
    """Return four of the slices, at even distances."""
    return slices[:: len(slices) // WANTED][:WANTED]


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that unpacks every slice. The case is safe only in `confine`."""
    scans = Scans(scan_paths())
    return Case(load(scans, workers, start_method, batch_size=1, collate_fn=np.stack))


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that unpacks only the slices that its dataset uses."""
    scans = ThinScans(scan_paths())
    return Case(load(scans, workers, start_method, batch_size=1, collate_fn=np.stack))


@cache
def scan_paths() -> tuple[Path, ...]:
    """Write the scans, once per process, and return their paths."""
    folder = own_folder()
    paths = tuple(folder / f"{number:02}.scan" for number in range(COUNT))
    for number, path in enumerate(paths):
        slices = LONG if number == THE_LONG_ONE else USUAL
        write_scan(path, [zlib.compress(bytes([number + 2]) * SIDE * SIDE)] * slices)
    return paths


def write_scan(path: Path, packed: Sequence[bytes]) -> None:
    """Write packed slices to a file, each padded to the size of the largest."""
    size = max(map(len, packed))
    slices = (each.ljust(size, b"\0") for each in packed)
    path.write_bytes(size.to_bytes(4, "little") + b"".join(slices))
