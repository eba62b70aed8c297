"""Lesson 03, in words; and the grader of "03.diagnose"."""

from __future__ import annotations

from typing import Any, Final

from dltutor.failures.dead_worker import BAD, film_paths
from dltutor.lessons.kit.exercise import Exercise, Grader
from dltutor.lessons.kit.forms import blank, shown, whole_number
from dltutor.lessons.kit.outcomes import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_03 import fix, transfer


def _index(answer: Any) -> int:
    if blank(answer):
        not_attempted("set `culprit` to the index of the frame that ends its process.")
    number = whole_number(answer)
    if number is None:
        not_yet(f"`{shown(answer)}` is not an index. An index is one whole number, such as 3.")
    return number


def judge(index: int) -> Result:
    """Correct if this is the frame that ends its process."""
    if index == BAD:
        return correct(f"W0 wrote {BAD} down, and did not live to write another number.")
    if not 0 <= index < len(film_paths()):
        not_yet(f"there is no frame {index}: they run from 0 to {len(film_paths()) - 1}.")
    if index // 2 % 2 != BAD // 2 % 2:  # two workers, batches of two
        not_yet(f"frame {index} is W1's, and W1 did not die. Whose file has the last words?")
    not_yet(f"frame {index} is W0's, but not its last. What is the last number that it wrote?")


EXERCISES: Final = (
    Exercise(
        name="03.diagnose",
        title="Which frame ends its process?",
        grader=Grader(gather=_index, judge=judge),
        hints=(
            "The first line of each run says which worker died. Each worker has a file of its own.",
            "A worker writes the index down before it decodes. So the last one that a dead worker "
            "wrote is the frame that it did not survive.",
            "It is the number in the file `W0`, the same for both deaths.",
        ),
    ),
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
