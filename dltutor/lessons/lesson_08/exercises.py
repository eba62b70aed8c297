"""Lesson 08, in words: what counts as memory, and where it is counted."""

from __future__ import annotations

from typing import Any, Final

from dltutor.lessons.engine.exercise import Exercise, Grader
from dltutor.lessons.engine.forms import blank, choice, letter, shown
from dltutor.lessons.engine.outcomes import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_08 import fix, transfer

_TAKES: Final = {"A": "own", "B": "ahead", "C": "shared", "D": "view"}

_READ: Final = {
    "A": "the sum of USS grew as much as the sum of RES, so the pages belong to one process each.",
    "B": "`/dev/shm` grew, and by what the batches have by their shape.",
    "C": "the sum of RES grew three times as much as the sum of PSS, and USS did not grow.",
    "D": "`/dev/shm` grew, and the batches have next to nothing by their shape.",
}


def _takes(answer: Any) -> dict[str, str]:
    """Job -> what takes up its memory, as meant: `a`, "View" and "'view'" are taken."""
    if blank(answer):
        not_attempted("give each of the four jobs one of the words.")
    jobs = answer if isinstance(answer, dict) else {}
    named = {(letter(job) or "").upper(): word for job, word in jobs.items()}
    if named.keys() != _TAKES.keys() or len(jobs) != len(_TAKES):
        not_yet('`takes` is a dict with the keys "A", "B", "C" and "D".')
    if any(map(blank, named.values())):
        not_attempted("give each of the four jobs one of the words, in place of the dots.")
    meant = {job: str(word).strip(" \"'.`").lower() for job, word in named.items()}
    for job, word in meant.items():
        if word not in _TAKES.values():
            not_yet(f"{shown(named[job])} is none of the words: {', '.join(_TAKES.values())}.")
    return meant


def _told(takes: dict[str, str]) -> Result:
    wrong = [job for job, word in _TAKES.items() if takes[job] != word]
    if wrong:
        job = wrong[0]
        not_yet(f"{4 - len(wrong)} of 4 right. {job} is not `{takes[job]}`: {_READ[job]}")
    return correct(
        "A's workers each have an array of their own, B loads far ahead, C's three processes share "
        "one array, D's samples bring their recordings along. Only C takes less than it seems."
    )


EXERCISES: Final = (
    Exercise(
        name="08.predict",
        title="What three processes take together",
        grader=choice(
            "b",
            {
                "a": "`a`: this sum has the map in it three times. Fork copied none of it: the "
                "three processes have the same pages. Compare the sum of PSS.",
                "b": "`b`: the map is there once. A worker adds its scratch buffer, some MB of "
                "Python's, and its batches. The column RES shows the map in each process all the "
                "same.",
                "c": "`c`: that is the sum of USS. The map belongs to no process alone, so it is "
                "in no USS. It is in memory all the same, once.",
            },
        ),
        hints=(
            "A guess will do: choose, run on, and compare the sums.",
            "Which of these bytes did a worker allocate, and which had main before the fork?",
            "The map exists once, and each worker has a buffer of 32 MB.",
        ),
    ),
    Exercise(
        name="08.diagnose",
        title="Which of four jobs has its memory where?",
        grader=Grader(_takes, _told),
        hints=(
            "Begin with `/dev/shm`: two jobs have something there.",
            "Of these two, one has there what its batches have by their shape, the other far more.",
            "Of the others, compare the sum of USS with the sum of RES: equal, or nothing at all?",
        ),
    ),
    Exercise(
        name="08.fix",
        title="Excerpts that travel light",
        grader=fix.GRADER,
        hints=(
            "Two things make a sample heavy: what it brings along, and how many bytes a number "
            "has. Print `sample.nbytes`, `sample.untyped_storage().nbytes()` and `sample.dtype`.",
            "A slice keeps its storage: copy it. And the file has two bytes for each number: when "
            "do they become four? `unpack` may do that, in main.",
            "In `__getitem__` return `recording[start : start + SECOND].clone()` of the `int16` "
            "tensor; in `unpack` return `sample / 2**15`.",
        ),
    ),
    Exercise(
        name="08.transfer",
        title="How many batches wait",
        grader=transfer.GRADER,
        hints=(
            "A finished batch waits in one of two places. The starter knows one of them.",
            "`next` has to return batch 0. What does main do with batch 1, if it comes first? "
            "Print `batches._task_info` before and after.",
            "Add the number of tuples of two in `batches._task_info.values()`. Without workers "
            "there is no `_data_queue`: return 0.",
        ),
    ),
)
