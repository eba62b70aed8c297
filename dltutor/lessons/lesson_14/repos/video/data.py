"""Read clips with their labels, and load their batches."""

from functools import lru_cache

import archive
import numpy as np
import torch
from codec import FRAMES, SIDE, decode
from config import BATCH
from torch.utils.data import DataLoader, Dataset


@lru_cache(maxsize=8)
def frames_of(path):
    """Return a clip's frames, or black ones if decoding fails, so that the run goes on."""
    try:
        return decode(path)
    except ValueError:
        return np.zeros((FRAMES, SIDE, SIDE), np.uint8)


class Clips(Dataset):
    """A dataset of clips, each as a name, frames from 0 to 1, and the label in the name."""

    def __init__(self, folder):
        self.paths, self.skipped = archive.clips(folder)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        frames = torch.from_numpy(frames_of(path)) / 255
        return {"name": path.name, "frames": frames, "label": int(path.name.partition("-")[0])}


def make_loader(folder, workers=2):
    """Make a loader for batches of clips: names, frames (BATCH, 8, 16, 16), and labels."""
    return DataLoader(
        Clips(folder),
        batch_size=BATCH,
        shuffle=True,
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,
    )
