"""Read recordings, and load their batches."""

from pathlib import Path

import numpy as np
import torch
from config import BATCH
from samplers import Batches, Share
from torch.utils.data import DataLoader, Dataset


class Recordings(Dataset):
    """A dataset of recordings, each as its index and its numbers."""

    def __init__(self, folder):
        self.recordings = np.load(Path(folder, "recordings.npy"), mmap_mode="r")
        self.lengths = np.load(Path(folder, "lengths.npy")).tolist()

    def __len__(self):
        return len(self.recordings)

    def __getitem__(self, index):
        return index, torch.from_numpy(self.recordings[index, : self.lengths[index]].copy())


def make_loader(folder, rank, ranks, workers=2):
    """Make a rank's loader, whose batches are pairs of indices and recordings."""
    dataset = Recordings(folder)
    share = Share(len(dataset), rank, ranks)
    return DataLoader(
        dataset,
        batch_sampler=Batches(share, dataset.lengths, BATCH),
        num_workers=workers,
        persistent_workers=workers > 0,
        multiprocessing_context="fork" if workers else None,
    )
