"""Train a bigram model for one epoch, and report how well it knows each source."""

import math
import random
from pathlib import Path

import numpy as np
import torch
from config import BATCH, RATE, SEED, VOCABULARY
from data import make_loader
from shards import count, load
from torch.nn.functional import cross_entropy


def seed_everything(seed):
    """Make every run draw the same numbers."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def loss_of(model, blocks):
    """Return the mean loss for predicting the tokens that follow."""
    return cross_entropy(model(blocks[:, :-1]).flatten(0, 1), blocks[:, 1:].flatten())


@torch.no_grad()
def held_out(model, folder):
    """Yield each source and the model's loss on text that the model wasn't trained on."""
    for shard in load(folder, "held-out"):
        blocks = np.stack([shard.block(number) for number in range(len(shard))])
        yield shard.source, loss_of(model, torch.from_numpy(blocks)).item()


def train(folder, seed=SEED):
    """Train the model for one epoch, and print the losses."""
    seed_everything(seed)
    blocks = count(load(folder))
    print(f"{blocks} blocks, {math.ceil(blocks / BATCH)} steps planned, seed {seed}")
    model = torch.nn.Embedding(VOCABULARY, VOCABULARY)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    for step, batch in enumerate(make_loader(folder)):
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step:3d}  loss {loss.item():.3f}")
    for source, loss in held_out(model, folder):
        print(f"held out: {source:10} {loss:.3f}")


if __name__ == "__main__":
    train(Path(__file__).parent)
