"""Lesson 04, in words: its questions, what each option is told, and the hints."""

from __future__ import annotations

from typing import Final

from dltutor.lessons.engine.exercise import Exercise
from dltutor.lessons.engine.forms import choice
from dltutor.lessons.lesson_04 import fix, transfer

EXERCISES: Final = (
    Exercise(
        name="04.predict",
        title="What does main's counter say?",
        grader=choice(
            "b",
            {
                "a": "`a`: the workers did replace 8 readings. But main replaced none, and it is "
                "main's variable that main prints.",
                "b": "`b`: 0, on every run. The variable that main prints is one that no worker "
                "can reach.",
                "c": "`c`: run the cell again: it is 0 each time. Workers only race for a variable "
                "that both write to.",
                "d": "`d`: half of them would mean that one worker's number came back, and not the "
                "other's. None came back.",
            },
        ),
        hints=(
            "You need no certainty here: choose, run the next cells, and read what comes back.",
            "Each worker is a process. Which process runs `__getitem__`, and which one prints?",
            "The printed number is main's own variable. Main never ran `__getitem__`.",
        ),
    ),
    Exercise(
        name="04.diagnose",
        title="When does a worker get its copy?",
        grader=choice(
            "b",
            {
                "a": "`a`: true of the fresh ones. The persistent ones started before main set "
                "its variable. Who would have told them?",
                "b": "`b`: a worker has what main had when it started, and what it did itself "
                "since. Nothing else goes either way.",
                "c": "`c`: true of the persistent ones. Fresh workers are started anew for each "
                "epoch. When, seen from the moment at which main set its variable?",
                "d": "`d`: 108 would be main's 100, and the 8 that both count in an epoch, in one "
                "variable. How many variables did the table show?",
            },
        ),
        hints=(
            "Take the table of three epochs. For each row, at which moment was the worker started?",
            "A forked worker starts with what main's variable is at that moment, and adds its own "
            "4 in each epoch that it lives through.",
            "Fresh workers of epoch 1 are forked after main's 100. Persistent ones are as old as "
            "epoch 0.",
        ),
    ),
    Exercise(
        name="04.fix",
        title="The epoch goes in, the count comes out",
        grader=fix.GRADER,
        hints=(
            "Two numbers have to be seen by all processes: one that main writes, one that the "
            "workers write. Section 6 has memory for both.",
            "`epoch` has one writer: a shared tensor that is changed in place will do. `count` has "
            "several: they need a lock around reading and writing back, and a lock that can be "
            "handed to any worker, made in `__init__`.",
            "`self.epoch = torch.tensor(0).share_memory_()` and `self.epoch.fill_(epoch)`; "
            '`self.count = get_context("spawn").Value("q", 0)` and '
            "`with self.count.get_lock(): self.count.value += 1`.",
        ),
    ),
    Exercise(
        name="04.transfer",
        title="One number for each word",
        grader=transfer.GRADER,
        hints=(
            "Take one word that occurs in many headlines, and look at the numbers it comes under.",
            "Each worker fills its own `vocabulary`, in the order in which it meets the words. "
            "Which moment is before all copies are made?",
            "In `__init__`: `words = sorted({word for headline in headlines for word in "
            "headline.split()})`, and number them with `enumerate`. `__getitem__` only reads.",
        ),
    ),
)
