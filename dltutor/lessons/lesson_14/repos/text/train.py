"""Train a bigram model for one epoch."""

import math
from pathlib import Path

import torch
from data import BATCH, count_blocks, make_loader

VOCABULARY = 64


def train(folder):
    """One epoch; returns how many steps it took."""
    planned = math.ceil(count_blocks(folder) / BATCH)
    print(f"{count_blocks(folder)} blocks, {planned} steps planned")
    torch.manual_seed(0)
    model = torch.nn.Embedding(VOCABULARY, VOCABULARY)
    optimizer = torch.optim.SGD(model.parameters(), lr=5.0)
    for step, blocks in enumerate(make_loader(folder)):
        rate = 5.0 * max(0.0, 0.5 * (1 + math.cos(math.pi * min(step / planned, 1))))
        optimizer.param_groups[0]["lr"] = rate
        scores = model(blocks[:, :-1])
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), blocks[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step:3d}  lr {rate:.2f}  loss {loss.item():.3f}")
    print(f"done after {step + 1} steps")
    return step + 1


if __name__ == "__main__":
    train(Path(__file__).parent)
