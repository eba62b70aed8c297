"""Provide the datasets of lesson 04, and tables of its measurements."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from dltutor.failures import global_state
from dltutor.observation import observe
from dltutor.tables import Table


class CountedClips(Dataset[torch.Tensor]):
    """The notebook's starter for "04.fix". Each epoch reads another stretch of every recording."""

    def __init__(self, clips: torch.Tensor) -> None:
        self.clips = clips
        self.epoch = 0
        self.count = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def silent(self) -> int:
        return self.count

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, index: int) -> torch.Tensor:
        start = 32 * self.epoch
        stretch = self.clips[index, start : start + 32]
        if not stretch.any():
            self.count += 1
        return stretch


def make_clips(epochs: tuple[int, ...] = (0, 1, 2), seed: int = 4) -> torch.Tensor:
    """Make sixteen recordings, with 32 numbers for each epoch from 0 to the highest of `epochs`.

    Args:
        epochs: The epochs in which some recordings are silent. The others have no silent recording.
        seed: The seed for the numbers.

    Returns:
        A tensor with a row for each recording.
    """
    generator = torch.Generator().manual_seed(seed)
    clips = torch.randint(1, 1000, (16, 32 * (max(epochs) + 1)), generator=generator)
    for place, epoch in enumerate(epochs):
        stretches(clips, epoch)[place::5] = 0
    return clips


def stretches(clips: torch.Tensor, epoch: int) -> torch.Tensor:
    """Return the stretches that an epoch should read, as a view of shape (recordings, 32)."""
    return clips[:, 32 * epoch : 32 * (epoch + 1)]


class Headlines(Dataset[torch.Tensor]):
    """The notebook's starter for "04.transfer", which gives each new word the next number."""

    def __init__(self, headlines: list[str]) -> None:
        self.headlines = headlines
        self.vocabulary: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.headlines)

    def __getitem__(self, index: int) -> torch.Tensor:
        words = self.headlines[index].split()
        for word in words:
            self.vocabulary.setdefault(word, len(self.vocabulary))
        return torch.tensor([self.vocabulary[word] for word in words])


_WORDS: Final = (
    ("mayor", "river", "harbor", "council", "school", "museum", "bridge", "baker", "orchestra"),
    ("opens", "closes", "finds", "loses", "paints", "moves", "visits", "repairs"),
    ("old", "second", "quiet", "green", "famous", "northern", "last", "wooden"),
    ("bridge", "garden", "school", "clock", "museum", "boat", "library", "market", "tower"),
)


def make_headlines(*, seed: int = 5) -> list[str]:
    """Make 32 headlines of four words each. Many words appear in several headlines."""
    chance = random.Random(seed)
    return [" ".join(chance.choice(words) for words in _WORDS) for _ in range(32)]


class _Witness(global_state.Readings):
    # Each sample is the number of the worker that reads the sample, and that worker's counter.
    def __getitem__(self, index: int) -> torch.Tensor:
        super().__getitem__(index)
        return torch.tensor([get_worker_info().id, global_state.replaced])  # type: ignore[union-attr]


def ask_every_process(main_sets: int = 0) -> Table:
    """Show what each process counts in three epochs, with fresh and with persistent workers.

    Args:
        main_sets: The value that main gives its own counter before epochs 1 and 2.
    """
    rows = []
    for kind in ("fresh", "persistent"):
        said: dict[str, list[str]] = {"main": [], "W0": [], "W1": []}

        def train(loader: DataLoader[Any], said: dict[str, list[str]] = said) -> None:
            global_state.replaced = main_sets if said["main"] else 0
            last = dict(pair for batch in loader for pair in batch.tolist())
            for who, count in zip(said, (global_state.replaced, last[0], last[1]), strict=True):
                said[who].append(str(count))

        _run(_Witness(), train, epochs=3, persistent_workers=kind == "persistent")
        rows += [(kind, who, *counts) for who, counts in said.items()]
    header = ("workers", "in", "epoch 0", "epoch 1", "epoch 2")
    return Table("replaced, at the end of each epoch", tuple(rows), header)


_of_module = 0
_OF_SYSTEM: Final = "DLTUTOR_SET_BY_MAIN"
_WHEN: Final = {(0, 0): "never", (1, 1): "when it starts", (1, 2): "at any time"}


class _SetByMain(IterableDataset[dict[str, int]]):
    # The only sample holds the number that a worker sees in each of six places where main sets it.
    of_class = 0

    def __init__(self) -> None:
        self.attribute = 0
        self.plain = torch.tensor(0)
        self.shared = torch.tensor(0).share_memory_()

    def set_all(self, number: int) -> None:
        global _of_module
        _of_module = _SetByMain.of_class = self.attribute = number
        os.environ[_OF_SYSTEM] = str(number)
        self.plain.fill_(number)
        self.shared.fill_(number)

    def __iter__(self) -> Iterator[dict[str, int]]:
        yield {
            "an attribute of the dataset": self.attribute,
            "an environment variable": int(os.environ.get(_OF_SYSTEM, 0)),
            "a global variable of a module": _of_module,
            "a class attribute": self.of_class,
            "a tensor, changed in place": int(self.plain),
            "a tensor after share_memory_()": int(self.shared),
        }


def what_arrives() -> Table:
    """Show when a persistent worker sees a number that main sets in six places, by start method."""
    fork, spawn = _arrives("fork"), _arrives("spawn")
    rows = tuple((what, fork[what], spawn[what]) for what in fork)
    return Table("When a worker sees what main sets", rows, ("", "fork", "spawn"))


def _arrives(method: str) -> dict[str, str]:
    dataset, seen = _SetByMain(), list[dict[str, torch.Tensor]]()

    def train(loader: DataLoader[Any]) -> None:
        dataset.set_all(len(seen) + 1)
        seen.extend(loader)

    _run(dataset, train, epochs=2, num_workers=1, multiprocessing_context=method)
    del os.environ[_OF_SYSTEM]
    return {what: _WHEN[int(seen[0][what]), int(seen[1][what])] for what in seen[0]}


def side_by_side(broken: type, fixed: type) -> Table:
    """Compare what two persistent workers read and count with a broken and a fixed class."""
    clips, columns = make_clips(), list[list[str]]()
    for made in (broken, fixed):
        dataset, lines = made(clips), list[str]()

        def train(
            loader: DataLoader[Any], dataset: Any = dataset, lines: list[str] = lines
        ) -> None:
            dataset.set_epoch(epoch := len(lines))
            right = (torch.cat(list(loader)) == stretches(clips, epoch)).all(dim=1).sum()
            lines.append(f"{right} of {len(clips)} right, silent() says {int(dataset.silent())}")

        _run(dataset, train, epochs=3)
        columns.append(lines)
    silent = [int((~stretches(clips, epoch).any(dim=1)).sum()) for epoch in range(3)]
    rows = tuple(zip("012", map(str, accumulate(silent)), *columns, strict=True))
    header = ("epoch", "silent so far", broken.__name__, fixed.__name__)
    return Table("Two persistent workers", rows, header)


def _run(dataset: Any, train: Any, epochs: int, **options: Any) -> None:
    two: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "fork"}
    loader = DataLoader(dataset, 8, **{**two, "persistent_workers": True, **options})
    seen = observe(loader, consume=train, epochs=epochs, deadline=50)
    if seen.end != "finished":
        raise RuntimeError(f"the workers didn't finish {epochs} epochs:\n{seen}")
