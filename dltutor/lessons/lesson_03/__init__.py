"""Lesson 03: workers that die."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Final

from dltutor.failures import dead_worker
from dltutor.failures.dead_worker import exit_code_alone
from dltutor.lessons.kit.exercise import Exercise, choice
from dltutor.lessons.kit.outcome import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_03 import film_task, shards_task
from dltutor.observation.texts import fate

_BATCH_SIZE: Final = 2  # of the lesson's loader
_WORKERS: Final = 2


def _diagnose(answer: Any) -> Result:
    if answer is None or answer is ...:
        return not_attempted("set `culprit` to the index of the frame that ends its process.")
    if isinstance(answer, bool) or not isinstance(answer, Integral):
        kind = type(answer).__name__
        return not_yet(f"A `{kind}` is no index. An index is one whole number, such as 3.")
    answer = int(answer)
    frames: Any = dead_worker.broken(how="segfault").loader.dataset
    if not 0 <= answer < len(frames):
        return not_yet(f"There is no frame {answer}: they run from 0 to {len(frames) - 1}.")
    codes = [exit_code_alone(frames.__getitem__, index) for index in range(len(frames))]
    culprit = next(index for index, code in enumerate(codes) if code)
    if answer == culprit:
        return correct(
            f"Frame {culprit}: the process that decoded it was {fate(codes[culprit])}. It is in "
            f"batch {culprit // _BATCH_SIZE}, which W0 loads. All the other frames end with exit "
            "code 0."
        )
    fine = f"Frame {answer} was decoded in a process of its own, which ended with exit code 0."
    if answer == culprit // _BATCH_SIZE:
        return not_yet(f"{fine} {answer} is the number of the batch. Which frames are in it?")
    if answer == culprit + 1:
        return not_yet(f"{fine} Indices count from 0: are you one too far?")
    if answer // _BATCH_SIZE == culprit // _BATCH_SIZE:
        return not_yet(f"{fine} You have the right batch. It holds {_BATCH_SIZE} frames.")
    if answer // _BATCH_SIZE % _WORKERS != culprit // _BATCH_SIZE % _WORKERS:
        return not_yet(
            f"{fine} It is in batch {answer // _BATCH_SIZE}, which W1 loads, and W1 did not die."
        )
    return not_yet(f"{fine} Try every frame in a process of its own, and look at the exit codes.")


EXERCISES: Final = (
    Exercise(
        name="03.predict",
        title="What does the loop learn of a killed worker?",
        grade=choice(
            "b",
            {
                "a": "`a`: look for the words `Original Traceback` in the raw message. There are "
                "none: a killed process runs no line any more, so it cannot send a traceback.",
                "b": "`b`: a `RuntimeError` made by main: it names the signal, and neither a line "
                "of code nor a frame of the film. What the worker was doing died with it: read on.",
                "c": "`c`: look at the title of the Observation. A worker died and the run ended "
                "there. Nobody starts another one, and nobody takes over its batches.",
                "d": "`d`: the loop did not wait for ever. The system tells main that a child has "
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
        grade=_diagnose,
        hints=(
            "Not with `frames[i]` in a cell: it would end this kernel. Call "
            "`exit_code_alone(frames.__getitem__, i)` instead.",
            "It returns the exit code of the process that tried. 0 means that all went well.",
            "`[exit_code_alone(frames.__getitem__, i) for i in range(len(frames))]`, and look for "
            "the one that is not 0. The first entry is index 0.",
        ),
        runs="decodes every frame, each in a process of its own",
        at_most=10,
    ),
    Exercise(
        name="03.fix",
        title="Deliver every frame that can be decoded, account for the rest",
        grade=film_task.grade,
        hints=(
            "Decide before the first epoch which frames exist, as in lesson 01. What is new: the "
            "trial may not take place in your own process.",
            "A process of its own for each frame: whatever the frame does to it, you are left to "
            "read its exit code. Anything but 0 is a death, above 0 too.",
            "In `__init__`, for each path: `code = exit_code_alone(decode, path.read_bytes(), "
            "how)`. If `code` is not 0, keep `self.quarantined[path.name] = ...`, with "
            "`signal.Signals(-code).name` for a negative one; otherwise keep the path.",
        ),
        runs="makes your class on a fresh film and runs it with 2 workers, in a process that may "
        "die of it",
        at_most=film_task.AT_MOST,
    ),
    Exercise(
        name="03.transfer",
        title="Go on after an error and leave no worker behind",
        grade=shards_task.grade,
        hints=(
            "Count: `len(active_children())` after a failed shard. Then ask of each thing that is "
            "still there who holds it.",
            "The exception holds its traceback, the traceback its frames, and one frame is a "
            "method of the iterator. Another holds the exception: a circle. As long as it is "
            "whole, the workers live.",
            "Keep the text, `str(error)`, in the report, and take the traceback away before you "
            "leave the `except`: `error.with_traceback(None)`.",
        ),
        runs="calls your function with five fresh shards, two of them spoilt",
        at_most=shards_task.AT_MOST,
    ),
)
