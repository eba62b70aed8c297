"""Lesson 14, in words: the incident room. A ticket each; what the words of a report are judged by
stands with the incident.
"""

from __future__ import annotations

from typing import Final

from dltutor.lessons.engine.exercise import Exercise
from dltutor.lessons.lesson_14 import images, ranks, table, text, validation, video

EXERCISES: Final = (
    Exercise(
        name="14.images",
        title=images.INCIDENT.title,
        grader=images.GRADER,
        hints=(
            "There are two causes. Look at two batches that follow each other: where are the "
            "photos cut out? And how much does brightness vary in the last epoch, with 0 "
            "workers and with 2?",
            "Each worker has a copy of the dataset: of its numbers, and of the ramp as it was "
            "when the workers were started. Who gives a worker numbers of its own, and does "
            "that happen?",
            "`get_worker_info().dataset` is what the loader was given: a `Subset`, whose "
            "`dataset` has the transform. A `torch.zeros(1).share_memory_()` is one number for "
            "all processes.",
        ),
    ),
    Exercise(
        name="14.text",
        title=text.INCIDENT.title,
        grader=text.GRADER,
        hints=(
            "Which blocks does the model get? Count the blocks of an epoch with a `Counter` of "
            "`tuple(block.tolist())`, with 0 workers and with 2.",
            "Every n-th of n is right if all workers count in the same order. Do they? Print "
            "what `shuffled` returns, in each worker.",
            "torch seeds `random` in each worker with another number. Deal out first and "
            "shuffle then; or shuffle with a seed that all workers have: `info.seed - info.id`.",
        ),
    ),
    Exercise(
        name="14.table",
        title=table.INCIDENT.title,
        grader=table.GRADER,
        hints=(
            "Compare the samples of 0 workers with those of 2, by content. Which are wrong, and "
            "whose numbers do they have?",
            "An answer goes to whoever reads first. Who has opened the connection that a worker "
            "asks? Look at `rows._own`, in main and in a worker.",
            "A forked worker is the thread that main was, with all that it kept. Keep "
            "`os.getpid()` beside a connection, and open another where it is not yours.",
        ),
    ),
    Exercise(
        name="14.video",
        title=video.INCIDENT.title,
        grader=video.GRADER,
        hints=(
            "`observe(loader)` says how the worker died. Which sample did it have?",
            "No `except` outlives a signal, and a header that looks well says nothing of the "
            "frames. Decode each clip once where a death does no harm: in a process of its own.",
            "`multiprocessing.get_context('fork').Process(target=decode, args=(path,))`, then "
            "`start()`, `join()` and `exitcode`: 0 means that it can be decoded.",
        ),
    ),
    Exercise(
        name="14.validation",
        title=validation.INCIDENT.title,
        grader=validation.GRADER,
        hints=(
            "There are two causes: one takes time, one takes files. How many processes does one "
            "call of `validate` start, and how many files does main have open after it?",
            "Each `iter(loader)` starts workers, and they draw a new order. A view of a batch "
            "keeps all of it, detached or not.",
            "`for scans, kinds in feed:` with a loader that does not shuffle; and `.clone()` "
            "what you keep of a batch.",
        ),
    ),
    Exercise(
        name="14.ranks",
        title=ranks.INCIDENT.title,
        grader=ranks.GRADER,
        hints=(
            "No torchrun is needed: `train.batches(folder, 0, 2, 0, 3)` is what rank 0 of 2 "
            "gets. Count the batches of both ranks, epoch by epoch.",
            "The shares are equally long. How many batches that are depends on what is left of "
            "each length, and that differs from rank to rank.",
            "Batches first, of an order that all ranks agree on; then deal out the batches, "
            "every `ranks`-th, with the first ones again where the number does not divide.",
        ),
    ),
)
