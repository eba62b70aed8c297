"""Test published claims about DataLoaders, each with a measurement.

A claim is a row in `lesson_NN.toml`: the claim itself, who makes it, how we measure it, which facts
we expect, and the words for the outcome. The row names a function in `lesson_NN.py`, which takes
the measurement and returns the facts. `scripts/claims.py` reads the rows, runs the functions, and
writes the page `notebooks/CLAIMS.md`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.tools.contract import load
from dltutor.failures.tools.gauge import Gauge
from dltutor.observation import Observation, observe

Facts = dict[str, Any]
METHODS: Final = ("fork", "spawn", "forkserver")


class CannotMeasure(Exception):
    """Raised when this machine doesn't allow a measurement, with a sentence that says why."""


class Sized(Dataset[Any]):
    """A dataset with `length` samples. A subclass defines the samples."""

    length = 4

    def __len__(self) -> int:
        return self.length


class Samples(Sized):
    """A dataset that calls a function to make each sample from its index.

    Args:
        get: A function that takes an index and returns a sample. Unless the workers are forked,
            define it at a module's top level, so that it can be pickled.
        length: The number of samples (default 4).
    """

    def __init__(self, get: Callable[[int], Any], length: int = 4) -> None:
        self.get, self.length = get, length

    def __getitem__(self, index: int) -> Any:
        return self.get(index)


def observed(
    get: Callable[[int], Any],
    length: int = 4,
    workers: int = 2,
    *,
    consume: Callable[[Any], object] | None = None,
    deadline: float = 60,
    **options: Any,
) -> Observation:
    """Observe a loader whose sample i is `get(i)`. Its workers, if there are any, are forked."""
    loader = load(Samples(get, length), workers, "fork", **options)
    return observe(loader, consume=consume, deadline=deadline)


def ended(seen: Observation) -> str:
    """Return the type of the exception that ended a run or, without one, how the run ended."""
    return seen.chain[0][0] if seen.chain else seen.end


def private(loader: DataLoader[Any], batches: int) -> float:
    """Return the average worker's private memory (USS) after `batches` batches, in MB."""
    gauge, iterator = Gauge(), iter(loader)
    for _ in range(batches):  # `for batch in iterator` would end the workers after an epoch
        next(iterator)
    return gauge.private()


def by_start_method(holds: Callable[[str], bool]) -> list[str]:
    """Return a string for each start method, such as "fork yes" if `holds("fork")` is True."""
    return [f"{method} {'yes' if holds(method) else 'no'}" for method in METHODS]


def library(name: str) -> Any:
    """Import a library that the course doesn't need.

    Raises:
        CannotMeasure: The library isn't installed.
    """
    try:
        return import_module(name)
    except ImportError:
        raise CannotMeasure(f"{name} isn't installed.") from None


def gpu() -> str:
    """Return the name of this machine's GPU with the version of torch, such as "X, torch 2.11".

    Raises:
        CannotMeasure: This machine has no GPU that torch can use.
    """
    if not torch.cuda.is_available():
        raise CannotMeasure("There's no GPU here.")
    return f"{torch.cuda.get_device_name()}, torch {torch.__version__.partition('+')[0]}"


def numbers(loader: DataLoader[Any]) -> list[int]:
    """Run an epoch, and return all numbers in its batches, in order."""
    return [int(number) for batch in loader for number in batch]


def python(script: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a script in a new Python for at most 90 s, and return the completed process.

    Args:
        script: The source code.
        arguments: The script's `sys.argv[1:]`.
        options: Further arguments for `subprocess.run`.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "script.py"
        file.write_text(script)
        command = [sys.executable, str(file), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=90, **options)
