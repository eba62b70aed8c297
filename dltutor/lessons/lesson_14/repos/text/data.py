"""Tokenized text, read shard by shard."""

from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

CONTEXT = 32
BATCH = 16


class Blocks(IterableDataset):
    """Blocks of tokens, and the token after each: what a model reads, and what it predicts."""

    def __init__(self, folder):
        self.shards = sorted(Path(folder, "shards").glob("*.bin"))

    def __iter__(self):
        for shard in self.shards:
            tokens = np.memmap(shard, dtype=np.uint16, mode="r")
            for start in range(0, len(tokens) - CONTEXT, CONTEXT):
                block = tokens[start : start + CONTEXT + 1]
                yield torch.from_numpy(block.astype(np.int64))


def count_blocks(folder):
    """How many blocks an epoch has."""
    shards = Path(folder, "shards").glob("*.bin")
    return sum((shard.stat().st_size // 2 - 1) // CONTEXT for shard in shards)


def make_loader(folder, workers=2):
    """Batches of blocks, shape (at most BATCH, CONTEXT + 1)."""
    method = "fork" if workers else None
    return DataLoader(Blocks(folder), BATCH, num_workers=workers, multiprocessing_context=method)
