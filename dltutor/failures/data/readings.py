"""Make folders of sensor readings (JSON files) and of sound recordings (`.npy` files)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from dltutor.failures.tools import own_folder

COUNT: Final = 16
SPOILED: Final = 9  # the number of the bad reading


@cache
def make_readings(spoiled: str | None = None) -> tuple[Path, ...]:
    """Write 16 readings, once per process and `spoiled`, to a folder that Python removes at exit.

    Args:
        spoiled: What to write to file number `SPOILED` instead of a good reading. If None (the
            default), all readings are good.

    Returns:
        The files, in order. Each good one holds three `values` and a `label`.
    """
    folder = own_folder()
    paths = tuple(folder / f"{number:03}.json" for number in range(COUNT))
    for number, path in enumerate(paths):
        reading = {"values": [number / 4, number / 2, float(number)], "label": number % 3}
        path.write_text(json.dumps(reading))
    if spoiled is not None:
        paths[SPOILED].write_text(spoiled)
    return paths


@cache
def shared_recordings(count: int, length: int) -> tuple[str, ...]:
    """Write recordings, once per process and size, to a folder that Python removes at exit.

    Args:
        count: The number of files.
        length: The number of `int16` values (two bytes) in each.

    Returns:
        The paths of the `.npy` files.
    """
    folder = own_folder()
    random = np.random.default_rng(0)
    paths = [folder / f"recording_{number:03}.npy" for number in range(count)]
    for path in paths:
        np.save(path, random.integers(-(2**15), 2**15, length, dtype=np.int16))
    return tuple(map(str, paths))
