"""A small folder of readings from a sensor, one JSON file each; one of them may be spoilt."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Final

from dltutor.failures.folders import own_folder

COUNT: Final = 16
SPOILT: Final = 9  # the number of the spoilt reading


@cache
def make_readings(spoilt: str | None = None) -> tuple[Path, ...]:
    """Write the readings to a temporary folder that is removed when Python exits.

    Args:
        spoilt: What the file with the number `SPOILT` holds; None for a reading like the others.

    Returns:
        The files, in order. Each holds three `values` and a `label`.
    """
    folder = own_folder()
    paths = tuple(folder / f"{number:03}.json" for number in range(COUNT))
    for number, path in enumerate(paths):
        reading = {"values": [number / 4, number / 2, float(number)], "label": number % 3}
        path.write_text(json.dumps(reading))
    if spoilt is not None:
        paths[SPOILT].write_text(spoilt)
    return paths
