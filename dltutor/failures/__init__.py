"""What goes wrong: one module for each failure mode, broken and fixed side by side."""

from typing import Final

from dltutor.failures import corrupt_images, none_in_batch
from dltutor.failures.contract import Case, Failure
from dltutor.failures.pictures import make_pictures

#: Every failure mode, in lesson order.
CATALOGUE: Final[tuple[Failure, ...]] = (
    corrupt_images.FAILURE,
    none_in_batch.FAILURE,
)

__all__ = ["CATALOGUE", "Case", "Failure", "make_pictures"]
