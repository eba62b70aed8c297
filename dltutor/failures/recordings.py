"""A folder of sound recordings, for the failures whose samples come from files."""

from __future__ import annotations

from functools import cache

import numpy as np

from dltutor.failures.folders import own_folder


@cache
def shared_recordings(count: int, length: int) -> tuple[str, ...]:
    """Recordings that the cases of this process share; removed at its end.

    Args:
        count: How many files.
        length: Numbers of two bytes (`int16`) in each.

    Returns:
        The paths of the `.npy` files.
    """
    folder = own_folder()
    random = np.random.default_rng(0)
    paths = [folder / f"recording_{number:03}.npy" for number in range(count)]
    for path in paths:
        np.save(path, random.integers(-(2**15), 2**15, length, dtype=np.int16))
    return tuple(map(str, paths))
