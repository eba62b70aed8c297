"""Read photos with their labels, and choose the photos for training."""

from pathlib import Path

import numpy as np
import torch
from config import HELD_OUT
from torch.utils.data import Dataset, Subset


class Photos(Dataset):
    """A dataset of labeled photos between 0 and 1, each transformed whenever it's read."""

    def __init__(self, folder, transform=None):
        self.photos = np.load(Path(folder, "photos.npy"), mmap_mode="r")
        self.labels = np.load(Path(folder, "labels.npy"))
        self.transform = transform

    def __len__(self):
        return len(self.photos)

    def __getitem__(self, index):
        photo = self.photos[index].astype(np.float32) / 255
        if self.transform is not None:
            photo = self.transform(photo)
        return torch.from_numpy(np.ascontiguousarray(photo)), int(self.labels[index])


def for_training(photos):
    """Return a dataset of all photos except every HELD_OUT-th one."""
    return Subset(photos, [index for index in range(len(photos)) if index % HELD_OUT])
