"""Choose the recordings for a rank, their order, and their batches."""

from collections import defaultdict

import torch
from config import SEED
from torch.utils.data import Sampler


class Share(Sampler):
    """A sampler of a rank's indices: every `ranks`-th one from an order that all ranks share.

    If the number of indices isn't a multiple of `ranks`, the first few indices appear twice.
    """

    def __init__(self, length, rank, ranks):
        self.length, self.rank, self.ranks = length, rank, ranks
        self.epoch = 0

    def set_epoch(self, epoch):
        """Use the order for this epoch from now on, which is the same on all ranks."""
        self.epoch = epoch

    def __iter__(self):
        agreed = torch.Generator().manual_seed(SEED + self.epoch)
        order = torch.randperm(self.length, generator=agreed).tolist()
        order += order[: -self.length % self.ranks]
        return iter(order[self.rank :: self.ranks])

    def __len__(self):
        return -(-self.length // self.ranks)


class Batches(Sampler):
    """A sampler that puts another sampler's indices into batches of equally long recordings.

    For each length, the recordings left over at the end make a smaller batch.
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
