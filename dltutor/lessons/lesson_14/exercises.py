"""Lesson 14, in words: the incident room. A ticket each; what the words of a report are judged by
stands with the incident.
"""

from __future__ import annotations

from typing import Final

from dltutor.lessons.kit.exercise import Exercise
from dltutor.lessons.lesson_14 import images, ranks, table, text, validation, video

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
    Exercise(
        name="14.table",
        title=table.INCIDENT.title,
        grader=table.GRADER,
        hints=(
            "Compare the samples of 0 workers with those of 2, by content. Which are wrong, and "
            "whose numbers do they have?",
            "An answer goes to whoever reads first. Look at `dataset.connection` before the first "
            "epoch: who has opened it, and who inherits it?",
            "A connection belongs to the process that opened it. Keep `os.getpid()` beside it, "
            "and open another where it is not yours.",
        ),
    ),
    Exercise(
        name="14.video",
        title=video.INCIDENT.title,
        grader=video.GRADER,
        hints=(
            "`observe(loader)` says how the worker died. Which sample did it have?",
            "No `except` outlives a signal. Decode each clip once where a death does no harm: in "
            "a process of its own.",
            "`multiprocessing.get_context('fork').Process(target=decode, args=(path,))`, then "
            "`start()`, `join()` and `exitcode`: 0 means that it can be decoded.",
        ),
    ),
    Exercise(
        name="14.validation",
        title=validation.INCIDENT.title,
        grader=validation.GRADER,
        hints=(
            "There are two causes: one takes time, one takes memory. How many processes does one "
            "call of `validate` start, and how many files does main have open after it?",
            "Each `iter(loader)` starts workers, and they draw a new order. A view of a batch "
            "keeps all of it, and so does a loss that can go backward.",
            "`for scans, kinds in loader:` with a loader that does not shuffle, under "
            "`torch.no_grad()`; and `.clone()` what you keep of a batch.",
        ),
    ),
    Exercise(
        name="14.ranks",
        title=ranks.INCIDENT.title,
        grader=ranks.GRADER,
        hints=(
            "No torchrun is needed: `train.batches(folder, 0, 2, 2, 3)` is what rank 0 of 2 gets. "
            "Count the batches of both ranks, epoch by epoch.",
            "129 recordings are 65 and 64: 9 batches and 8. And what in the order of `Share` "
            "depends on the epoch?",
            "`DistributedSampler(dataset, ranks, rank)` makes the shares equal. It needs to be "
            "told the epoch: `loader.sampler.set_epoch(epoch)`, before each.",
        ),
    ),
)
