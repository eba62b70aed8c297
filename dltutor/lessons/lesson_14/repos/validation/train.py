"""Train a classifier for scans, and validate it after each epoch."""

import resource
import time
from pathlib import Path

import torch
from config import EPOCHS, OPEN_FILES
from data import Feed, make_loader
from measures import Hardest, Mean, Report, evaluating
from torch.nn.functional import cross_entropy


@torch.no_grad()
def validate(model, folder, workers=2):
    """Return the mean loss, and the hardest scan from each batch, for the report."""
    feed = Feed(make_loader(folder, workers, validation=True))
    mean, hardest = Mean(), Hardest()
    with evaluating(model):
        for _ in range(len(feed)):
            scans, kinds = next(feed)
            losses = cross_entropy(model(scans), kinds, reduction="none")
            mean.add(losses.mean())
            hardest.add(scans, losses)
    return mean.result(), hardest.scans


def train_epoch(model, optimizer, feed):
    """Train the model on each scan once."""
    for scans, kinds in feed:
        optimizer.zero_grad()
        cross_entropy(model(scans), kinds).backward()
        optimizer.step()


def train(folder, workers=2, epochs=EPOCHS):
    """Train a model, print how each epoch went, and return the report."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    report = Report()
    for epoch in range(epochs):
        began = time.perf_counter()
        train_epoch(model, optimizer, Feed(make_loader(folder, workers)))
        trained = time.perf_counter()
        loss, hardest = validate(model, folder, workers)
        report.add(hardest)
        took = f"{trained - began:.2f} s, validated in {time.perf_counter() - trained:.2f} s"
        print(f"epoch {epoch}  trained in {took}  validation loss {float(loss):.3f}")
    return report


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))  # the cluster's limit
    train(Path(__file__).parent)
