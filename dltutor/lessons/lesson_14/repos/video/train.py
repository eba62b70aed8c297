"""Train a classifier for clips."""

from pathlib import Path

import torch
from codec import FRAMES, SIDE
from config import EPOCHS, KINDS
from data import make_loader


def train(folder, workers=2, epochs=EPOCHS):
    """Train a model, and print the loss of each step."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(FRAMES * SIDE * SIDE, KINDS))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = make_loader(folder, workers)
    skipped = getattr(loader.dataset, "skipped", [])
    print(f"{len(loader.dataset)} clips, {len(skipped)} skipped", flush=True)
    for epoch in range(epochs):
        for step, batch in enumerate(loader):
            loss = torch.nn.functional.cross_entropy(model(batch["frames"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"epoch {epoch}  step {step}  loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    train(Path(__file__).parent)
