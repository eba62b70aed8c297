"""Measure the claims for lesson 09: how much of main's data a worker copies."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.shared_memory import SharedMemory
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.data.captions import Captions, shared_captions
from dltutor.failures.tools.contract import load
from dltutor.failures.tools.gauge import growth
from dltutor.lessons.lesson_09.helpers import size_of
from dltutor.tables import MB
from measured_claims import Facts, Samples, Sized, library, private, python

_COUNT: Final = 300_000
_GONE: Final = 5.0  # the most seconds for the resource tracker to remove a block
_FULL: Final = 0.7  # a worker with more than this fraction of the list counts as having a copy


class _Kept(Sized):
    """A dataset of captions in any kind of sequence."""

    def __init__(self, kept: Sequence[Any]) -> None:
        self.kept, self.length = kept, len(kept)

    def __getitem__(self, index: int) -> str:
        text = self.kept[index]
        return text.decode() if isinstance(text, bytes) else str(text)


def _lines() -> tuple[list[str], int]:
    # Return a list of the captions, and how many bytes the list takes up.
    lines = Captions(shared_captions(_COUNT)).captions
    return lines, size_of(lines)


def _loader(dataset: Dataset[Any], method: str = "fork", **options: Any) -> DataLoader[Any]:
    options = {"batch_size": 200, "sampler": torch.randperm(_COUNT)[:60_000].tolist()} | options
    return load(dataset, 2, method, **options)


def _copied(kept: Sequence[Any], listed: int) -> float:
    # Return how much two workers that read at random grow on average, as a fraction of `listed`.
    return growth(_loader(_Kept(kept))) * MB / listed


def _grows(kept: Sequence[Any], listed: int) -> str:
    share = _copied(kept, listed)
    return "grows" if share > 0.5 else "flat" if share < 0.1 else "grows in part"


def numpy() -> Facts:
    lines, listed = _lines()
    kinds: dict[str, Callable[[], Sequence[Any]]] = {
        "list": lambda: lines,
        "dtype `object`": lambda: np.array(lines, dtype=object),
        "dtype `S`": lambda: np.array([line.encode() for line in lines]),
        "dtype `U`": lambda: np.array(lines),
    }
    return {"how": [f"{kind} {_grows(make(), listed)}" for kind, make in kinds.items()]}


def pandas() -> Facts:
    pd = library("pandas")
    (lines, listed), arrow = _lines(), ", no pyarrow"
    storages = ["python"]
    with suppress(PackageNotFoundError):
        arrow = f", pyarrow {version('pyarrow')}"
        storages.append("pyarrow")
    kinds: dict[str, Any] = {"dtype `object`": object} | {
        f"dtype `str` stored by {storage}": pd.StringDtype(storage, na_value=np.nan)
        for storage in storages
    }
    how = {
        kind: _grows(pd.Series(lines, dtype=dtype).array, listed) for kind, dtype in kinds.items()
    }
    grow = [kind for kind, end in how.items() if end != "flat"]
    return {
        "pandas": pd.__version__,
        "arrow": arrow,
        "how": [f"{kind} {end}" for kind, end in how.items()],
        "grow": grow,
        "others": "." if len(grow) == len(how) else ". Otherwise, it's true.",
    }


def _first(dataset: Dataset[Any], method: str) -> float:
    # Return the average worker's private memory after each has delivered a batch, in MB.
    return private(_loader(dataset, method, batch_size=1), 2)


def _in_words(share: float) -> str:
    if share > _FULL:
        return "a full copy"
    return "less than a fifth" if share < 0.2 else "part of it"


def full_copy() -> Facts:
    lines, listed = _lines()
    datasets = {
        "the list": _Kept(lines),
        "a tensor as large": _Kept(torch.zeros(listed, dtype=torch.uint8)),  # type: ignore[arg-type]
    }
    shares = {}
    for method in ("fork", "spawn"):
        least = _first(_Kept(["a lake"] * _COUNT), method)
        for kind, dataset in datasets.items():
            shares[f"{kind}, {method}"] = (_first(dataset, method) - least) * MB / listed
    return {
        "first": [f"{kind} {_in_words(share)}" for kind, share in shares.items()],
        "read": _copied(lines, listed) > 0.5,
        "full": [kind for kind, share in shares.items() if share > _FULL],
    }


def freeze() -> Facts:
    lines, listed = _lines()
    boxes = [{"corner": [n, n + 1]} for n in range(200_000)]

    def measured() -> tuple[float, float]:
        collecting = Samples(lambda index: gc.collect() and index, _COUNT)
        return _copied(lines, listed), _first(collecting, "fork")

    read, own = measured()
    gc.collect()
    gc.freeze()
    read_frozen, own_frozen = measured()
    gc.unfreeze()
    del boxes
    return {
        "reading": "nearly all" if min(read, read_frozen) > 0.7 else "a part",
        "less": own > 2 * own_frozen,
    }


_MAKE: Final = (
    "import os, signal, sys; from multiprocessing.shared_memory import SharedMemory;"
    "block = SharedMemory(create=True, size=100); print(block.name, flush=True);"
)
_ENDS: Final = {
    "ends normally": "",
    "calls `os._exit`": "os._exit(0)",
    "is killed by SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
}
_ATTACH: Final = (
    "import sys; from multiprocessing.shared_memory import SharedMemory;"
    "SharedMemory(sys.argv[1]{}).close()"
)
_LOOK: Final = (
    "from multiprocessing import resource_tracker; resource_tracker.register = lambda *_: None;"
)


def _stays(name: str) -> bool:
    until = time.monotonic() + _GONE
    while exists := not python(_LOOK + _ATTACH.format(""), name).returncode:
        if time.monotonic() > until:
            break
        time.sleep(0.2)
    return exists


def removed_by_another() -> tuple[str, str]:
    """Find out whether our shared memory survives an interpreter that attaches to it and exits.

    Returns:
        "gone" or "still there", and the same if the other interpreter attaches with `track=False`
        (or "" before Python 3.13, which has no such argument).
    """

    def now(option: str) -> str:
        block = SharedMemory(create=True, size=100)
        try:
            python(_ATTACH.format(option), block.name)
            return "still there" if _stays(block.name) else "gone"
        finally:
            block.close()
            with suppress(FileNotFoundError):
                block.unlink()

    return now(""), now(", track=False") if sys.version_info >= (3, 13) else ""


def outlives() -> Facts:
    found = [_stays(python(_MAKE + end).stdout.strip()) for end in _ENDS.values()]
    now = {how: "still there" if stays else "gone" for how, stays in zip(_ENDS, found, strict=True)}
    taken, untracked = removed_by_another()
    return {
        "creators": [f"its creator {how}: {end}" for how, end in now.items()],
        "taken": taken,
        "untracked": f", with `track=False`: {untracked}" if untracked else "",
        "stays": all(found),
        "also": ". The block may even go before its creator does." if taken == "gone" else ".",
    }
