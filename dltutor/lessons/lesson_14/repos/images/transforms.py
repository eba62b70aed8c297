"""Augment photos by steps that take a photo, shape (3, height, width), and return a photo."""

import numpy as np
from config import RAMP, SEED, SIZE


class Ramp:
    """The strength of augmentation, which is 0 in epoch 0 and full from epoch RAMP on."""

    def __init__(self, epoch=0):
        self.epoch = epoch

    @property
    def strength(self):
        return min(1.0, self.epoch / RAMP)


class Step:
    """A step with its own random numbers, no matter how many numbers the other steps draw."""

    def restart(self, *seed):
        """Draw numbers that depend on this seed from now on."""
        self.numbers = np.random.default_rng(seed)


class Crop(Step):
    """A step that cuts out SIZE x SIZE pixels, from anywhere in the photo."""

    def __call__(self, photo):
        top, left = self.numbers.integers(0, photo.shape[-1] - SIZE + 1, size=2)
        return photo[:, top : top + SIZE, left : left + SIZE]


class Mirror:
    """A step that swaps left and right in about half of the photos."""

    def __call__(self, photo):
        return photo[:, :, ::-1] if np.random.random() < 0.5 else photo


class Brightness(Step):
    """A step that changes the brightness, by up to a half at the end of the ramp."""

    def __init__(self, ramp):
        self.ramp = ramp

    def __call__(self, photo):
        photo *= 1 + self.ramp.strength * self.numbers.uniform(-0.5, 0.5)
        return photo


class Compose:
    """A transform that runs several steps, one after the other."""

    def __init__(self, *steps):
        self.steps = steps
        self.restart(SEED)

    def restart(self, seed):
        """Make all steps draw numbers that depend on this seed from now on."""
        for number, step in enumerate(self.steps):
            if isinstance(step, Step):
                step.restart(seed, number)

    def __call__(self, photo):
        for step in self.steps:
            photo = step(photo)
        return photo
