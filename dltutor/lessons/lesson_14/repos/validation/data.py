"""Read tissue scans with their kinds, and load their batches."""

from pathlib import Path

import numpy as np
import torch
from config import BATCH
from torch.utils.data import DataLoader, Dataset


class Scans(Dataset):
    """A dataset of half of the scans, with their kinds. A scan is (3, 32, 32), from 0 to 1."""

    def __init__(self, folder, validation):
        scans = np.load(Path(folder, "scans.npy"), mmap_mode="r")
        half = len(scans) // 2
        self.scans = scans[half:] if validation else scans[:half]

    def __len__(self):
        return len(self.scans)

    def __getitem__(self, index):
        scan = torch.from_numpy(self.scans[index].astype(np.float32)) / 255
        return scan, int(self.scans[index, 0, 0, 0]) // 64


class Feed:
    """A source of a loader's batches: all of an epoch in a loop, or one with `next`."""

    def __init__(self, loader):
        self.loader = loader

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        return iter(self.loader)

    def __next__(self):
        return next(iter(self))


def make_loader(folder, workers=2, validation=False):
    """Make a loader for batches of scans and their kinds."""
    return DataLoader(
        Scans(folder, validation),
        BATCH,
        shuffle=True,
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,
    )
