"""Whether the labels that a worker delivers belong together."""

from __future__ import annotations

from typing import Any, Final

import torch

from dltutor.lessons.kit.answers import Unfit
from dltutor.lessons.kit.outcome import Result, not_yet
from dltutor.lessons.lesson_07.label_server import CLIPS, Server

Labels = list[tuple[int, int]]  # a clip's number and its label

_WORKERS: Final = 2


def problem_of_the_labels(epochs: list[Any], server: Server) -> Result | None:
    """What is wrong with the labels that came, or None.

    Args:
        epochs: The batches of each epoch, dealt out to the workers in turn.
        server: Where they come from. In epoch 0 it went from version 0 to 1, and so on.
    """
    for epoch, batches in enumerate(epochs):
        for worker in range(_WORKERS):
            labels = [pair for batch in batches[worker::_WORKERS] for pair in _pairs(batch)]
            if text := _wrong(labels, epoch, server):
                return not_yet(f"Epoch {epoch}, W{worker}: {text}")
        numbers = [number for batch in batches for number, _ in _pairs(batch)]
        if numbers != list(range(CLIPS)):
            return not_yet(f"Epoch {epoch} brings the clips {numbers} instead of 0 to {CLIPS - 1}.")
    if server.read_by_workers > _WORKERS * len(epochs):
        samples = CLIPS * len(epochs)
        return not_yet(
            f"The labels are right. For {samples} samples the workers read the whole list "
            f"{server.read_by_workers} times. What does a worker find in its copy of main, if main "
            "leaves it whole?"
        )
    return None


def _pairs(batch: Any) -> Labels:
    tensors = isinstance(batch, (list, tuple)) and len(batch) == 2
    if not tensors or not all(isinstance(each, torch.Tensor) and each.dim() == 1 for each in batch):
        raise Unfit(not_yet("a sample must stay what it was: the clip's index and its label."))
    numbers, labels = (each.tolist() for each in batch)
    return list(zip(numbers, labels, strict=True))


def _wrong(labels: Labels, epoch: int, server: Server) -> str:
    versions = {
        version: sum(server.label(number, version) == label for number, label in labels)
        for version in range(server.version + 1)
    }
    if len(labels) in (versions[epoch], versions[epoch + 1]):
        return ""
    if versions[0] == len(labels):
        return (
            "the labels are those of the start, and the refresh of the epoch before has been "
            "finished. Whose copy does the worker read?"
        )
    old, new = versions[epoch], versions[epoch + 1]
    if old + new == len(labels):
        return (
            f"{old} labels of before the refresh and {new} of after it, in one worker. It looked "
            "while the labels were half read. What was it that the lock guarded?"
        )
    strange = len(labels) - old - new
    return f"{strange} of {len(labels)} labels were never on the server. Who made them up?"
