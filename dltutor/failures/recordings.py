"""A folder of sound recordings, for the failures whose samples come from files."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np


@cache
def shared_recordings(count: int, length: int) -> tuple[str, ...]:
    """Recordings that the cases of this process share; removed at its end.

    Args:
        count: How many files.
        length: Numbers of two bytes (`int16`) in each.

    Returns:
        The paths of the `.npy` files.
    """
    folder = Path(tempfile.mkdtemp(prefix="dltutor-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    random = np.random.default_rng(0)
    paths = [folder / f"recording_{number:03}.npy" for number in range(count)]
    for path in paths:
        np.save(path, random.integers(-(2**15), 2**15, length, dtype=np.int16))
    return tuple(map(str, paths))
