"""Pairs of files that an answer has not seen, for "07.fix"."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import torch

PAIRS: Final = 14
_SIZE: Final = 5  # bytes of a file


@contextmanager
def fresh_pairs() -> Iterator[tuple[Path, torch.Tensor]]:
    """A folder of images and masks, no two alike, removed after the block.

    Yields:
        The folder, and what its files hold: (pair, image or mask, byte).
    """
    with TemporaryDirectory(prefix="dltutor-", ignore_cleanup_errors=True) as name:
        contents = torch.arange(PAIRS * 2 * _SIZE).reshape(PAIRS, 2, _SIZE) * 7 % 251
        for number, (image, mask) in enumerate(contents):
            (Path(name) / f"scan-{number:02}.image").write_bytes(bytes(image.tolist()))
            (Path(name) / f"scan-{number:02}.mask").write_bytes(bytes(mask.tolist()))
        yield Path(name), contents
