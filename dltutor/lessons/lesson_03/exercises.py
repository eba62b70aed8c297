"""Lesson 03, in words."""

from __future__ import annotations

from typing import Final

from dltutor.lessons.kit.exercise import Exercise
from dltutor.lessons.kit.forms import choice
from dltutor.lessons.lesson_03 import diagnose, fix, transfer

EXERCISES: Final = (
    Exercise(
        name="03.predict",
        title="What does the loop learn of a killed worker?",
        grader=choice(
            "b",
            {
                "a": "Look for the words `Original Traceback` in the raw message. There are "
                "none: a killed process runs no line any more, so it cannot send a traceback.",
                "b": "A `RuntimeError` made by main: it names the signal, and neither a line "
                "of code nor a frame of the film. What the worker was doing died with it: read on.",
                "c": "Look at the title of the Observation. A worker died and the run ended "
                "there. Nobody starts another one, and nobody takes over its batches.",
                "d": "The loop did not wait for ever. The system tells main that a child has "
                "died, and torch raises at once. (There is a case where it takes 5 s: section 6.)",
            },
        ),
        hints=(
            "You need no certainty here: choose, run the next cells, and read what comes back.",
            "SIGKILL cannot be caught. Which of the four could a process still do after it?",
            "The worker can say nothing. What can main find out about a child that is gone?",
        ),
    ),
    Exercise(
        name="03.diagnose",
        title="Which frame ends its process?",
        grader=diagnose.GRADER,
        hints=(
            "Not with `frames[i]` in a cell: it would end this kernel. Call "
            "`exit_code_alone(frames.__getitem__, i)` instead.",
            "It returns the exit code of the process that tried. 0 means that all went well.",
            "`[exit_code_alone(frames.__getitem__, i) for i in range(len(frames))]`, and look for "
            "the one that is not 0. The first entry is index 0.",
        ),
    ),
    Exercise(
        name="03.fix",
        title="Deliver every frame that can be decoded, account for the rest",
        grader=fix.GRADER,
        hints=(
            "Decide before the first epoch which frames exist, as in lesson 01. What is new: the "
            "trial may not take place in your own process.",
            "A process of its own for each frame: whatever the frame does to it, you are left to "
            "read its exit code. Anything but 0 is a death, above 0 too.",
            "In `__init__`, for each path: `code = exit_code_alone(decode, path.read_bytes(), "
            "how)`. If `code` is not 0, keep `self.quarantined[path.name] = ...`, with "
            "`signal.Signals(-code).name` for a negative one; otherwise keep the path.",
        ),
    ),
    Exercise(
        name="03.transfer",
        title="Go on after an error and leave no worker behind",
        grader=transfer.GRADER,
        hints=(
            "Count: `len(active_children())` after a failed shard. Then ask of each thing that is "
            "still there who holds it.",
            "The exception holds its traceback, the traceback its frames, and one frame is a "
            "method of the iterator. Another holds the exception: a circle. As long as it is "
            "whole, the workers live.",
            "Keep the text, `str(error)`, in the report, and take the traceback away before you "
            "leave the `except`: `error.with_traceback(None)`.",
        ),
    ),
)
