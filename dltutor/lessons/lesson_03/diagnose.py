"""Grade "03.diagnose": the frame that ends its process, found by trying every one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from dltutor.failures import dead_worker
from dltutor.failures.dead_worker import exit_code_alone
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import blank, whole_number
from dltutor.lessons.kit.outcomes import Result, correct, not_attempted, not_yet
from dltutor.observation.texts import fate

_BATCH_SIZE: Final = 2  # of the lesson's loader
_WORKERS: Final = 2


@dataclass(frozen=True)
class Tried:
    """The lesson's frames, each decoded in a process of its own.

    Args:
        answer: The index that was answered.
        codes: The exit code of each process, in order.
    """

    answer: int
    codes: tuple[int | None, ...]


def look(answer: Any) -> int:
    """The answer, if it is a whole number."""
    if blank(answer):
        not_attempted("set `culprit` to the index of the frame that ends its process.")
    number = whole_number(answer)
    if number is None:
        kind = type(answer).__name__
        not_yet(f"a `{kind}` is not an index. An index is one whole number, such as 3.")
    return number


def gather(answer: int) -> Tried:
    """Decode every frame of the lesson in a process of its own."""
    frames: Any = dead_worker.broken(how="segfault").loader.dataset
    indices = range(len(frames))
    return Tried(answer, tuple(exit_code_alone(frames.__getitem__, index) for index in indices))


def judge(tried: Tried) -> Result:
    """Correct if the answer is the frame whose process died."""
    answer, codes = tried.answer, tried.codes
    culprit = next(index for index, code in enumerate(codes) if code)
    if answer == culprit:
        return correct(
            f"Frame {culprit}: the process that decoded it was {fate(codes[culprit])}. It is in "
            f"batch {culprit // _BATCH_SIZE}, which W0 loads. All the other frames end with exit "
            "code 0."
        )
    if not 0 <= answer < len(codes):
        not_yet(f"there is no frame {answer}: they run from 0 to {len(codes) - 1}.")
    fine = f"frame {answer} was decoded in a process of its own, which ended with exit code 0."
    batch = answer // _BATCH_SIZE
    if answer == culprit // _BATCH_SIZE:
        not_yet(f"{fine} {answer} is the number of the batch. Which frames are in it?")
    if answer == culprit + 1:
        not_yet(f"{fine} Indices count from 0: are you one too far?")
    if batch == culprit // _BATCH_SIZE:
        not_yet(f"{fine} You have the right batch. It holds {_BATCH_SIZE} frames.")
    if batch % _WORKERS != culprit // _BATCH_SIZE % _WORKERS:
        not_yet(f"{fine} It is in batch {batch}, which W1 loads, and W1 did not die.")
    not_yet(f"{fine} Try every frame in a process of its own, and look at the exit codes.")


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=look,
    runs="decodes every frame, each in a process of its own",
    at_most=10,
)
