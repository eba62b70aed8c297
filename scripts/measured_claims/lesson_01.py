"""Measure the claims for lesson 01: corrupt images."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image, ImageFile
from torch.utils.data import DataLoader, Subset

from dltutor.failures.corrupt_images import Images, shared_images
from dltutor.failures.data.images import SPOILERS
from dltutor.failures.none_in_batch import SkippingImages
from dltutor.failures.tools.contract import load
from dltutor.observation import observe
from measured_claims import Facts, Samples, observed, python


def _named(images: Images, name: str) -> int:
    return next(i for i, (path, _) in enumerate(images.listed) if Path(path).name == name)


def _good(images: Images) -> list[int]:
    return [i for i, (path, _) in enumerate(images.listed) if Path(path).name not in SPOILERS]


def _copied(images: Images, folder: str) -> Path:
    path, _ = images.listed[_good(images)[0]]
    return Path(shutil.copy(images.root / path, folder))


def passed_on() -> Facts:
    images = Images(shared_images())
    kinds, alive = [], 0
    for name in ("cut-short.jpg", "empty.jpg", "deleted.jpg", "bomb.png"):
        seen = observe(load(Subset(images, [_named(images, name)]), 2, "fork"))
        kinds.append(seen.chain[0][0])
        alive += sum(worker.exitcode is None for worker in seen.workers)
        assert "Original Traceback" in seen.raw
    with tempfile.TemporaryDirectory() as folder:
        path = _copied(images, folder)

        def deleted_while_it_is_read(index: int) -> Any:
            with Image.open(path) as image:
                path.unlink()
                return np.array(image)

        read = observed(deleted_while_it_is_read, 1, 1).end == "finished"
    return {"told": kinds, "alive": alive, "read": read}


def skipped() -> Facts:
    images = SkippingImages(shared_images())
    bad, good = _named(images, "cut-short.jpg"), _good(images)[:3]
    ends: Counter[str] = Counter()
    nones = {4: 0, None: 0}  # how often the loop gets None, by batch size

    def loop(loader: DataLoader[Any]) -> None:
        for pixels, _ in loader:
            nones[loader.batch_size] += pixels is None

    for workers in (0, 2):
        for place in range(4):
            order = [*good[:place], bad, *good[place:]]
            seen = observe(load(Subset(images, order), workers, "fork"), consume=loop)
            ends[seen.chain[0][0]] += 1
        alone = load(Subset(images, [*good, bad]), workers, "fork", batch_size=None)
        observe(alone, consume=loop)
    kinds = [f"{count} with {kind}" for kind, count in sorted(ends.items())]
    return {"ended": ends.total(), "kinds": kinds, "batched": nones[4], "alone": nones[None]}


# The imports in an article's three examples, and code that needs the names from these imports.
_IMPORTS: Final = {
    "first": "import os, torch\nfrom PIL import Image",
    "second": "import torch\nimport numpy as np",
    "third": "import os, random, time, torch",
}
_USES: Final = """
class Files:
    def __init__(self, folder):
        self.paths = [os.path.join(folder, name) for name in os.listdir(folder)]
    def __getitem__(self, index):
        try:
            return np.array(Image.open(self.paths[index])), 1
        except Exception:
            return None, None
files = Files(folder)
bad = [files[index] for index in range(len(files.paths))].count((None, None))
"""


def examples() -> Facts:
    ends = {}
    with tempfile.TemporaryDirectory() as folder:
        _copied(Images(shared_images()), folder)
        for name, imports in _IMPORTS.items():
            names: dict[str, Any] = {"folder": folder}
            try:
                exec(imports + _USES, names)
                ends[name] = "taken for bad" if names["bad"] else "read"
            except NameError as error:
                ends[name] = f"NameError in main: {error}"
    return {"ends": ends, "read": "read" in ends.values()}


_KINDS: Final = (FileNotFoundError, OSError, ValueError, KeyError)


def _every_other_raises(index: int) -> int:
    if index % 2:
        raise _KINDS[index // 2](index)
    return index


def _goes_on(loader: DataLoader[Any]) -> tuple[list[str], int]:
    # Return what each call to `next` returns or raises, and how many workers run at the end.
    batches, given = iter(loader), []
    for _ in range(len(loader)):
        try:
            given.append(f"sample {int(next(batches))}")
        except Exception as error:
            given.append(type(error).__name__)
    return given, sum(worker.is_alive() for worker in getattr(batches, "_workers", ()))


def terminal() -> Facts:
    dataset = Samples(_every_other_raises, 2 * len(_KINDS))
    (given, _), (by_two, alive) = (
        _goes_on(load(dataset, workers, "fork", batch_size=1)) for workers in (0, 2)
    )
    return {"given": given, "two": "the same" if by_two == given else by_two, "alive": alive}


_TELLS: Final = """
import logging, os, signal, sys
from torch.utils.data import DataLoader, Dataset

class Bad(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        print("bad file", index)
        logging.warning("bad file %d", index)
        if index == 3 and sys.argv[2] == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        return index

if __name__ == "__main__":
    logging.basicConfig(filename=sys.argv[3])
    list(DataLoader(Bad(), num_workers=1, multiprocessing_context=sys.argv[1]))
"""


def told() -> Facts:
    counts = {}
    for method, end in (("fork", "ends"), ("spawn", "ends"), ("fork", "is killed")):
        with tempfile.NamedTemporaryFile("r") as log:
            env = os.environ | {"PYTHONUNBUFFERED": ""}
            printed = python(_TELLS, method, end, log.name, env=env).stdout.count("bad file")
            logged = log.read().count("bad file")
        counts[f"{method}, the worker {end}"] = f"{printed} and {logged}"
    return {"counts": counts}


def half_gray() -> Facts:
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    images = Images(shared_images())
    gray, failed = [], []
    for name in ("cut-short.jpg", "cut-short.png", "empty.jpg", "web-page.jpg", "deleted.jpg"):
        path, _ = images.listed[_named(images, name)]
        try:
            rows = np.asarray(Image.open(images.root / path).convert("RGB"))
            gray.append(f"{sum(bool((row == row[0]).all()) for row in rows)} of {len(rows)}")
        except Exception as error:
            failed.append(type(error).__name__)
    return {"gray": gray, "failed": failed}
