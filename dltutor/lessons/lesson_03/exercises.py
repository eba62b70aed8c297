"""Lesson 03, in words."""

from __future__ import annotations

from typing import Final

from dltutor.lessons.engine.exercise import Exercise
from dltutor.lessons.lesson_03 import fix, transfer

EXERCISES: Final = (
    Exercise(
        name="03.fix",
        title="Deliver every frame that can be decoded, account for the rest",
        grader=fix.GRADER,
        hints=(
            "Decide in `__init__` which frames exist. The trial may not take place in your own "
            "process.",
            "Give each frame a process of its own. Whatever the frame does to it, you can read its "
            "exit code afterwards. Anything but 0 is a death, above 0 too.",
            "For each path: `code = exit_code_alone(decode, path.read_bytes(), how)`. If `code` is "
            "not 0, keep `self.quarantined[path.name] = ...`, with `signal.Signals(-code).name` "
            "for a negative one; otherwise keep the path.",
        ),
    ),
    Exercise(
        name="03.transfer",
        title="The same thumbnails, in a tenth of the memory",
        grader=transfer.GRADER,
        hints=(
            "How many slices are unpacked, and how many are kept?",
            "A packed slice takes 1 kB, an unpacked one 1 MB. `evenly` takes any list. And a view "
            "such as `slice[::16, ::16]` keeps the whole slice alive.",
            "Choose first: `for packed in evenly(read_scan(path))`, and unpack only those.",
        ),
    ),
)
