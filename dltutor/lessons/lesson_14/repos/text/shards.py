"""Read the text on disk, which has one shard of tokens for each source."""

from pathlib import Path

import numpy as np
from config import CONTEXT


class Shard:
    """A shard that reads a source's tokens from disk when they're needed."""

    def __init__(self, path):
        self.source = path.stem
        self.tokens = np.memmap(path, dtype=np.uint16, mode="r")

    def __len__(self):
        """Return how many blocks the shard has."""
        return (len(self.tokens) - 1) // CONTEXT

    def block(self, number):
        """Return CONTEXT tokens and the token after them, for a model to read and to predict."""
        start = number * CONTEXT
        return self.tokens[start : start + CONTEXT + 1].astype(np.int64)


def load(folder, part="shards"):
    """Return the shards in a folder's subfolder `part`, sorted by name."""
    return [Shard(path) for path in sorted(Path(folder, part).glob("*.bin"))]


def count(shards):
    """Return how many blocks all shards have together."""
    return sum(len(shard) for shard in shards)
