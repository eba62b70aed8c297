"""Augmentation: steps that take a photo, shape (3, height, width), and return one."""

import numpy as np
from config import RAMP, SEED, SIZE


class Ramp:
    """How strong augmentation is: not at all in epoch 0, fully from epoch RAMP on."""

    def __init__(self, epoch=0):
        self.epoch = epoch

    @property
    def strength(self):
        return min(1.0, self.epoch / RAMP)


class Step:
    """A step with numbers of its own: one step more leaves those of the others as they were."""

    def restart(self, *seed):
        """Draw other numbers from now on."""
        self.numbers = np.random.default_rng(seed)


class Crop(Step):
    """SIZE x SIZE pixels, from anywhere."""

    def __call__(self, photo):
        top, left = self.numbers.integers(0, photo.shape[-1] - SIZE + 1, size=2)
        return photo[:, top : top + SIZE, left : left + SIZE]


class Mirror:
    """Left for right, every other time."""

    def __call__(self, photo):
        return photo[:, :, ::-1] if np.random.random() < 0.5 else photo


class Brightness(Step):
    """Darker or brighter, by up to a half where the ramp is at its end."""

    def __init__(self, ramp):
        self.ramp = ramp

    def __call__(self, photo):
        photo *= 1 + self.ramp.strength * self.numbers.uniform(-0.5, 0.5)
        return photo


class Compose:
    """One step after the other."""

    def __init__(self, *steps):
        self.steps = steps
        self.restart(SEED)

    def restart(self, seed):
        """Draw other numbers from now on, in all steps."""
        for number, step in enumerate(self.steps):
            if isinstance(step, Step):
                step.restart(seed, number)

    def __call__(self, photo):
        for step in self.steps:
            photo = step(photo)
        return photo
