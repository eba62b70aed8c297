"""Lesson 12, in words: randomness, streams and ranks that repeat themselves."""

from __future__ import annotations

from typing import Final

from dltutor.lessons.engine.exercise import Exercise
from dltutor.lessons.engine.forms import choice
from dltutor.lessons.lesson_12 import fix, transfer

EXERCISES: Final = (
    Exercise(
        name="12.predict",
        title="How many of 128 draws are different?",
        grader=choice(
            "c",
            {
                "a": "`a`: that is so with 0 workers, where one generator draws for everybody. "
                "With two, how many generators are there, and where does each begin?",
                "b": "`b`: one of two repetitions. Look at the census: how often did each number "
                "come, and how often is it drawn in one epoch?",
                "c": "`c`: 32, each of them four times. Two workers draw the same, and each epoch "
                "draws what the one before it drew.",
            },
        ),
        hints=(
            "A guess will do: choose, run the next cells, and count.",
            "Each worker has a copy of the dataset, with the generator in it. Who moved main's?",
            "Look at the line `of 128 draws`.",
        ),
    ),
    Exercise(
        name="12.diagnose",
        title="What does the old recipe repeat?",
        grader=choice(
            "c",
            {
                "a": "`a`: torch had seeded numpy in each worker, anew for each epoch, before it "
                "called your function. What does yours put in place of that?",
                "b": "`b`: W0 gets the seed 0, and W1 the seed 1. Two workers never draw alike. "
                "Which seed does W0 get in the next epoch?",
                "c": "`c`: W0 begins with seed 0 in every epoch. Torch's own seed was another one "
                "in each.",
                "d": "`d`: W0 gets the seed 0, and W1 the seed 1: they draw different numbers. "
                "That leaves one of the two.",
            },
        ),
        hints=(
            "The function is called in each worker when it starts, after torch has seeded it.",
            "Write down the seed of W0 and of W1, in epoch 0 and in epoch 1.",
            "Epoch 0: 0 and 1. Epoch 1: 0 and 1.",
        ),
    ),
    Exercise(
        name="12.fix",
        title="Noise that depends on seed, epoch and index",
        grader=fix.GRADER,
        hints=(
            "A generator that lives longer than one sample has drawn something before. Who knows "
            "what, in which process?",
            "Make the generator in `__getitem__`, from the three numbers that the noise depends "
            "on. Their sum will not do: 0 + 1 is 1 + 0.",
            "`np.random.default_rng` takes a tuple of whole numbers as its seed. The epoch is in "
            "a tensor: `int(self.epoch)`.",
        ),
    ),
    Exercise(
        name="12.transfer",
        title="One stream for the workers of all ranks",
        grader=transfer.GRADER,
        hints=(
            "First give each rank its records, so that all get equally many. Then let the workers "
            "of the rank share those.",
            "Read as many records as there are ranks: a round. Of a full round, each rank takes "
            "one. Nobody takes any of a round that is not full.",
            "`records = iter(self.read())`, and `for number, row in "
            "enumerate(zip(*[records] * self.ranks)):`. A worker takes every round of which "
            "`number % workers` is its own id.",
        ),
    ),
)
