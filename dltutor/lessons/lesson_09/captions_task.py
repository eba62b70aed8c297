"""What "09.fix" and "09.diagnose" are graded on: fresh captions, and five datasets of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from torch.utils.data import Dataset

from dltutor.failures.material.captions import (
    CaptionDicts,
    CaptionObjects,
    Captions,
    FixedWidthCaptions,
    PackedCaptions,
)
from dltutor.lessons.lesson_09.rewrite import Rewrite

_COUNT: Final = 100_000
_READ: Final = 30_000
_PLACES: Final = ("a lake", "the Café", "\N{GREEK SMALL LETTER OMEGA} Square", "a very long wall")


class CaptionTuple(Dataset[str]):
    """The captions in a tuple."""

    def __init__(self, path: str | Path) -> None:
        self.captions = tuple(Path(path).read_text(encoding="utf-8").splitlines())

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, index: int) -> str:
        return self.captions[index]


class CaptionLengths(Dataset[int]):
    """The length of each caption; the captions themselves are for the report after the epoch."""

    def __init__(self, path: str | Path) -> None:
        self.captions = Path(path).read_text(encoding="utf-8").splitlines()
        self.lengths = np.array([len(caption) for caption in self.captions])

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, index: int) -> int:
        return int(self.lengths[index])


#: The five datasets of "09.diagnose".
FIVE: Final[dict[str, Callable[[Path], Dataset[Any]]]] = {
    "A": CaptionTuple,
    "B": CaptionObjects,
    "C": FixedWidthCaptions,
    "D": CaptionLengths,
    "E": CaptionDicts,
}


@contextmanager
def fresh_captions(count: int = _COUNT) -> Iterator[Path]:
    """A file of captions unlike the lesson's: not all in ASCII, one of them empty."""
    with tempfile.TemporaryDirectory(prefix="dltutor-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "captions.txt"
        lines = [
            f"{n * 31 % count:06}.png shows {n % 97} boats at {_PLACES[n % 4]}"
            for n in range(count)
        ]
        lines[count // 3] = ""
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        yield path


MEND: Final = Rewrite(
    broken=Captions,
    packed=PackedCaptions,
    noun="caption",
    fresh=fresh_captions,
    read=_READ,
    same=lambda sample, truth: bool(sample == truth),
    kind="a `str`",
    is_kind=lambda sample: type(sample) is str,
    told=lambda sample: f"{sample!r:.60}",
)
