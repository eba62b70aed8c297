"""The text on disk: one shard of tokens for each source."""

from pathlib import Path

import numpy as np
from config import CONTEXT


class Shard:
    """The tokens of a source, read when they are needed."""

    def __init__(self, path):
        self.source = path.stem
        self.tokens = np.memmap(path, dtype=np.uint16, mode="r")

    def __len__(self):
        """How many blocks it has."""
        return (len(self.tokens) - 1) // CONTEXT

    def block(self, number):
        """CONTEXT tokens and the one after them: what a model reads, and what it predicts."""
        start = number * CONTEXT
        return self.tokens[start : start + CONTEXT + 1].astype(np.int64)


def load(folder, part="shards"):
    """The shards of a folder, by name."""
    return [Shard(path) for path in sorted(Path(folder, part).glob("*.bin"))]


def count(shards):
    """How many blocks they have in all."""
    return sum(len(shard) for shard in shards)
