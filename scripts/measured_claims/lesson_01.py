"""Lesson 01: corrupt images."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image, ImageFile
from torch.utils.data import DataLoader, Subset

from dltutor.failures.corrupt_images import Images, shared_images
from dltutor.failures.material.images import SPOILERS
from dltutor.failures.none_in_batch import SkippingImages
from dltutor.observation import observe
from measured_claims import EXITING, Claim, Measured, Source

TRUNCATED: Final = Source(
    "Please change dcgan to load truncated images",
    "2020-10-18",
    "https://github.com/pytorch/examples/issues/835",
)


def _loader(dataset: Any, workers: int, **options: Any) -> DataLoader[Any]:
    context = "fork" if workers else None
    return DataLoader(dataset, num_workers=workers, multiprocessing_context=context, **options)


def _odd(images: Images, name: str) -> int:
    return next(i for i, (path, _) in enumerate(images.listed) if Path(path).name == name)


def _passed_on() -> Measured:
    images = Images(shared_images())
    told, alive = [], 0
    for name in ("cut-short.jpg", "empty.jpg", "deleted.jpg", "bomb.png"):
        seen = observe(_loader(Subset(images, [_odd(images, name)]), 2))
        told.append(seen.chain[0][0])
        alive += sum(worker.exitcode is None for worker in seen.workers)
        assert "Original Traceback" in seen.raw
    return Measured(
        f"The loop got {', '.join(told)}, each with the worker's traceback as text; {alive} of "
        f"{2 * len(told)} workers were still running.",
        "refuted for exceptions: type and traceback arrive, and the worker goes on."
        if alive == 8
        else "holds.",
    )


def _skipped() -> Measured:
    images = SkippingImages(shared_images())
    bad = _odd(images, "cut-short.jpg")
    good = [i for i, (path, _) in enumerate(images.listed) if Path(path).name not in SPOILERS][:3]
    ends: Counter[str] = Counter()
    reached = 0

    def loop(loader: DataLoader[Any]) -> None:
        nonlocal reached
        for pixels, _ in loader:
            reached += pixels is None

    for workers in (0, 2):
        for place in range(4):
            order = [*good[:place], bad, *good[place:]]
            run = _loader(Subset(images, order), workers, batch_size=4)
            ends[observe(run, consume=loop).chain[0][0]] += 1
    joined = reached
    for workers in (0, 2):
        observe(_loader(Subset(images, [*good, bad]), workers, batch_size=None), consume=loop)
    kinds = " and ".join(f"{count} with {kind}" for kind, count in sorted(ends.items()))
    return Measured(
        f"{ends.total()} epochs ended, {kinds}; the loop got {joined} times None. With "
        f"`batch_size=None` it got {reached - joined} times None in 2 epochs.",
        "refuted for batches, which `default_collate` makes before the loop sees them; holds with "
        "`batch_size=None`."
        if not joined
        else "holds.",
    )


class _Slip(Images):
    def __getitem__(self, index: int) -> Any:
        try:
            path, label = self.listed[index]
            return nump.array(Image.open(self.root / path)), label  # type: ignore[name-defined] # noqa: F821
        except Exception:
            return None, None


def _example() -> Measured:
    slips = _Slip(shared_images())
    bad = sum(slips[i] == (None, None) for i in range(len(slips)))
    return Measured(
        f"{bad} of {len(slips)} images were taken for bad, {len(SPOILERS)} of them are odd.",
        "refuted: `np` is never imported, and the `except` swallows the `NameError`."
        if bad == len(slips)
        else "holds.",
    )


def _half_gray() -> Measured:
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    shown, fail = [], []
    for name in ("cut-short.jpg", "cut-short.png", "empty.jpg", "web-page.jpg", "deleted.jpg"):
        [file] = [
            shared_images() / path for path, _ in Images(shared_images()).listed if name in path
        ]
        try:
            rows = np.asarray(Image.open(file).convert("RGB"))
            shown.append(f"{sum(bool((row == row[0]).all()) for row in rows)} of {len(rows)}")
        except Exception as error:
            fail.append(type(error).__name__)
    return Measured(
        f"A JPEG and a PNG cut in half load with {' and '.join(shown)} rows in one color; an empty "
        f"file, a web page and a deleted file still raise {', '.join(fail)}.",
        "refuted: two load with half of their rows in one color, the others fail as before.",
    )


CLAIMS: Final = (
    Claim(
        "An exception in a worker is not passed on: the worker exits in silence.",
        EXITING,
        "A loader with two forked workers meets a JPEG cut short, an empty file, a deleted file "
        "and a decompression bomb, each alone.",
        _passed_on,
    ),
    Claim(
        "Return `None, None` for a bad image, and skip it in the loop: `if images is not None`.",
        EXITING,
        "Batches of four samples, one of them bad, at each of the four places, with 0 and with 2 "
        "workers; then without batches.",
        _skipped,
    ),
    Claim(
        "The article's example, as it is printed, skips the bad images and delivers the others.",
        EXITING,
        "Its slip with another name (`nump`, never imported), in a dataset with the same "
        "`except Exception`, sample by sample.",
        _example,
    ),
    Claim(
        "`ImageFile.LOAD_TRUNCATED_IMAGES = True` is the cure for corrupt images.",
        TRUNCATED,
        "Five kinds of bad file are loaded with the switch on; rows of one color are counted.",
        _half_gray,
    ),
)
