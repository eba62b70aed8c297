"""Lesson 10, in words: four ways to leak, told apart by their curves."""

from __future__ import annotations

from typing import Any, Final

from dltutor.lessons.kit.exercise import Exercise, Grader
from dltutor.lessons.kit.forms import blank, choice, letter, shown
from dltutor.lessons.kit.outcomes import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_10 import fix, transfer

_CAUSES: Final = {"A": "cache", "B": "kept", "C": "cycle", "D": "heap"}

# (job, cause that was given) -> what was observed against it
_AGAINST: Final = {
    ("A", "kept"): "main stayed as it was, and the workers grew. Whatever A keeps, the training "
    "loop does not.",
    ("A", "cycle"): "it never fell, and `gc.collect()` before every sample changed nothing.",
    ("A", "heap"): "it stopped growing when it got the same eight samples over and over. The heap "
    "does not care which samples they are.",
    ("B", "cache"): "its workers stayed as they were, and main grew. A dataset's cache lives where "
    "the dataset is asked: in the workers.",
    ("B", "cycle"): "its workers stayed as they were and main rose in a straight line, with two "
    "open files more for each step.",
    ("B", "heap"): "what grew is shared memory, with two open files more for each step. The heap "
    "of a process is neither.",
    ("C", "cache"): "it fell back by itself, all at once. A cache gives nothing back.",
    ("C", "kept"): "main stayed as it was, and the workers grew.",
    ("C", "heap"): "it fell back by itself, and with `gc.collect()` it did not grow at all. The "
    "garbage collector does not reach the C library's heap.",
    ("D", "cache"): "it made no difference that it got the same eight samples over and over. What "
    "would a cache have done with them?",
    ("D", "kept"): "main stayed as it was, and shared memory too.",
    (
        "D",
        "cycle",
    ): "`gc.collect()` before every sample did not stop it. What was there to collect?",
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
    if not wrong:
        return correct(
            "A remembers, B's loop keeps, C waits for the garbage collector, D's C library does "
            "not use freed memory again. Each of the three questions parted one of them from the "
            "rest."
        )
    job = wrong[0]
    not_yet(
        f"{4 - len(wrong)} of 4 are right. {job} is not `{causes[job]}`: "
        f"{_AGAINST[job, causes[job]]}"
    )


EXERCISES: Final = (
    Exercise(
        name="10.predict",
        title="How many of four leaks does gc.collect() stop?",
        grader=choice(
            "c",
            {
                "a": "`a`: look at the column `growth` again. One job stopped, three went on.",
                "b": "`b`: look at the column `growth` again. The collector frees objects that "
                "nobody can reach any more, and only one of the jobs had any.",
                "c": "`c`: one, C. In the other three somebody still holds the memory, or the "
                "objects are gone and the memory was not given back.",
                "d": "`d`: look at C in the column `growth` again. One kind of leak is made of "
                "objects that only the garbage collector can free.",
            },
        ),
        hints=(
            "You need no certainty here: choose, run on, and read the table in section 5.",
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
            "Among the other three: one stops with the same eight samples, one stops with "
            "`gc.collect()`, and one with neither.",
            "Eight samples fill a cache, and then it has them. Cycles go when they are collected.",
        ),
    ),
    Exercise(
        name="10.fix",
        title="Two workers that do not fill up",
        grader=fix.GRADER,
        hints=(
            "Ask for each object in `self.cache` who will ever take it out again.",
            "Two workers that shuffle hardly ever see a recording twice in an epoch, so a cache "
            "that is small enough to be safe finds next to nothing. The kernel keeps files that "
            "were read, once for all processes. You may also keep the last few: then something "
            "has to leave when another comes.",
            "Without a cache, `load` is the parent's `load`. With one: after adding, `if "
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
            "`with torch.no_grad():` around the loop or `.item()` on the loss; `.clone()` on "
            "the scan.",
        ),
    ),
)
