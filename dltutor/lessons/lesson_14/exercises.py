"""Lesson 14, in words: the incident room. A ticket each; what the words of a report are judged by
stands with the incident.
"""

from __future__ import annotations

from typing import Final

from dltutor.lessons.kit.exercise import Exercise
from dltutor.lessons.lesson_14 import images, text

EXERCISES: Final = (
    Exercise(
        name="14.images",
        title=images.INCIDENT.title,
        grader=images.GRADER,
        hints=(
            "There are two causes. Look at two batches that follow each other: where are the "
            "photos cut out? And what is `strength` where a photo is read?",
            "Each worker has a copy of the dataset: of its generator, and of `strength` as it was "
            "when the workers were started.",
            "What torch seeds in each worker is different there: `np.random` and `torch.randint`. "
            "A `torch.zeros(1).share_memory_()` is one number for all processes.",
        ),
    ),
    Exercise(
        name="14.text",
        title=text.INCIDENT.title,
        grader=text.GRADER,
        hints=(
            "The loop goes on after the planned steps. How many blocks does it get in one epoch, "
            "and how many are there?",
            "`make_loader(room_folder, 0)` beside `make_loader(room_folder, 2)`: count each block, "
            "with a `Counter` of `tuple(block.tolist())`.",
            "Each worker has a copy of the dataset. `get_worker_info()` in `__iter__` says which "
            "of how many it is: of all blocks, each takes every n-th.",
        ),
    ),
)
