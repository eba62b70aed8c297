"""The shards as a stream of blocks."""

import random

import torch
from torch.utils.data import IterableDataset, get_worker_info


def shuffled(things):
    """The same things in another order."""
    return random.sample(things, len(things))


def share(things):
    """Those that fall to this worker: of n workers, each has every n-th."""
    info = get_worker_info()
    return things[info.id :: info.num_workers] if info else things


class Blocks(IterableDataset):
    """Every block of every shard; the shards in another order in each epoch."""

    def __init__(self, shards):
        self.shards = shards

    def __iter__(self):
        for shard in share(shuffled(self.shards)):
            for number in range(len(shard)):
                yield torch.from_numpy(shard.block(number))
