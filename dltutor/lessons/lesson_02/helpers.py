"""Provide captions, transform steps, and tables of runs for notebook 02."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.tools import load, own_folder
from dltutor.observation import Observation, observe
from dltutor.observation.texts import tidy
from dltutor.tables import Table

_WORDS: Final = "a an the dog cat bird boat chef nurse sees paints follows red old small tall"
VOCABULARY: Final = {word: number for number, word in enumerate(_WORDS.split())}

UNKNOWN: Final = 9  # the index of the caption with a word that isn't in the vocabulary
EMPTY: Final = 6  # the index of the caption that only has articles
COUNT: Final = 16


@cache
def caption_files() -> list[Path]:
    """Write one file for each caption, and return the paths in order."""
    folder, words = own_folder(), list(VOCABULARY)
    paths = [folder / f"{number:03}.txt" for number in range(COUNT)]
    for number, path in enumerate(paths):
        who, does, like, whom = (words[start + number % 3] for start in (3, 9, 12, 6))
        path.write_text(f"the {like} {who} {does} a {whom}")
    paths[UNKNOWN].write_text("the tall zebra follows a nurse")
    paths[EMPTY].write_text("a an the a")
    return paths


class Compose:
    """A transform that runs several steps, one after the other."""

    def __init__(self, *steps: Callable[[Any], Any]) -> None:
        self.steps = steps

    def __call__(self, sample: Any) -> Any:
        for step in self.steps:
            sample = step(sample)
        return sample


class Captions(Dataset[Any]):
    """A dataset of captions, one per file, with a transform."""

    def __init__(self, paths: Sequence[Path], transform: Callable[[str], Any]) -> None:
        self.paths, self.transform = paths, transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.paths[index].read_text())


class Located(Dataset[Any]):
    """The notebook's starter for "02.fix", which passes on another dataset's samples and errors."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[index]


class TooShort(ValueError):
    """An error for a sample that's too short for a step."""


class Require:
    """A step that returns its sample, or raises TooShort if the sample is shorter than `least`."""

    def __init__(self, least: int) -> None:
        self.least = least

    def __call__(self, sample: Any) -> Any:
        if len(sample) < self.least:
            raise TooShort("the sample is too short")
        return sample

    def __repr__(self) -> str:
        return f"Require({self.least})"


def without_articles(words: list[str]) -> list[str]:
    """Return the words that aren't articles."""
    return [word for word in words if word not in ("a", "an", "the")]


#: Return a loader with forked workers and batches of 4, unless the options say otherwise.
loader_of: Final = partial(load, start_method="fork")


def end_of(seen: Observation, lines: int = 1) -> str:
    """Return the last lines of a run's error, with short paths, and without pids and addresses."""
    return "\n".join(tidy(seen.raw).strip().splitlines()[-lines:])


def headline(seen: Observation) -> str:
    """Return the type and the first line of the message of the exception that ended a run."""
    kind, message = seen.chain[0]
    return f"{kind}: {message.splitlines()[0]}"


def captions_that(raises: Callable[[str], Any]) -> Captions:
    """Return captions with a transform that counts words, and calls `raises` for unknown words."""

    def number(word: str) -> int:
        return VOCABULARY[word] if word in VOCABULARY else raises(word)

    def count(words: list[str]) -> torch.Tensor:
        return torch.bincount(torch.tensor([number(word) for word in words]), minlength=16)

    return Captions(caption_files(), Compose(str.split, count))


def fates(
    ways: Sequence[Callable[[str], Any]], around: Callable[[Any], Any] | None = None
) -> Table:
    """Show what the loop gets, with 0 and 2 workers, if a transform raises for an unknown word.

    Args:
        ways: Functions that take the unknown word and raise an exception.
        around: A function that wraps the dataset. If None, the loader reads the bare dataset.
    """
    rows = []
    for raises in ways:
        captions = captions_that(raises)
        wrapped = around(captions) if around else captions
        ends = (_fate(loader_of(wrapped, workers)) for workers in (0, 2))
        rows.append((raises.__name__, *ends))
    return Table("What the loop gets", tuple(rows), ("", "0 workers", "2 workers"))


def _fate(loader: DataLoader[Any]) -> str:
    seen = observe(loader, deadline=2 if loader.num_workers else 20)
    if seen.end == "hung" and not (seen.stderr and seen.samples == UNKNOWN // 4 * 4):
        seen = observe(loader, deadline=20)  # give a busy machine more time
    return seen.chain[0][0] if seen.chain else f"{seen.end} after {seen.samples} of {COUNT}"


def two_orders(*samples: torch.Tensor) -> Table:
    """Show the error from batching these samples in both orders, with 0 and with 2 workers."""
    rows = []
    orders: Any = samples, samples[::-1]
    for order in orders:
        lengths = ", ".join(str(len(sample)) for sample in order)
        for workers in (0, 2):
            text = end_of(observe(loader_of(order, workers))).replace("RuntimeError: ", "")
            rows.append((lengths, str(workers), text.replace(", but", ",\nbut")))
    return Table("One batch, four RuntimeErrors", tuple(rows), ("lengths", "workers", "message"))
