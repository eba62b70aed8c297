"""Load augmented photos."""

import torch
from config import BATCH
from dataset import Photos, for_training
from torch.utils.data import DataLoader, get_worker_info
from transforms import Brightness, Compose, Crop, Mirror, Ramp


def start_worker(worker):
    """Give a worker its own random numbers, from the seed that torch gave the worker."""
    transform = getattr(get_worker_info().dataset, "transform", None)
    if transform is not None:  # photos that are only displayed have no transform
        transform.restart(torch.initial_seed())


def make_loader(folder, workers=2, ramp=None):
    """Make a loader for batches of photos, shape (BATCH, 3, SIZE, SIZE), and their labels."""
    transform = Compose(Crop(), Mirror(), Brightness(ramp or Ramp()))
    return DataLoader(
        for_training(Photos(folder, transform)),
        batch_size=BATCH,
        shuffle=True,
        num_workers=workers,
        worker_init_fn=start_worker,
        persistent_workers=workers > 0,
        multiprocessing_context="fork" if workers else None,
    )
