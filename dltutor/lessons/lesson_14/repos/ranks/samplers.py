"""Which recordings a rank gets, in which order, and which of them together."""

from collections import defaultdict

import torch
from config import SEED
from torch.utils.data import Sampler


class Share(Sampler):
    """The indices of a rank: every `ranks`-th of an order that all ranks agree on.

    The first indices come twice where the number does not divide: all shares are equally long.
    """

    def __init__(self, length, rank, ranks):
        self.length, self.rank, self.ranks = length, rank, ranks
        self.epoch = 0

    def set_epoch(self, epoch):
        """Another order from now on, on all ranks the same."""
        self.epoch = epoch

    def __iter__(self):
        agreed = torch.Generator().manual_seed(SEED + self.epoch)
        order = torch.randperm(self.length, generator=agreed).tolist()
        order += order[: -self.length % self.ranks]
        return iter(order[self.rank :: self.ranks])

    def __len__(self):
        return -(-self.length // self.ranks)


class Batches(Sampler):
    """The indices of a sampler, in batches of recordings that are equally long.

    What is left of each length at the end is a smaller batch.
    """

    def __init__(self, sampler, lengths, size):
        self.sampler, self.lengths, self.size = sampler, lengths, size

    def set_epoch(self, epoch):
        self.sampler.set_epoch(epoch)

    def __iter__(self):
        waiting = defaultdict(list)
        for index in self.sampler:
            alike = waiting[self.lengths[index]]
            alike.append(index)
            if len(alike) == self.size:
                yield waiting.pop(self.lengths[index])
        yield from waiting.values()
