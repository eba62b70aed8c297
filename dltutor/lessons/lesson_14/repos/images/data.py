"""Photos, augmented."""

from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

SIZE = 24
RAMP = 4  # epochs until brightness varies fully
SEED = 7


class Photos(Dataset):
    """Photos, each cut out at another place and with another brightness whenever it is read."""

    def __init__(self, folder):
        self.photos = np.load(Path(folder, "photos.npy"), mmap_mode="r")
        self.labels = np.load(Path(folder, "labels.npy"))
        self.rng = np.random.default_rng(SEED)
        self.strength = 0.0

    def set_epoch(self, epoch):
        """How much brightness varies: not at all in epoch 0, fully from epoch RAMP on."""
        self.strength = min(1.0, epoch / RAMP)

    def __len__(self):
        return len(self.photos)

    def __getitem__(self, index):
        photo = self.photos[index]
        top, left = self.rng.integers(0, photo.shape[-1] - SIZE + 1, size=2)
        brightness = 1 + self.strength * self.rng.uniform(-0.5, 0.5)
        photo = photo[:, top : top + SIZE, left : left + SIZE] / 255 * brightness
        return torch.from_numpy(photo.astype(np.float32)), int(self.labels[index])


def make_loader(folder, workers=2):
    """Batches of 16 photos, shape (16, 3, SIZE, SIZE), and their labels."""
    return DataLoader(
        Photos(folder),
        batch_size=16,
        shuffle=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        multiprocessing_context="fork" if workers else None,
    )
