"""The dataset catches the error of a bad file, and returns its neighbor instead.

Symptom: some samples arrive twice in an epoch, and others never, without an error or a warning.
The number of samples is right.

Mechanism: one bad file shouldn't stop a training run, so `__getitem__` catches whatever the file
raises, and returns the next sample, or a random one. The neighbor then counts twice, in each epoch.
If the bad files have something in common, such as a class or a camera, that's missing from the
training data, and the model's score on the other samples won't tell you. A bug in your own code is
caught, too: after a typo or a missing folder, every sample fails, and the dataset looks for a good
one until Python stops it.

Fix: find the bad files once, before the epoch, leave them out, and report how many there are and
why. If a file can go bad later, let that error end the run, or return a sample that says so, and
count those in the loop. Catch the exceptions that a bad file raises, and no others.

Seen in: clip-retrieval#13 (a review asked whether the next image counts twice), torchtitan#1290.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from torch.utils.data import DataLoader

from dltutor.failures.corrupt_images import (
    Images,
    Sample,
    VerifiedImages,
    load_on_white,
    shared_images,
)
from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load


class RobustImages(Images):
    """A dataset of images that survives files which can't be decoded."""

    def __getitem__(self, index: int) -> Sample:
        path, label = self.listed[index]
        try:
            return load_on_white(self.root / path), self.classes.index(label)
        except Exception:
            return self[(index + 1) % len(self)]


def train(loader: DataLoader[Any]) -> Finding:
    """Run one epoch, and count the images that have arrived before."""
    seen = [sha256(image.numpy()).digest() for images, _ in loader for image in images]
    return Finding(len(seen) - len(set(seen)), f"of {len(seen)} samples seen before")


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset returns the next image instead of a bad one."""
    return Case(load(RobustImages(shared_images()), workers, start_method, batch_size=8), train)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case that checks every image once, and loads only the good ones."""
    return Case(load(VerifiedImages(shared_images()), workers, start_method, batch_size=8), train)


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Counts(3))
