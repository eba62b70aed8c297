"""Grade "01.transfer": readings that can be used arrive, no zeros do, the rest is accounted for."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class
from dltutor.lessons.lesson_01.fix import AT_MOST, RUNS, Folder, gather, judge
from dltutor.lessons.lesson_01.material import SHAPE, Readings, read_list, write_readings


def fresh_readings(root: Path) -> Folder:
    """Fill an empty folder with readings of other contents and order than the lesson's."""
    odd = write_readings(root, 8, seed=77)
    odd |= {"idle/003.npy": "a reading of zeros", "worn/003.npy": "a reading of 128 x 3"}
    np.save(root / "idle/003.npy", np.zeros(SHAPE, np.float32))
    np.save(root / "worn/003.npy", np.load(root / "worn/003.npy").T)
    causes = {path: "missing" if "deleted" in why else "damaged" for path, why in odd.items()}
    for usable in ("a reading of zeros", "a reading in double precision"):
        del causes[next(path for path, why in odd.items() if why == usable)]
    listed = read_list(root)
    contents = {path: np.load(root / path) for path, _ in listed if path not in causes}
    return Folder(listed, odd, causes, root, contents)


GRADER: Final = Grader(
    gather=lambda answer: gather(answer, fresh_readings),
    judge=judge,
    look=lambda answer: a_fixed_class(answer, Readings),
    runs=RUNS,
    at_most=AT_MOST,
)
