"""Train a small classifier for photos."""

from pathlib import Path

import torch
from config import EPOCHS, SIZE
from data import make_loader
from transforms import Ramp


def batches(folder, workers, epochs):
    """Yield the epoch, the photos, and the labels of each batch, epoch after epoch."""
    ramp = Ramp()
    loader = make_loader(folder, workers, ramp)
    for epoch in range(epochs):
        ramp.epoch = epoch
        for photos, labels in loader:
            yield epoch, photos, labels


def make_model():
    """Make a model that takes pixels and returns scores for four labels."""
    return torch.nn.Sequential(
        torch.nn.Flatten(),
        torch.nn.Linear(3 * SIZE * SIZE, 32),
        torch.nn.ReLU(),
        torch.nn.Linear(32, 4),
    )


def train(folder, workers=2, epochs=EPOCHS):
    """Train a model, and print the loss of each epoch."""
    torch.manual_seed(0)
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = {}
    for epoch, photos, labels in batches(folder, workers, epochs):
        loss = torch.nn.functional.cross_entropy(model(photos), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.setdefault(epoch, []).append(loss.item())
    for epoch, values in losses.items():
        strength, mean = Ramp(epoch).strength, sum(values) / len(values)
        print(f"epoch {epoch}  strength {strength:.2f}  loss {mean:.3f}")


if __name__ == "__main__":
    train(Path(__file__).parent)
