"""Lesson 10, in words: four ways to leak, told apart by their curves."""

from __future__ import annotations

from typing import Any, Final

from dltutor.lessons.engine.exercise import Exercise, Grader
from dltutor.lessons.engine.forms import blank, choice, letter, shown
from dltutor.lessons.engine.outcomes import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_10 import fix, transfer

_CAUSES: Final = {"A": "cache", "B": "kept", "C": "cycle", "D": "heap"}

_OBSERVED: Final = {
    "A": "it grew in its workers, and stopped with the same eight samples.",
    "B": "its workers stayed as they were, and main's shared memory and descriptors grew.",
    "C": "it grew in its workers, whatever they read, and stopped with `gc.collect()`.",
    "D": "it grew in its workers, whatever they read, with `gc.collect()` as without.",
}


def _causes(answer: Any) -> dict[str, str]:
    """Job -> cause, as they were meant: `a`, "Cache" and "'cache'" are taken."""
    if blank(answer):
        not_attempted("give each of the four jobs its cause.")
    causes = answer if isinstance(answer, dict) else {}
    named = {(letter(job) or "").upper(): cause for job, cause in causes.items()}
    if named.keys() != _CAUSES.keys() or len(causes) != len(_CAUSES):
        not_yet('`causes` is a dict with the keys "A", "B", "C" and "D".')
    if any(map(blank, named.values())):
        not_attempted("give each of the four jobs its cause, in place of the dots.")
    meant = {job: str(cause).strip(" \"'.`").lower() for job, cause in named.items()}
    for job, cause in meant.items():
        if cause not in _CAUSES.values():
            not_yet(f"{shown(named[job])} is none of the causes: {', '.join(_CAUSES.values())}.")
    return meant


def _told(causes: dict[str, str]) -> Result:
    wrong = [job for job, cause in _CAUSES.items() if causes[job] != cause]
    if wrong:
        job = wrong[0]
        not_yet(f"{4 - len(wrong)} of 4 are right. {job} is not `{causes[job]}`: {_OBSERVED[job]}")
    return correct(
        "A's dataset remembers, B's loop keeps, C waits for the garbage collector, D's C library "
        "takes new memory. Each of the three questions set one of them apart."
    )


EXERCISES: Final = (
    Exercise(
        name="10.predict",
        title="How many of four leaks does gc.collect() stop?",
        grader=choice(
            "c",
            {
                "a": "`a`: look at the last column again. One job stopped, three went on.",
                "b": "`b`: look at the last column again. The collector frees objects that refer "
                "to each other and that nobody else can reach. Only one job makes any.",
                "c": "`c`: one, C. In A and B somebody still refers to the memory. In D the "
                "objects are gone, and their memory was not used again.",
                "d": "`d`: look at C in the last column. Its objects refer to each other, and only "
                "the garbage collector can free them.",
            },
        ),
        hints=(
            "Choose, run on, and read the table of the third question.",
            "`gc.collect()` frees objects that refer to each other and that nobody else refers to.",
            "Which of the curves falls now and then by itself? Something collects there already.",
        ),
    ),
    Exercise(
        name="10.diagnose",
        title="Which of the four jobs has which cause?",
        grader=Grader(_causes, _told),
        hints=(
            "Begin with the job in which main grows and the workers do not.",
            "Of the other three, one stops with the same eight samples, one stops with "
            "`gc.collect()`, and one with neither.",
            "Eight samples fill a cache, and then it has them. Cycles go when they are collected.",
        ),
    ),
    Exercise(
        name="10.fix",
        title="Two workers that do not fill up",
        grader=fix.GRADER,
        hints=(
            "Ask of each object in `self.cache` who will ever take it out again.",
            "In a shuffled epoch each recording is asked for once, by either worker, so a small "
            "cache finds next to nothing. The kernel keeps files that were read, once for all "
            "processes. Without a cache the class needs no `load` of its own.",
            "To keep the last few, something has to leave when another comes: after adding, `if "
            "len(self.cache) > 8: self.cache.pop(next(iter(self.cache)))`.",
        ),
    ),
    Exercise(
        name="10.transfer",
        title="A validation that lets go of its batches",
        grader=transfer.GRADER,
        hints=(
            "Two variables live as long as the function: `total` and `hardest`. What does each "
            "lead to?",
            "`total` is the last node of a graph that grows with every batch, and a graph keeps "
            "what a backward pass would need. `images[i]` is a view: it has the storage of its "
            "whole batch.",
            "`@torch.no_grad()` above the function, or `.item()` on the loss; `.clone()` on the "
            "scan.",
        ),
    ),
)
