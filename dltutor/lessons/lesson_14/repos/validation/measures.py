"""What a validation finds out."""

from collections import deque
from contextlib import contextmanager

from config import SHOWN


class Mean:
    """The mean of numbers that come one after the other."""

    def __init__(self):
        self.values = []

    def add(self, value):
        self.values.append(value.item())

    def result(self):
        return sum(self.values) / len(self.values)


class Hardest:
    """Of each batch the scan with the highest loss, in order."""

    def __init__(self):
        self.scans = []

    def add(self, scans, losses):
        self.scans.append(scans[losses.argmax()].detach())


class Report:
    """The hardest scans of all epochs, the latest SHOWN of them."""

    def __init__(self):
        self.scans = deque(maxlen=SHOWN)

    def add(self, scans):
        self.scans.extend(scans)


@contextmanager
def evaluating(model):
    """The model without dropout, and as it was afterwards."""
    was = model.training
    model.eval()
    try:
        yield model
    finally:
        model.train(was)
