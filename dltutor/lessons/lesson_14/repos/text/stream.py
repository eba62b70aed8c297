"""Turn shards into a stream of blocks."""

import random

import torch
from torch.utils.data import IterableDataset, get_worker_info


def shuffled(things):
    """Return the items of a list in random order."""
    return random.sample(things, len(things))


def share(things):
    """Return this worker's share of a list, where each of n workers gets every n-th item."""
    info = get_worker_info()
    return things[info.id :: info.num_workers] if info else things


class Blocks(IterableDataset):
    """A stream of all blocks of all shards, with the shards in a new order in each epoch."""

    def __init__(self, shards):
        self.shards = shards

    def __iter__(self):
        for shard in share(shuffled(self.shards)):
            for number in range(len(shard)):
                yield torch.from_numpy(shard.block(number))
