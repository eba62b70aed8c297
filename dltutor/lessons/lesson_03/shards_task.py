"""Grade a loop that goes on after an error and leaves nobody behind: "03.transfer"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dltutor.lessons.kit.answers import same_function
from dltutor.lessons.kit.outcome import Result, correct, error_in_your_code, not_attempted, not_yet
from dltutor.lessons.lesson_03 import shards, shift
from dltutor.lessons.lesson_03.shards import WORKERS
from dltutor.lessons.lesson_03.shift import PATIENCE, Shift, WaitedInVain

#: Seconds that a check takes at most.
AT_MOST: Final = PATIENCE + 5

# In the place of a reading, shard by shard; others than in the lesson.
_SPOILT: Final = ("", "-.-", "", "3,75", "")
_FAILING: Final = tuple(number for number, text in enumerate(_SPOILT, start=1) if text)


def grade(answer: Any) -> Result:
    """Grade a function that takes a list of loaders and returns a report of those that failed."""
    if not callable(answer) or isinstance(answer, type):
        return error_in_your_code(f"the check takes the function itself, got {answer!r:.60}.")
    if same_function(answer, shards.train):
        return not_attempted(
            f"`{answer.__name__}` is still the one from above. Change it, run its cell, then this "
            "one."
        )
    ended = shift.run(answer, *_SPOILT)
    for said in ended.said:
        if isinstance(said, WaitedInVain):
            return not_yet(
                f"After shard {said.shard} the program stood still: torch waited "
                f"{said.seconds:.0f} s in vain for W0, and would have waited as long for every "
                "other worker. This is the stall; now you have called it yourself. A collection "
                "finds what is left over, too late and in the wrong order. Why is it left over?"
            )
        if isinstance(said, tuple):
            return _raised(*said)
        if isinstance(said, Shift):
            return _judge(said)
    if ended.exitcode is None:
        return not_yet(
            f"The function did not come back within {PATIENCE} s. What does it wait for?"
        )
    return not_yet(f"The process that ran the function ended with exit code {ended.exitcode}.")


def _raised(begun: tuple[int, ...], error: Result) -> Result:
    if "ValueError" in error.text and begun and begun[-1] in _FAILING:
        return not_yet(
            f"The error of shard {begun[-1]} ended the whole run, and the shards after it were "
            "never read. One bad reading may cost its shard, not the night."
        )
    return error


def _judge(seen: Shift) -> Result:
    every = range(1, len(_SPOILT) + 1)
    steps: tuple[Callable[[Shift, range], str], ...] = (_kept_workers, _read_all, _left, _reported)
    for step in steps:
        if problem := step(seen, every):
            return not_yet(problem)
    return correct(
        f"{len(_SPOILT)} shards, {len(_FAILING)} of them fail, and each failure is in the report. "
        f"Whenever a shard began, and at the end, 0 workers of earlier ones were alive."
    )


def _kept_workers(seen: Shift, every: range) -> str:
    if set(seen.workers) != {WORKERS}:
        return (
            f"The loaders came with {WORKERS} workers and have {min(seen.workers)} now. Without "
            "workers nobody is left behind, and nobody loads ahead either. Keep them."
        )
    return ""


def _read_all(seen: Shift, every: range) -> str:
    if missed := [number for number in every if number not in seen.begun]:
        return (
            f"Shard {missed[0]} was never read through its loader. {len(set(seen.begun))} of "
            f"{len(every)} were."
        )
    if len(seen.begun) > len(every):
        return f"{len(seen.begun)} epochs began, for {len(every)} shards. Read each once."
    return ""


def _left(seen: Shift, every: range) -> str:
    if not seen.bystander:
        return (
            "A process that belongs to none of the shards was ended as well. At work this is the "
            "validation loader's worker. Who has a right to end these, and can be made to?"
        )
    if not any(seen.alive):
        return ""
    left = (
        f"{seen.alive[-1]} workers of failed shards are alive when the function comes back"
        if seen.alive[-1]
        else f"{max(seen.alive)} workers of a failed shard are alive while a later one is read"
    )
    if seen.timeout:
        return (
            f"{left}. `timeout=` is for a batch that does not come. Here something came: an error. "
            "Who still holds the iterator of that loader?"
        )
    if seen.exceptions:
        return (
            f"{left}. Your report holds exceptions. An exception holds its traceback, and that the "
            "frames it went through; in one of them is the iterator. Which of these can you "
            "take away?"
        )
    return (
        f"{left}. The report does not hold them. Torch's own frame does: it keeps the "
        "exception that it raised, and the exception keeps its frames. No name of yours is in that "
        "circle, so neither the text nor a `del` ends it. Where can you cut it?"
    )


def _reported(seen: Shift, every: range) -> str:
    if isinstance(seen.report, str):
        return (
            f"The function returns a {seen.report}. It has to return a list, one entry a failure."
        )
    named = [number for number in _FAILING if _SPOILT[number - 1] in " ".join(seen.report)]
    if len(named) < len(_FAILING) or len(seen.report) != len(_FAILING):
        return (
            f"{len(_FAILING)} shards failed. The report has {len(seen.report)} entries, and "
            f"{len(named)} of the bad readings are found in them. Whoever reads it in the morning "
            "wants to know what went wrong."
        )
    return ""
