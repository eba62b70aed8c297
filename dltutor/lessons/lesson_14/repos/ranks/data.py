"""Recordings, dealt out to ranks."""

from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

BATCH = 8


class Recordings(Dataset):
    """A recording: its index, and 64 numbers."""

    def __init__(self, folder):
        self.recordings = np.load(Path(folder, "recordings.npy"), mmap_mode="r")

    def __len__(self):
        return len(self.recordings)

    def __getitem__(self, index):
        return index, torch.from_numpy(self.recordings[index].copy())


class Share(Sampler):
    """The indices of a rank, shuffled: every `ranks`-th of an order that all ranks agree on."""

    def __init__(self, length, rank, ranks):
        self.length, self.rank, self.ranks = length, rank, ranks

    def __iter__(self):
        same_everywhere = torch.Generator().manual_seed(0)
        order = torch.randperm(self.length, generator=same_everywhere).tolist()
        return iter(order[self.rank :: self.ranks])

    def __len__(self):
        return len(range(self.rank, self.length, self.ranks))


def make_loader(folder, rank, ranks, workers=2):
    """Batches of indices and recordings for a rank."""
    dataset = Recordings(folder)
    return DataLoader(
        dataset,
        BATCH,
        sampler=Share(len(dataset), rank, ranks),
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,
    )
