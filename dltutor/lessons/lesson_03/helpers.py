"""Make tables and runs for notebook 03, and films and scans for its checks."""

from __future__ import annotations

import random
import re
import struct
import tempfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from textwrap import fill
from typing import Any, Final, NamedTuple

import cloudpickle
import numpy as np
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.data import scans
from dltutor.failures.dead_worker import ACCIDENTS, How, exit_code_alone, film_paths
from dltutor.failures.tools import load, own_folder
from dltutor.lessons.engine.memory import room
from dltutor.observation import Observation, confine, observe
from dltutor.observation.texts import fate, tidy
from dltutor.tables import Table

_PIXELS: Final = 64  # pixels per frame
# Number of different slices. With so many, a slice from a wrong position usually looks different.
_KINDS: Final = 13


# The notebook's workers leave breadcrumbs in a folder from this function. Each worker has its own
# file there, with the index of the sample that it began to read last.
new_folder: Final = own_folder


def breadcrumb_in(folder: Path, seen: Observation) -> str:
    """Return the breadcrumb of a dead worker, which is the last index that it wrote to its file.

    Args:
        folder: The folder with a file for each worker.
        seen: The run, whose error must name the worker's pid. Of several pids, the first counts.

    Returns:
        The index, as a string.
    """
    named = re.search(r"worker \(pid\D*(\d+)", seen.raw)
    assert named, f"the error should name a pid: {seen.raw}"
    return (folder / f"sample-{named[1]}").read_text()


def log_of(seen: Observation) -> str:
    """Return a run's error as it looks in a log, without the stack and the pids."""
    raw = re.sub(r"(?m)(^  .*\n)+", "  ...\n", seen.raw)
    return re.sub(r"(pid\S*) [\d, ]*\d", r"\1 ...", raw)


def _loader(dataset: Dataset[Any]) -> DataLoader[Any]:
    return load(dataset, 2, "fork", batch_size=2, collate_fn=np.stack)


def stack_of(seen: Observation) -> list[str]:
    """Return up to four calls that faulthandler printed in a worker, innermost first.

    If faulthandler printed none, return ["nothing"].
    """
    stack = seen.stderr.partition("Current thread")[2] or seen.stderr
    return tidy("\n".join(re.findall(r"File .* in .*", stack)[:4])).splitlines() or ["nothing"]


def deaths(frames: Callable[[Sequence[Path], How], Dataset[Any]]) -> Table:
    """Show how a run of the film ends, for each way in which a bad frame can end the worker.

    Args:
        frames: The dataset's class, which takes the frames' paths and one of the ways.
    """
    rows = []
    for how in ACCIDENTS:
        seen = observe(_loader(frames(film_paths(), how)))
        code = seen.workers[0].exitcode
        assert code, f"{how} should have ended W0"
        causes = [tidy(text) for _, text in seen.chain if "signal" in text or "with exit" in text]
        rows.append((how, str(code), fill(causes[0].partition("Details")[0].strip(), 40)))
    return Table(
        "One last line, four causes", tuple(rows), ("how", "exit code", "the error above it")
    )


def side_by_side(*kinds: type) -> Table:
    """Show how two workers read the film with each class, or how making the dataset crashed."""
    rows = []
    for kind in kinds:
        if code := exit_code_alone(kind, film_paths(), "segfault"):
            rows.append((kind.__name__, f"the process that made it was {fate(code)}", "-"))
            continue
        seen = observe(_loader(kind(film_paths(), "segfault")))
        came = str(seen.samples) if seen.ok else "-"  # after a crash, how many arrived is luck
        rows.append((kind.__name__, seen.story().title, came))
    return Table("Two workers", tuple(rows), ("", "how it ended", "frames that arrived"))


def confined(make: Callable[[], Dataset[Any]], *, more: int) -> Observation:
    """Make a dataset in a new interpreter, and read it with two workers under a memory limit.

    Args:
        make: A function that returns the dataset.
        more: MB that all processes together may use beyond what they use with an empty dataset.
    """
    return confine(loader_of, memory=room(more, workers=2), make=cloudpickle.dumps(make))


def loader_of(make: bytes) -> DataLoader[Any]:
    """Return the loader that `confined` runs.

    Args:
        make: A pickled function that returns the dataset.
    """
    dataset: Dataset[Any] = cloudpickle.loads(make)()
    return load(dataset, 2, "fork", batch_size=1, collate_fn=list)


class Film(NamedTuple):
    """A film for a check. Each frame has its own file, and decoding a deadly one ends the process.

    Args:
        paths: The frames' files, in order.
        pixels: By file name, the pixels of each frame that can be decoded.
        deadly: By file name, the exit code that each deadly frame leads to with `how="exit"`.
    """

    paths: list[Path]
    pixels: dict[str, bytes]
    deadly: dict[str, int]


@cache
def fresh_film(frames: int, deadly: tuple[int, ...]) -> Film:
    """Write a film to a temporary folder, and return the film.

    Another call with the same arguments returns the same film.

    Args:
        frames: Number of frames.
        deadly: The positions of the deadly frames, at most two.
    """
    chance = random.Random(frames)
    film = Film([], {}, {})
    # The exit codes are random, so that an answer knows a code only if it has tried the frame. Even
    # an ordinary exit can have a code above 128, which a shell uses for 128 + signal.
    codes = iter((random.randint(129, 159), random.choice((1, 2, 255))))
    folder = tempfile.mkdtemp(prefix="dltutor-film-")
    for place, number in enumerate(chance.sample(range(1000), frames)):
        path, pixels = Path(folder, f"take-{number:03}.frame"), chance.randbytes(_PIXELS)
        film.paths.append(path)
        if place in deadly:
            film.deadly[path.name] = next(codes)
            length = 256 + film.deadly[path.name]
        else:
            film.pixels[path.name], length = pixels, _PIXELS
        path.write_bytes(struct.pack("<I", length) + pixels)
    return film


def fresh_scans(slices: Sequence[int]) -> dict[Path, np.ndarray]:
    """Write scans with these numbers of slices to a temporary folder.

    Returns:
        Path -> the scan's thumbnails, as a uint8 array of shape (4, 64, 64).
    """
    folder = tempfile.mkdtemp(prefix="dltutor-scans-")
    chance = np.random.default_rng(3)
    thumbnails = chance.integers(0, 256, (_KINDS, 64, 64), np.uint8)
    # Only the first pixel of each block has the thumbnail's value, so that a thumbnail made from
    # means or from other pixels is wrong.
    around = np.full((16, 16), 3, np.uint8)
    around[0, 0] = 1
    packed = [zlib.compress(np.kron(each, around).tobytes(), 1) for each in thumbnails]
    made = {}
    for number, count in enumerate(slices):
        path, which = Path(folder, f"{number}.scan"), [n % _KINDS for n in range(count)]
        # Append numbers that zlib ignores, so that no two slices are the same to a cache.
        scans.write_scan(path, [packed[n] + b"%d %d" % (number, i) for i, n in enumerate(which)])
        made[path] = thumbnails[scans.evenly(which)]
    return made


def form_and_pixels(sample: Any) -> tuple[str, bytes]:
    """Return an array's dtype and shape, such as "uint8 (64, 64)", and its bytes.

    If NumPy can't make an array of numbers from the sample, return the sample's type and b"".
    """
    with suppress(Exception):  # the sample may be an object that NumPy can't convert
        array = np.asarray(sample)
        if array.dtype.kind in "biuf":
            return f"{array.dtype} {array.shape}", array.tobytes()
    return type(sample).__name__, b""
