"""Lesson 09: what a worker copies of what main has loaded."""

from __future__ import annotations

import gc
import subprocess
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
from dltutor.failures.tools.gauge import Gauge, growth
from dltutor.lessons.lesson_09.material import size_of
from dltutor.tables import MB
from measured_claims import DEEP_DIVE, NOT_STARTING, CannotMeasure, Claim, Measured, Source

_COUNT: Final = 300_000
_GONE: Final = 5.0  # seconds for the resource tracker to remove a block
_COLLECTOR: Final = Source(
    "Python's documentation of gc.freeze", "", "https://docs.python.org/3/library/gc.html#gc.freeze"
)
_SHARED: Final = Source(
    "Python's documentation of multiprocessing.shared_memory",
    "",
    "https://docs.python.org/3/library/multiprocessing.shared_memory.html",
)


class _Kept(Dataset[str]):
    """Captions that were kept somehow."""

    def __init__(self, kept: Sequence[Any]) -> None:
        self.kept = kept

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, index: int) -> str:
        text = self.kept[index]
        return text.decode() if isinstance(text, bytes) else str(text)


def _lines() -> list[str]:
    return Captions(shared_captions(_COUNT)).captions


def _loader(dataset: Dataset[Any], method: str = "fork", **options: Any) -> DataLoader[Any]:
    options = {"batch_size": 200, "sampler": torch.randperm(_COUNT)[:60_000].tolist()} | options
    return DataLoader(dataset, num_workers=2, multiprocessing_context=method, **options)


def _grows(kept: Sequence[Any], listed: int) -> str:
    share = growth(_loader(_Kept(kept))) * MB / listed
    return "grows" if share > 0.5 else "flat" if share < 0.1 else "grows in part"


def _numpy() -> Measured:
    lines = _lines()
    listed = size_of(lines)
    kinds: dict[str, Callable[[], Sequence[Any]]] = {
        "list": lambda: lines,
        "dtype `object`": lambda: np.array(lines, dtype=object),
        "dtype `S`": lambda: np.array([line.encode() for line in lines]),
        "dtype `U`": lambda: np.array(lines),
    }
    found = {kind: _grows(make(), listed) for kind, make in kinds.items()}
    held = found == {
        "list": "grows",
        "dtype `object`": "grows",
        "dtype `S`": "flat",
        "dtype `U`": "flat",
    }
    return Measured(
        f"Each worker: {_told(found)}.",
        "holds for fixed-width arrays; refuted for arrays of dtype `object`." if held else "mixed.",
    )


def _pandas() -> Measured:
    try:
        import pandas as pd  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise CannotMeasure("pandas is not installed here.") from None
    lines, arrow = _lines(), ", no pyarrow"
    listed = size_of(lines)
    kinds: dict[str, Any] = {"dtype `object`": object}
    storages = ["python"]
    with suppress(PackageNotFoundError):
        arrow = f", pyarrow {version('pyarrow')}"
        storages.append("pyarrow")
    for storage in storages:
        kinds[f"dtype `str` stored by {storage}"] = pd.StringDtype(storage, na_value=np.nan)
    found = {
        kind: _grows(pd.Series(lines, dtype=dtype).array, listed) for kind, dtype in kinds.items()
    }
    grow = [kind for kind, how in found.items() if how != "flat"]
    verdict = "holds."
    if grow:
        verdict = f"refuted for {' and '.join(grow)}"
        verdict += "." if len(grow) == len(found) else "; holds otherwise."
    return Measured(f"pandas {pd.__version__}{arrow}. Each worker: {_told(found)}.", verdict)


def _told(found: dict[str, str]) -> str:
    return "; ".join(f"{kind} {how}" for kind, how in found.items())


def _first(dataset: Dataset[Any], method: str) -> float:
    # MB private to each worker with its first batch.
    gauge = Gauge()
    iterator = iter(_loader(dataset, method, batch_size=1))
    for _ in range(2):
        next(iterator)
    return gauge.private()


def _full_copy() -> Measured:
    lines = _lines()
    size = size_of(lines) / MB
    small, listed = _Kept(["a lake"] * _COUNT), _Kept(lines)
    tensor = _Kept(torch.zeros(int(size * MB), dtype=torch.uint8))  # type: ignore[arg-type]
    found = {}
    for method in ("fork", "spawn"):
        least = _first(small, method)
        for kind, dataset in (("the list", listed), ("a tensor as large", tensor)):
            copied = (_first(dataset, method) - least) / size
            found[f"{kind}, {method}"] = "a full copy" if copied > 0.7 else "less than a fifth"
    forked = growth(_loader(listed)) * MB > 0.5 * size * MB
    result = f"Of each worker's own with its first batch: {_told(found)}."
    if forked:
        result += " The forked worker that then reads the list at random copies nearly all of it."
    copies = [kind for kind, how in found.items() if how == "a full copy"]
    held = copies == ["the list, spawn"] and forked
    return Measured(
        result,
        "under fork refuted at the start, and true in the end for Python objects that are read; "
        "under spawn it holds for the list and not for a tensor."
        if held
        else f"a full copy for {copies}.",
    )


