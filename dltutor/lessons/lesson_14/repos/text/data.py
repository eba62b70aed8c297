"""Load blocks of tokens."""

import torch
from config import BATCH
from shards import load
from stream import Blocks
from torch.utils.data import DataLoader


def start_worker(worker):
    """Limit a worker to one thread, which is enough because the worker only reads."""
    torch.set_num_threads(1)


def make_loader(folder, workers=2):
    """Make a loader for batches of blocks, shape (at most BATCH, CONTEXT + 1)."""
    return DataLoader(
        Blocks(load(folder)),
        BATCH,
        num_workers=workers,
        worker_init_fn=start_worker,
        multiprocessing_context="fork" if workers else None,
    )
