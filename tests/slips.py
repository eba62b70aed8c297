"""Define slips, which are small mistakes that a dataset can make, and add them to right answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harms import with_class_replaced
from torch.utils.data import get_worker_info


def _worker() -> int | None:
    info = get_worker_info()
    return info.id if info else None


# When a slip happens, as functions of a sample's index and the dataset's length.
WHEN: dict[str, Callable[[int, int], bool]] = {
    "at the first index": lambda index, length: index == 0,
    "at the last index": lambda index, length: index == length - 1,
    # Change only every second sample. With all samples moved up by one, the dataset would only be
    # in a different order, which may be right.
    "without workers": lambda index, length: _worker() is None and index % 2 == 0,
    "in W0": lambda index, length: _worker() == 0,
}

WRONG_SAMPLE, RAISES = "another sample", "an exception"
ONE_TOO_FEW, ONE_TOO_MANY = "one sample too few", "one sample too many"

SLIPS = [
    *(f"{WRONG_SAMPLE} {when}" for when in WHEN),
    f"{RAISES} at the last index",
    ONE_TOO_FEW,
    ONE_TOO_MANY,
]


class Slipped(Exception):
    """The exception that a slip raises."""


def slipped(answer: Any, slip: str, folder: Path) -> Any:
    """Return a right answer with a slip added.

    Args:
        answer: The class of a map-style dataset, or the path of a file with one.
        slip: One of SLIPS.
        folder: Where to write a changed copy, if the answer is in a file.
    """
    if isinstance(answer, (str, Path)):
        return with_class_replaced(Path(answer), folder, "slipped_class", slip)
    return slipped_class(answer, slip)


def slipped_class(answer: type, slip: str) -> type:
    """Make a subclass with a slip. The file that `slipped` writes also calls this function."""
    when = next((test for name, test in WHEN.items() if slip.endswith(name)), None)
    longer = {ONE_TOO_FEW: -1, ONE_TOO_MANY: 1}.get(slip, 0)

    class WithASlip(answer):  # type: ignore[misc]
        def __len__(self) -> int:
            return super().__len__() + longer  # type: ignore[no-any-return]

        def __getitem__(self, index: int) -> Any:
            length = super().__len__()
            if when is not None and when(index, length):
                if slip.startswith(RAISES):
                    raise Slipped(f"sample {index}")
                index += 1
            return super().__getitem__(index % length)

    WithASlip.__name__ = WithASlip.__qualname__ = answer.__name__
    return WithASlip