def _freeze() -> Measured:
    lines = _lines()
    listed = size_of(lines)
    collecting = _Collecting()
    found = {}
    for state in ("not frozen", "frozen"):
        if state == "frozen":
            gc.collect()
            gc.freeze()
        read = growth(_loader(_Kept(lines))) * MB / listed
        private = _first(collecting, "fork")
        found[state] = read, private
    gc.unfreeze()
    (read, private), (read_frozen, private_frozen) = found["not frozen"], found["frozen"]
    reading = "nearly all" if min(read, read_frozen) > 0.7 else "a part"
    less = private > 2 * private_frozen
    return Measured(
        f"A worker that reads the list copies {reading} of it, frozen or not. One that calls "
        "`gc.collect()` and reads nothing has "
        f"{'less than half' if less else 'as much'} private memory with a frozen heap.",
        "refuted for reading; holds for the collector."
        if less and reading == "nearly all"
        else "mixed.",
    )


class _Collecting(Dataset[int]):
    def __init__(self) -> None:
        self.boxes = [{"corner": [n, n + 1]} for n in range(200_000)]

    def __len__(self) -> int:
        return _COUNT

    def __getitem__(self, index: int) -> int:
        gc.collect()
        return index


_MAKE: Final = (
    "import os, signal, sys; from multiprocessing.shared_memory import SharedMemory;"
    "block = SharedMemory(create=True, size=100); print(block.name, flush=True);"
)
_ENDS: Final = {
    "ends normally": "",
    "calls `os._exit`": "os._exit(0)",
    "is killed by SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
}


def _exists(name: str) -> bool:
    code = (
        "import sys; from multiprocessing import resource_tracker;"
        "resource_tracker.register = lambda *_: None;"
        "from multiprocessing.shared_memory import SharedMemory; SharedMemory(sys.argv[1]).close()"
    )
    return not subprocess.run([sys.executable, "-c", code, name], capture_output=True).returncode


def _stays(name: str) -> bool:
    until = time.monotonic() + _GONE
    while exists := _exists(name):
        if time.monotonic() > until:
            break
        time.sleep(0.2)
    return exists


def _outlives() -> Measured:
    stays = {}
    for how, end in _ENDS.items():
        command = [sys.executable, "-c", _MAKE + end]
        run = subprocess.run(command, capture_output=True, text=True)
        stays[how] = _stays(run.stdout.strip())
    taken = _taken("")
    result = "; ".join(f"its creator {how}: {_now(stay)}" for how, stay in stays.items())
    result += f"; its creator lives, and an unrelated process that had attached ends: {_now(taken)}"
    if sys.version_info >= (3, 13):
        result += f", with `track=False`: {_now(_taken(', track=False'))}"
    held = all(stays.values())
    verdict = "holds." if held else "refuted while Python's resource tracker lives"
    if not held:
        verdict += "; it may also go before its creator does." if not taken else "."
    return Measured(f"The block, some seconds later: {result}.", verdict)


def _taken(track: str) -> bool:
    block = SharedMemory(create=True, size=100)
    try:
        code = "import sys; from multiprocessing.shared_memory import SharedMemory;"
        code += f"SharedMemory(sys.argv[1]{track}).close()"
        subprocess.run([sys.executable, "-c", code, block.name], capture_output=True)
        return _stays(block.name)
    finally:
        block.close()
        with suppress(FileNotFoundError):
            block.unlink()


def _now(exists: bool) -> str:
    return "still there" if exists else "gone"


CLAIMS: Final = (
    Claim(
        "File names that are kept in a numpy array do not grow in the workers as a list does.",
        DEEP_DIVE,
        "Two forked workers read 60,000 of 300,000 captions in random order. Their private memory "
        "grows if it grows by more than half of the list.",
        _numpy,
        120,
    ),
    Claim(
        "File names that are kept in a pandas frame do not grow in the workers as a list does.",
        DEEP_DIVE,
        "The same, with a column of strings.",
        _pandas,
        120,
    ),
    Claim(
        "Each worker gets its own full copy of what the dataset loads in `__init__`.",
        NOT_STARTING,
        "Private memory of each of two workers with its first batch, with 300,000 captions and "
        "with a tensor as large, less that of a dataset with next to nothing; then the growth of "
        "two forked workers that read 60,000 of the captions in random order.",
        _full_copy,
        120,
    ),
    Claim(
        "`gc.freeze()` before the fork avoids that forked workers copy what main has loaded.",
        _COLLECTOR,
        "Two forked workers read 60,000 of 300,000 captions, without and with a frozen heap; two "
        "others read none of 200,000 dicts and call `gc.collect()`.",
        _freeze,
        120,
    ),
    Claim(
        "A block of `multiprocessing.shared_memory` may outlive the process that created it.",
        _SHARED,
        "A new interpreter creates a block and ends in one of three ways; another attaches to a "
        "block of a process that lives, closes it and ends. Five seconds later, at the most, a "
        "third one looks whether it is there.",
        _outlives,
        120,
    ),
)
