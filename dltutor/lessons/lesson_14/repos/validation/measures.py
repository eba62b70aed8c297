"""Measure the mean loss, and collect the hardest scans."""

from collections import deque
from contextlib import contextmanager

from config import SHOWN


class Mean:
    """A mean of numbers that arrive one after the other."""

    def __init__(self):
        self.values = []

    def add(self, value):
        self.values.append(value.item())

    def result(self):
        return sum(self.values) / len(self.values)


class Hardest:
    """The scan with the highest loss from each batch, in the order of the batches."""

    def __init__(self):
        self.scans = []

    def add(self, scans, losses):
        self.scans.append(scans[losses.argmax()].detach())


class Report:
    """A report with the latest hardest scans from all epochs, at most SHOWN of them."""

    def __init__(self):
        self.scans = deque(maxlen=SHOWN)

    def add(self, scans):
        self.scans.extend(scans)


@contextmanager
def evaluating(model):
    """Put the model into eval mode during this block, and restore its mode afterward."""
    was = model.training
    model.eval()
    try:
        yield model
    finally:
        model.train(was)
