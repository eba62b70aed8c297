"""Incident "text": a stream of tokenized text that each worker reads whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader

from dltutor.lessons.kit.endings import Ending, ended_well, ending, where
from dltutor.lessons.kit.outcomes import not_yet
from dltutor.lessons.kit.running import changed, contents, theirs
from dltutor.lessons.lesson_14.scene import Cause, Incident, grader
from dltutor.observation import observe

_CONTEXT: Final = 32
_BATCH: Final = 16
_TOKENS: Final = (9_000, 5_120, 10_001)  # of each shard; the last block of the second is too short
_WORKERS: Final = (0, 2, 3, 4, 2)
_WITHIN: Final = 15  # seconds for one epoch


def make_data(folder: Path, seed: int) -> None:
    """Three shards of tokens: a chain in which most tokens have one follower."""
    random = np.random.default_rng(seed)
    (folder / "shards").mkdir()
    follower = random.permutation(64)
    for number, count in enumerate(_TOKENS):
        strays = np.where(random.random(count) < 0.2, random.integers(64, size=count), -1)
        tokens = np.zeros(count, np.uint16)
        for place in range(1, count):
            stray = strays[place]
            tokens[place] = follower[tokens[place - 1]] if stray < 0 else stray
        tokens.tofile(folder / "shards" / f"part-{number}.bin")


INCIDENT: Final = Incident(
    name="text",
    title="The schedule is over, and the epoch is not",
    causes=(
        Cause(
            names=("repeated_stream",),
            places=("Blocks", "__iter__"),
            shortest="count the blocks of one epoch with a `Counter`, without workers and with "
            "two: each comes once, then twice.",
        ),
    ),
    make_data=make_data,
)


@dataclass(frozen=True)
class Epoch:
    """What one epoch delivered.

    Args:
        where: With how many workers.
        run: How it ended.
        has: How many workers the loader has.
        asked: How many it was asked for.
        odd: What of a batch is not as asked, in a sentence, or nothing.
        missing: How many blocks did not come, or not as often as they are in the shards.
        extra: How many came that should not, or too often.
        expected: How many should come.
        touched: Shards that are new, gone or changed after it.
    """

    where: str
    run: Ending
    has: int = 0
    asked: int = 0
    odd: str = ""
    missing: int = 0
    extra: int = 0
    expected: int = 0
    touched: str = ""


def run(folder: Path, data: Any, train: Any) -> tuple[Epoch, ...]:
    """An epoch with each number of workers, up to the first that is not right."""
    expected, before = Counter(_blocks(folder)), contents(folder / "shards")
    epochs = []
    for workers in _WORKERS:
        epochs.append(_epoch(folder, data.make_loader, workers, expected, before))
        last = epochs[-1]
        if last.run.end != "finished" or last.odd or last.missing or last.extra or last.touched:
            break
    return tuple(epochs)


def _blocks(folder: Path) -> list[bytes]:
    found = []
    for shard in (folder / "shards").glob("*.bin"):
        tokens = np.fromfile(shard, np.uint16).astype(np.int64)
        starts = range(0, len(tokens) - _CONTEXT, _CONTEXT)
        found += [tokens[start : start + _CONTEXT + 1].tobytes() for start in starts]
    return found


def _epoch(
    folder: Path,
    make_loader: Any,
    workers: int,
    expected: Counter[bytes],
    before: dict[str, tuple[int, str]],
) -> Epoch:
    with theirs():
        loader = make_loader(folder, workers)
    if not isinstance(loader, DataLoader):
        not_yet(f"`make_loader` returns a `{type(loader).__name__}`, and not a DataLoader.")
    got: Counter[bytes] = Counter()
    odd: list[str] = []

    def consume(batches: Any) -> None:
        for batch in batches:
            if wrong := _odd(batch):
                odd.append(wrong)
                return
            got.update(block.numpy().tobytes() for block in batch)

    seen = ending(observe(loader, consume=consume, deadline=_WITHIN))
    return Epoch(
        where(workers),
        seen,
        loader.num_workers,
        workers,
        "".join(odd),
        (expected - got).total(),
        (got - expected).total(),
        expected.total(),
        ", ".join(changed(before, folder / "shards")),
    )


def _odd(batch: Any) -> str:
    if not isinstance(batch, torch.Tensor) or batch.dtype != torch.int64:
        return (
            f"a batch is a {getattr(batch, 'dtype', type(batch).__name__)}, not a tensor of int64."
        )
    if batch.ndim != 2 or not 0 < len(batch) <= _BATCH or batch.shape[1] != _CONTEXT + 1:
        return f"a batch has the shape {tuple(batch.shape)}."
    return ""


def judge_run(epochs: tuple[Epoch, ...]) -> str:
    """Right if each block comes once, with any number of workers."""
    for epoch in epochs:
        ended_well(epoch.run, epoch.where)
        if epoch.has != epoch.asked:
            not_yet(
                f"{epoch.asked} workers were asked for, and the loader has {epoch.has}. The job "
                "needs them."
            )
        if epoch.odd:
            not_yet(f"{epoch.where}, {epoch.odd} What does the ticket say of batches?")
        if epoch.missing or epoch.extra:
            not_yet(
                f"{epoch.where}, of the {epoch.expected} blocks {epoch.missing} are missing, and "
                f"{epoch.extra} came once too often, or are no block of the shards. Who reads "
                "which part of them?"
            )
        if epoch.touched:
            not_yet(f"files of the shards are new, gone or changed: {epoch.touched}.")
    assert len(epochs) == len(_WORKERS), "one that is not right has been rejected"
    return f"Each of {epochs[0].expected} blocks came once, without workers and with 2, 3 and 4."


GRADER: Final = grader(
    INCIDENT,
    run=run,
    judge_run=judge_run,
    runs="runs your loader on other shards, without workers and with 2, 3 and 4",
    at_most=_WITHIN * len(_WORKERS) + 15,
)
