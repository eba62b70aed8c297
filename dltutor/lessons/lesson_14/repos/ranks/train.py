"""Fit an encoder for recordings, on as many ranks as torchrun starts."""

import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
from config import EPOCHS, WINDOW
from data import make_loader
from torch import distributed


def batches(folder, rank, ranks, workers, epochs):
    """Yield the epoch, the indices, and the recordings of a rank's batches, epoch after epoch."""
    loader = make_loader(folder, rank, ranks, workers)
    for epoch in range(epochs):
        loader.batch_sampler.set_epoch(epoch)
        for indices, recordings in loader:
            yield epoch, indices, recordings


def train(folder, epochs=EPOCHS):
    """Fit the encoder, and print each rank's steps when all ranks have finished an epoch."""
    distributed.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    torch.manual_seed(0)
    model = torch.nn.Linear(WINDOW, WINDOW)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    now, steps = 0, 0
    for epoch, _, recordings in batches(folder, rank, ranks, workers=2, epochs=epochs):
        if epoch != now:
            over(now, rank, steps)
            now, steps = epoch, 0
        windows = recordings.unflatten(1, (-1, WINDOW))
        loss = (model(windows) - windows).square().mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            distributed.all_reduce(parameter.grad)
        optimizer.step()
        steps += 1
    over(now, rank, steps)
    distributed.destroy_process_group()


def over(epoch, rank, steps):
    """Wait for the other ranks at the end of an epoch, and print this rank's steps."""
    distributed.barrier()
    print(f"epoch {epoch}  rank {rank}  {steps} steps", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    train(Path(__file__).parent)
