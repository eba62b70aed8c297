"""What people say about DataLoaders, each statement with the measurement that tries it.

A claim is a row of `lesson_NN.toml`: what is said and by whom, how it is measured, which facts are
expected, and the words for the outcome. It names a function of `lesson_NN.py`, which measures it
and returns the facts. `scripts/claims.py` reads the rows, runs the functions, and writes the page
`notebooks/CLAIMS.md`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader, Dataset

Facts = dict[str, Any]


class CannotMeasure(Exception):
    """This machine does not permit the measurement; the message says why, as a sentence."""


class Sized(Dataset[Any]):
    """A dataset of so many samples; a class that has it as its base says what they are."""

    length = 4

    def __len__(self) -> int:
        return self.length


class Samples(Sized):
    """Samples that a function makes from their indices.

    Args:
        get: Makes one. Where workers aren't forked, it is a function of a module.
        length: How many there are.
    """

    def __init__(self, get: Callable[[int], Any], length: int = 4) -> None:
        self.get, self.length = get, length

    def __getitem__(self, index: int) -> Any:
        return self.get(index)


def numbers(loader: DataLoader[Any]) -> list[int]:
    """A training loop that returns all the numbers of an epoch, in their order."""
    return [int(number) for batch in loader for number in batch]


def python(script: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a script in a Python of its own, for 90 s at most, and return what it printed.

    Args:
        script: Its text.
        arguments: What stands in its `sys.argv[1:]`.
        options: Further options of `subprocess.run`.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "script.py"
        file.write_text(script)
        command = [sys.executable, str(file), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=90, **options)
