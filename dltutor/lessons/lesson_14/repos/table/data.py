"""Customers, as the database has them."""

import numpy as np
import torch
from database import Connection
from torch.utils.data import DataLoader, Dataset

CUSTOMERS = 64


class Customers(Dataset):
    """The numbers of each customer, scaled."""

    def __init__(self, folder):
        self.folder = folder
        self.connection = None  # opened by who needs it first, since it cannot be pickled
        self.mean, self.deviation = self.statistics()

    def row(self, customer):
        if self.connection is None:
            self.connection = Connection(self.folder)
        return np.array(self.connection.row(customer))

    def statistics(self):
        """The mean and the deviation of each column."""
        rows = np.stack([self.row(customer) for customer in range(CUSTOMERS)])
        return rows.mean(axis=0), rows.std(axis=0)

    def __len__(self):
        return CUSTOMERS

    def __getitem__(self, customer):
        scaled = (self.row(customer) - self.mean) / self.deviation
        return customer, torch.from_numpy(scaled.astype(np.float32))


def make_loader(folder, workers=2):
    """Batches of four customers: their ids, and their numbers, shape (4, 8)."""
    return DataLoader(
        Customers(folder),
        batch_size=4,
        shuffle=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        multiprocessing_context="fork" if workers else None,
    )
