"""Read customers, and load their batches."""

import numpy as np
import torch
from config import BATCH, CUSTOMERS
from rows import read
from scaling import Scaler
from torch.utils.data import DataLoader, Dataset


class Customers(Dataset):
    """A dataset of customers, each as an id and scaled numbers."""

    def __init__(self, folder):
        self.folder = folder
        self.scale = Scaler(read(folder, customer) for customer in range(CUSTOMERS))

    def __len__(self):
        return CUSTOMERS

    def __getitem__(self, customer):
        row = self.scale(read(self.folder, customer))
        return customer, torch.from_numpy(row.astype(np.float32))


def make_loader(folder, workers=2):
    """Make a loader for batches of customers' ids and scaled numbers, shape (BATCH, 8)."""
    return DataLoader(
        Customers(folder),
        batch_size=BATCH,
        shuffle=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        multiprocessing_context="fork" if workers else None,
    )
