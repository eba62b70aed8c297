"""Lesson 05, in words: inherited handles."""

from __future__ import annotations

from typing import Final

from dltutor.lessons.engine.exercise import Exercise
from dltutor.lessons.engine.forms import choice
from dltutor.lessons.lesson_05 import fix, transfer

EXERCISES: Final = (
    Exercise(
        name="05.predict",
        title="What two workers read from one open file",
        grader=choice(
            "c",
            {
                "a": "`a`: each worker does have a Python file object of its own. Look at the "
                "numbers that came: what do the two objects share?",
                "b": "`b`: nothing was raised. `read` always gives some bytes of the file, and "
                "whose they are, a file does not know.",
                "c": "`c`: nothing raises, every batch has the right shape, and samples hold the "
                "data of others.",
            },
        ),
        hints=(
            "A guess will do: choose, run the next cells, and see what comes back.",
            "A worker reads in two steps: `seek`, then `read`. What can happen between them?",
            "Compare the numbers with the indices: sample 5 should show a 5.",
        ),
    ),
    Exercise(
        name="05.diagnose",
        title="Which line opens the file that both workers read?",
        grader=choice(
            "b",
            {
                "a": "`a` keeps the path, and sets `file` to None: nothing is open after it. Ask "
                "`lazy.file` after each line.",
                "b": "`b`: `lazy[0]` is the first use, and it runs in main. The workers find a "
                "file that is open already, and do not open their own.",
                "c": "`c` makes the loader, and reads no record. Ask `lazy.file` after each line.",
                "d": "In `d` the workers start, and each would open a file if it found none. What "
                "does it find, and since when?",
            },
        ),
        hints=(
            "The class opens its file at the first use. In which process is the first use?",
            "After which line is `lazy.file` no longer None?",
            "Make a new `LazyRecords`, leave out one line at a time, and look at what is told.",
        ),
    ),
    Exercise(
        name="05.fix",
        title="Windows of a recording, in every process",
        grader=fix.GRADER,
        hints=(
            "`seek` moves a position that all workers share. Either they must not share it, or "
            "nobody must need it.",
            "To need none: `os.pread`, or a memory map. To share none: each process opens a file "
            "of its own, also if main was there first. How can it tell?",
            "One line: `os.pread(self.file.fileno(), 32, 2 * index)` reads without a position.",
        ),
    ),
    Exercise(
        name="05.transfer",
        title="Rows of a server, over connections of one's own",
        grader=transfer.GRADER,
        hints=(
            "Keep what makes a connection. Which process has to make it, and when?",
            "A worker may find a connection that main has made. It must not use it, and must not "
            "close it: the goodbye would be main's.",
            "A dict from `os.getpid()` to a connection: `if os.getpid() not in self.connections:` "
            "make one. Main's stays in the dict, and nobody else asks over it.",
        ),
    ),
)
