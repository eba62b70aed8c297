"""Grade "01.transfer": readings that can be used arrive, no zeros do, the rest is accounted for."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class
from dltutor.lessons.lesson_01.fix import AT_MOST, RUNS, Folder, gather, judge
from dltutor.lessons.lesson_01.material import Readings, read_list, write_readings


def fresh_readings(root: Path) -> Folder:
    """Fill an empty folder with readings of other contents and order than the lesson's."""
    odd = write_readings(root, 8, seed=77)
    causes = {path: "missing" if "deleted" in why else "damaged" for path, why in odd.items()}
    causes = {path: cause for path, cause in causes.items() if "double" not in odd[path]}
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
