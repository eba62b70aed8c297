"""Clips with their labels."""

from pathlib import Path

import torch
from codec import decode
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    """A clip: its name, its frames between 0 and 1, and its label, which the name begins with."""

    def __init__(self, folder):
        self.paths = sorted(Path(folder, "clips").glob("*.clip"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        frames = torch.from_numpy(decode(path)) / 255
        return {"name": path.name, "frames": frames, "label": int(path.name.partition("-")[0])}


def make_loader(folder, workers=2):
    """Batches of four clips, as a dict: names, frames (4, 8, 16, 16), labels."""
    return DataLoader(
        Clips(folder),
        batch_size=4,
        shuffle=True,
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,
    )
