"""Define the work that the benchmarks measure: three loaders, and a loop that times itself.

As a script, this module is a program for other tools to watch. `python work.py KIND WORKERS SECONDS
FILE HOW` writes the batches per second to the file. HOW is "plain" (the default), or "observe" or
"psutil" for a program that watches itself.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

_ENDLESS = 10**9
_PICTURES = 64
_LEAD_IN = 0.4  # seconds after the first batch that don't count, because the speed isn't steady yet
_WATCHED = 0.25  # seconds between two readings by `psutil_thread`, as between `observe`'s samples


class Made(Dataset[Any]):
    """A dataset that calls a function to make each sample.

    Args:
        make: A function that takes an index and returns a sample.
        length: The number of samples.
    """

    def __init__(self, make: Callable[[int], Any], length: int) -> None:
        self.make, self.length = make, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.make(index)


def names(size: float) -> list[str]:
    """Return a list of strings that takes up `size` bytes on Python 3.11.

    A string takes up 464 bytes, and its slot in the list takes up another 8.
    """
    return [f"{number:0400}" for number in range(int(size) // 472)]


def _cheap(index: int) -> torch.Tensor:  # most of the time goes into sending the sample
    return torch.full((64,), index)


def _decoded(index: int) -> torch.Tensor:  # most of the time goes into computing in the workers
    with Image.open(f"{_pictures().name}/{index % _PICTURES:02}.jpg") as image:
        return torch.from_numpy(np.array(image.convert("RGB")))


def _waited_for(index: int) -> torch.Tensor:  # most of the time goes into waiting
    time.sleep(0.001)
    return torch.full((64,), index)


_MAKERS = {"cheap": _cheap, "jpeg": _decoded, "wait": _waited_for}
KINDS = {"cheap": "cheap samples", "jpeg": "JPEG decoding"}


def make_loader(kind: str, workers: int, batches: int | None = None) -> DataLoader[torch.Tensor]:
    """Make a loader that doesn't shuffle.

    Args:
        kind: "cheap", "jpeg", or "wait".
        workers: The number of workers.
        batches: The number of batches. If None (the default), the loader practically never ends.
    """
    if kind == "jpeg":
        _pictures()  # makes the pictures in main, before the workers are forked
    size = 16 if kind == "jpeg" else 64
    dataset = Made(_MAKERS[kind], _ENDLESS if batches is None else batches * size)
    return DataLoader(dataset, batch_size=size, num_workers=workers, multiprocessing_context="fork")


class Loop:
    """A training loop that stops after some seconds, and measures its own speed.

    Args:
        seconds: How long the loop counts batches, after a lead-in.
        then: A function to call after counting, while the workers are still running.

    Attributes:
        rate: Batches per second after the lead-in.
        first: When the first batch arrived, on the clock `time.perf_counter`.
        last: When the last counted batch arrived, on the same clock.
    """

    def __init__(self, seconds: float, then: Callable[[], None] = lambda: None) -> None:
        self.seconds = seconds
        self.then = then
        self.rate = self.first = self.last = 0.0

    def __call__(self, loader: DataLoader[Any]) -> None:
        counted = -1
        begin = end = self.first = 0.0
        for _ in loader:
            now = time.perf_counter()
            if not self.first:
                self.first, begin = now, now + _LEAD_IN
            if now < begin:
                continue
            if counted < 0:
                begin, end = now, now + self.seconds
            counted += 1
            if now >= end:
                self.last = now
                self.rate = counted / (now - begin)
                self.then()
                break  # ends the workers, unless something else refers to the iterator


@contextmanager
def psutil_thread() -> Iterator[None]:
    """Run a thread that reads the PSS and USS of main and its children, like a simple monitor."""
    over = threading.Event()

    def look() -> None:
        me = psutil.Process()
        while not over.wait(_WATCHED):
            for process in [me, *me.children(recursive=True)]:
                with suppress(psutil.Error):
                    process.memory_full_info()

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def watched(how: str, loader: DataLoader[Any], loop: Callable[[Any], None]) -> None:
    """Run a loop "plain", in "observe", with the "live" chart, or next to the "psutil" thread."""
    if how == "plain":
        loop(loader)
    elif how == "psutil":
        with psutil_thread():
            loop(loader)
    else:
        from dltutor import observe

        observe(loader, consume=loop, deadline=600, live=how == "live")


@cache
def _pictures() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="dltutor-benchmark-")
    rng = np.random.default_rng(14)
    slope = np.linspace(0, 200, 320 * 240 * 3).reshape(240, 320, 3)
    for number in range(_PICTURES):
        pixels = slope + rng.integers(0, 50, slope.shape)
        Image.fromarray(pixels.astype(np.uint8)).save(f"{folder.name}/{number:02}.jpg", quality=85)
    return folder


def main(kind: str, workers: str, seconds: str, result: str, how: str = "plain") -> None:
    """Run the loop once, alone or watched from inside the process, and save its speed in a file.

    The arguments are the words of the command line that the module's docstring describes.
    """
    loop = Loop(float(seconds))
    watched(how, make_loader(kind, int(workers)), loop)
    Path(result).write_text(str(loop.rate))


if __name__ == "__main__":
    main(*sys.argv[1:])
