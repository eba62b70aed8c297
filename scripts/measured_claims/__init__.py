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
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

Facts = dict[str, Any]


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
