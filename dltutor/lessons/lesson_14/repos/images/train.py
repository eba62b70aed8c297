"""Train a small classifier of photos for six epochs."""

from pathlib import Path

import torch
from data import make_loader


def batches(folder, workers, epochs):
    """The epoch, the photos and the labels of each batch, epoch after epoch."""
    loader = make_loader(folder, workers)
    for epoch in range(epochs):
        loader.dataset.set_epoch(epoch)
        for photos, labels in loader:
            yield epoch, photos, labels


def train(folder, workers=2, epochs=6):
    """Prints the loss of each epoch."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(1728, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = {}
    for epoch, photos, labels in batches(folder, workers, epochs):
        loss = torch.nn.functional.cross_entropy(model(photos), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.setdefault(epoch, []).append(loss.item())
    for epoch, values in losses.items():
        print(
            f"epoch {epoch}  strength {min(1, epoch / 4):.2f}  loss {sum(values) / len(values):.3f}"
        )


if __name__ == "__main__":
    train(Path(__file__).parent)
