"""Incident "text": each worker shuffles the stream its own way, and then takes its share.

torch seeds `random` differently in each worker. So every worker takes every n-th shard from a
different order, which means that some shards arrive twice and some never do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import get_worker_info

from dltutor.lessons.engine.endings import check_ending, loader_of, run_loop, where
from dltutor.lessons.engine.outcomes import Result, correct, not_yet
from dltutor.lessons.lesson_14.reports import grader
from dltutor.lessons.lesson_14.scene import Incident

_CONTEXT, _BATCH, _EPOCHS = 32, 16, 2
_SOURCES: Final = ("books", "code", "forum", "law", "mail", "manuals", "maps", "medicine", "news")
_MORE_SOURCES: Final = ("recipes", "sport", "wiki")
_OWN: Final = 8  # how many different tokens each source has, all of them its own
_WORKERS: Final = (2, 0, 3, 4, 2)
_WITHIN: Final = 20  # time limit in seconds for making a loader, and for its epochs


def make_data(folder: Path, seed: int) -> None:
    """Write about 2,000 tokens for each source, and 400 held out.

    Each token has a usual successor, which follows it about 80 percent of the time.
    """
    random = np.random.default_rng(seed)
    for part in ("shards", "held-out"):
        (folder / part).mkdir()
    for number, source in enumerate(_SOURCES + _MORE_SOURCES):
        follower = random.permutation(_OWN)
        for part, count in (("shards", 1_900 + 32 * int(random.integers(9))), ("held-out", 400)):
            count += number % 2  # varies how many tokens are left over after the last block
            stray = np.where(random.random(count) < 0.2, random.integers(_OWN, size=count), -1)
            tokens = [0]
            for other in stray[1:].tolist():
                tokens.append(int(follower[tokens[-1]]) if other < 0 else other)
            chain = np.array(tokens, np.uint16) + _OWN * number
            chain.astype(np.uint16).tofile(folder / part / f"{source}.bin")


INCIDENT: Final = Incident("text", make_data)


def run(folder: Path, data: Any, train: Any) -> Result:
    """Check that each block arrives once in each of two epochs, with and without workers.

    With 0 and 2 workers, the order of the shards must also change. No worker may be idle.
    """
    source_of = _blocks(folder)
    for workers in _WORKERS:
        loader = loader_of(data, folder, workers, _WITHIN)
        loader.collate_fn, read = _counting(loader.collate_fn, workers)
        came: list[Counter[bytes]] = []
        lead = where(workers)

        def consume(batches: Any) -> None:
            came.append(Counter())  # noqa: B023
            for batch in batches:
                _look_at(batch, lead)  # noqa: B023
                came[-1].update(block.numpy().tobytes() for block in batch)  # noqa: B023

        check_ending(run_loop(loader, consume, within=_WITHIN, epochs=_EPOCHS), lead)
        orders = [[*dict.fromkeys(map(source_of.get, epoch))] for epoch in came]
        blocks = len(source_of)
        for epoch in came:
            missing = sum(not epoch[block] for block in source_of)
            extra = epoch.total() - blocks + missing
            if missing or extra:
                not_yet("other-blocks", where=lead, blocks=blocks, missing=missing, extra=extra)
        if workers in (0, 2) and any(one == other for one, other in pairwise(orders)):
            not_yet("same-order", where=lead)
        if idle := int((read == 0).sum()):
            not_yet("idle-workers", where=lead, idle=idle, readers=len(read))
    return correct(blocks=len(source_of))


def _counting(collate: Callable[..., Any], workers: int) -> tuple[Callable[..., Any], torch.Tensor]:
    # Return a collate_fn, and the counts of its calls in each worker, or in main without workers.
    calls = torch.zeros(max(workers, 1), dtype=torch.int64).share_memory_()

    def counted(samples: Any) -> Any:
        info = get_worker_info()
        calls[info.id if info else 0] += 1
        return collate(samples)

    return counted, calls


def _blocks(folder: Path) -> dict[bytes, str]:
    # Return each block's source, by the block's bytes. No two blocks are the same.
    found = {}
    for shard in (folder / "shards").glob("*.bin"):
        tokens = np.fromfile(shard, np.uint16).astype(np.int64)
        for start in range(0, len(tokens) - _CONTEXT, _CONTEXT):
            found[tokens[start : start + _CONTEXT + 1].tobytes()] = shard.stem
    return found


def _look_at(batch: Any, lead: str) -> None:
    # Reject a batch of another type or shape.
    if not isinstance(batch, torch.Tensor) or batch.dtype != torch.int64:
        not_yet("other-type", where=lead, kind=getattr(batch, "dtype", type(batch).__name__))
    if batch.ndim != 2 or not 0 < len(batch) <= _BATCH or batch.shape[1] != _CONTEXT + 1:
        not_yet("other-shape", where=lead, shape=tuple(batch.shape))


GRADER: Final = grader(
    INCIDENT,
    run,
    at_most=2 * _WITHIN * len(_WORKERS) + 15,
)
