"""Lesson 07, in words: the loop that never starts."""

from __future__ import annotations

from typing import Final

from dltutor.lessons.engine.exercise import Exercise
from dltutor.lessons.engine.forms import choice
from dltutor.lessons.lesson_07 import fix, transfer

EXERCISES: Final = (
    Exercise(
        name="07.predict",
        title="The smallest `num_workers` that hangs",
        grader=choice(
            "b",
            {
                "a": "`a`: with 0 workers it finished, so the two reads do not wait for each "
                "other. It takes a worker to hang.",
                "b": "`b`: one worker is enough. So it is not two workers in each other's way; "
                "it is something between main and any worker.",
                "c": "`c`: one worker hangs alone. Nobody is there to compete with.",
            },
        ),
        hints=(
            "A guess will do: choose, run the next cells, and see what comes back.",
            "If two workers were in each other's way, one alone would get through.",
            "Look at the line of 1 worker.",
        ),
    ),
    Exercise(
        name="07.diagnose",
        title="Which line started the thread that the workers wait for?",
        grader=choice(
            "b",
            {
                "a": "`a` makes the executor. Make one in a cell of your own and count "
                "`threading.enumerate()` before and after: an executor without a task has no "
                "thread.",
                "b": "`b`: the executor's first task starts its thread, in main, before there is "
                "any worker. `d`, where the workers stand, is only where it is missed.",
                "c": "`c` runs in the worker. It would start a thread if the executor had none; "
                "the executor counts one already. Who started that one?",
                "d": "`d` is where the workers stand. It waits for a thread and starts none. "
                "Which line started the one it waits for?",
            },
        ),
        hints=(
            "The workers stand in line `D`. Another line, in another process, started what they "
            "wait for.",
            "An executor starts no thread when it is made. It starts one when it gets a task and "
            "has no idle thread.",
            "In which line of `__init__` does `self.thread` get its first task?",
        ),
    ),
    Exercise(
        name="07.fix",
        title="Read pairs side by side, in every worker",
        grader=fix.GRADER,
        hints=(
            "`__init__` runs in main, before the fork. Which code runs in the worker?",
            "Make the executor when a process first needs it. But main may need it first, and "
            "then the workers copy main's. How can a process tell that it is not its own?",
            "Keep `os.getpid()` beside the executor. In `__getitem__`: if there is no executor, or "
            "it was made under another pid, make one and keep both.",
        ),
    ),
    Exercise(
        name="07.transfer",
        title="Labels that are refreshed while the workers are forked",
        grader=transfer.GRADER,
        hints=(
            "Look at the line where the workers stand, and at the thread that would let them go "
            "on. In which process is it?",
            "With a new lock the worker gets further, and finds half-read labels. What if main "
            "never held half-read labels at all, at no moment?",
            "In `refresh`, read into a new dict. When it is complete, put it in place of the old "
            "one: one assignment. Code that reads `self.labels` then needs no lock.",
        ),
    ),
)
