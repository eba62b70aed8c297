"""Lesson 01: corrupt images."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image, ImageFile
from torch.utils.data import DataLoader, Dataset, Subset

from dltutor.failures.corrupt_images import Images, shared_images
from dltutor.failures.data.images import SPOILERS
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


def _good(images: Images) -> Path:
    return next(images.root / p for p, _ in images.listed if Path(p).name not in SPOILERS)


class _Unlinks(Dataset[Any]):
    """An image that is deleted between `open` and `load`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Any:
        with Image.open(self.path) as image:
            self.path.unlink()
            return np.array(image)


def _passed_on() -> Measured:
    images = Images(shared_images())
    told, alive = [], 0
    for name in ("cut-short.jpg", "empty.jpg", "deleted.jpg", "bomb.png"):
        seen = observe(_loader(Subset(images, [_odd(images, name)]), 2))
        told.append(seen.chain[0][0])
        alive += sum(worker.exitcode is None for worker in seen.workers)
        assert "Original Traceback" in seen.raw
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copy(_good(images), folder))
        read = observe(_loader(_Unlinks(copy), 1)).end == "finished"
    return Measured(
        f"The loop got {', '.join(told)}, each with the worker's traceback as text; {alive} of "
        f"{2 * len(told)} workers were still running. A file deleted between `open` "
        f"and `load` was {'read all the same' if read else 'not read'}.",
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


# The imports of the article's three samples, and the names that each of them uses.
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


def _examples() -> Measured:
    images, ends = Images(shared_images()), {}
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(_good(images), folder)
        for name, imports in _IMPORTS.items():
            names: dict[str, Any] = {"folder": folder}
            try:
                exec(imports + _USES, names)
                ends[name] = "taken for bad" if names["bad"] else "read"
            except NameError as error:
                ends[name] = f"NameError in main: {error}"
    shown = "; ".join(f"{name}: {end}" for name, end in ends.items())
    return Measured(
        f"A good image, by the {shown}.",
        "refuted: all three lack imports, and in the first and the third the `except` hides it."
        if "read" not in ends.values()
        else "holds.",
    )


_KINDS: Final = (FileNotFoundError, OSError, ValueError, KeyError)


class _Raises(Dataset[int]):
    """Every other sample raises."""

    def __len__(self) -> int:
        return 2 * len(_KINDS)

    def __getitem__(self, index: int) -> int:
        if index % 2:
            raise _KINDS[index // 2](index)
        return index


def _goes_on(loader: DataLoader[Any]) -> tuple[list[str], int]:
    # What each call of `next` gives, and how many workers run at the end.
    batches, given = iter(loader), []
    for _ in range(len(loader)):
        try:
            given.append(f"sample {int(next(batches))}")
        except Exception as error:
            given.append(type(error).__name__)
    return given, sum(worker.is_alive() for worker in getattr(batches, "_workers", ()))


def _terminal() -> Measured:
    runs = {workers: _goes_on(_loader(_Raises(), workers)) for workers in (0, 2)}
    same = runs[0][0] == runs[2][0]
    return Measured(
        f"With 0 workers, `next` gives: {', '.join(runs[0][0])}. With 2 "
        f"{'the same' if same else ', '.join(runs[2][0])}, and {runs[2][1]} of 2 workers run.",
        "refuted: the loop gets the same with and without workers, and may go on."
        if same and runs[2][1] == 2
        else "holds.",
    )


_TELLS: Final = """
import logging, os, signal, sys
from torch.utils.data import DataLoader, Dataset

class Bad(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        print("bad file", index)
        logging.warning("bad file %d", index)
        if index == 3 and sys.argv[2] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        return index

if __name__ == "__main__":
    logging.basicConfig(filename=sys.argv[3])
    list(DataLoader(Bad(), num_workers=1, multiprocessing_context=sys.argv[1]))
"""


def _told() -> Measured:
    counts = {}
    with tempfile.TemporaryDirectory() as folder:
        script, log = Path(folder) / "tells.py", Path(folder) / "log"
        script.write_text(_TELLS)
        for method, end in (("fork", "ends"), ("spawn", "ends"), ("fork", "killed")):
            log.write_text("")
            command = [sys.executable, str(script), method, end, str(log)]
            env = os.environ | {"PYTHONUNBUFFERED": ""}
            run = subprocess.run(command, capture_output=True, text=True, env=env)
            counts[method, end] = run.stdout.count("bad file"), log.read_text().count("bad file")
    shown = "; ".join(
        f"{method}, the worker {'is killed' if end == 'killed' else end}: {printed} and {logged}"
        for (method, end), (printed, logged) in counts.items()
    )
    return Measured(
        f"Of four bad files, printed and logged: {shown}.",
        "holds for a worker that ends in order; a print is lost with a worker that is killed, and "
        "under spawn a worker has to set up `logging` itself."
        if list(counts.values()) == [(4, 4), (4, 0), (0, 4)]
        else "other than expected.",
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
        "and a decompression bomb, each alone; then a file that is deleted while it is read.",
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
        "The article's three examples run as they are printed.",
        EXITING,
        "The imports of each, and the names it uses, in a dataset written anew with the same "
        "`except Exception`, on one good image.",
        _examples,
    ),
    Claim(
        "FileNotFoundError, IOError, ValueError or KeyError may do no harm without workers, but "
        "end a worker.",
        EXITING,
        "Every other sample raises one of them; the loop catches it, and asks for the next.",
        _terminal,
    ),
    Claim(
        "Print or log what fails in `__getitem__`, and you find the file.",
        EXITING,
        "A script whose standard output is a pipe, and whose main process sets up a log file, with "
        "one worker.",
        _told,
        120,
    ),
    Claim(
        "`ImageFile.LOAD_TRUNCATED_IMAGES = True` is the cure for corrupt images.",
        TRUNCATED,
        "Five kinds of bad file are loaded with the switch on; rows of one color are counted.",
        _half_gray,
    ),
)
