"""What goes wrong: one module for each failure mode, broken and fixed side by side."""

from importlib import import_module
from typing import Final

from dltutor.failures.contract import Case, Consume, Failure
from dltutor.failures.pictures import make_pictures
from dltutor.failures.sign import Costs, Counts, Finding, Says, Sign

#: The modules of the failure modes, in the order of the lessons that teach them.
NAMES: Final[tuple[str, ...]] = (
    # 01 Corrupt images
    "corrupt_images",
    "none_in_batch",
)

#: Every failure mode, in lesson order.
CATALOGUE: Final[tuple[Failure, ...]] = tuple(
    import_module(f"dltutor.failures.{name}").FAILURE for name in NAMES
)

__all__ = [
    "CATALOGUE",
    "Case",
    "Consume",
    "Costs",
    "Counts",
    "Failure",
    "Finding",
    "Says",
    "Sign",
    "make_pictures",
]
