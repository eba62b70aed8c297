"""Lesson 13, in words: how many workers."""

from __future__ import annotations

from typing import Any, Final

from dltutor.lessons.engine.exercise import Exercise, Grader
from dltutor.lessons.engine.forms import blank, choice, letter, shown
from dltutor.lessons.engine.outcomes import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_13 import fix, transfer

_LIMITS: Final = {"A": "sending", "B": "waiting", "C": "training", "D": "computing"}

_OBSERVED: Final = {
    "A": "it trains for 0 ms, and all of its 768 samples are made in milliseconds. Each of its "
    "batches is a list of 128 tensors: what happens to them with workers?",
    "B": "a sample takes 10 ms with next to no CPU, and training takes 0 ms.",
    "C": "training takes 16 times 20 ms, and its 64 samples wait for about 1 ms each: which of the "
    "two is longer?",
    "D": "most of the time that a sample takes is CPU time.",
}


def _limits(answer: Any) -> dict[str, str]:
    """Job -> limit, as they were meant: `a`, "Waiting" and "'waiting'" are taken."""
    if blank(answer):
        not_attempted("give each of the four jobs its limit.")
    limits = answer if isinstance(answer, dict) else {}
    named = {(letter(job) or "").upper(): limit for job, limit in limits.items()}
    if named.keys() != _LIMITS.keys() or len(limits) != len(_LIMITS):
        not_yet('`limits` is a dict with the keys "A", "B", "C" and "D".')
    if any(map(blank, named.values())):
        not_attempted("give each of the four jobs its limit, in place of the dots.")
    meant = {job: str(limit).strip(" \"'.`").lower() for job, limit in named.items()}
    for job, limit in meant.items():
        if limit not in _LIMITS.values():
            not_yet(f"{shown(named[job])} is none of the limits: {', '.join(_LIMITS.values())}.")
    return meant


def _told(limits: dict[str, str]) -> Result:
    wrong = [job for job, limit in _LIMITS.items() if limits[job] != limit]
    if wrong:
        job = wrong[0]
        not_yet(f"{4 - len(wrong)} of 4 are right. {job} is not `{limits[job]}`: {_OBSERVED[job]}")
    return correct(
        "A pays for what it sends, B waits, C trains longer than it loads, D needs cores. "
        "Only B wants many workers."
    )


EXERCISES: Final = (
    Exercise(
        name="13.predict",
        title="Which loader gains most from 8 workers?",
        grader=choice(
            "a",
            {
                "a": "`a`: eight workers wait at the same time, and a process that waits needs no "
                "core. The throughput is about eight times that of one.",
                "b": "`b`: decoding needs a core. Workers beyond the cores take turns on them; "
                "waiting needs none.",
                "c": "`c`: look at the figure. The rows lie in memory, and with workers each batch "
                "is sent to main on top. They are fastest with none.",
                "d": "`d`: look at the figure. A core is not what all three are short of.",
            },
        ),
        hints=(
            "A guess will do: choose, run the next cells, and look at the figure.",
            "Eight people can wait for eight buses at the same stop.",
            "Which of the three needs no core while it makes a sample?",
        ),
    ),
    Exercise(
        name="13.diagnose",
        title="What limits each of four jobs?",
        grader=Grader(_limits, _told),
        hints=(
            "First compare a sample's time with its CPU time: where they differ, it waits.",
            "A job that gets slower with every worker pays for sending.",
            "Samples of two jobs wait. One of the two also trains: compare 16 of its steps with "
            "its 64 samples.",
        ),
    ),
    Exercise(
        name="13.fix",
        title="Batches that cost no more than they must",
        grader=fix.GRADER,
        hints=(
            "Three things cost: processes that start, tensors that are sent, and batches that are "
            "made and thrown away. Which line is behind each?",
            "`iter(loader)` begins an epoch. Begin one when the last has ended, and keep the "
            "workers. In `collate_fn`, `torch.cat` the words, and send the lengths along.",
            "`persistent_workers=workers > 0`; two nested loops, `while True:` around `for batch "
            "in loader:`; in main `words.split(lengths.tolist())` gives the reviews back.",
        ),
    ),
    Exercise(
        name="13.transfer",
        title="Measure throughput, and do not be fooled",
        grader=transfer.GRADER,
        hints=(
            "What else lies between the two readings of the clock: starts, ends, batches?",
            "Two loops: three turns outside, the numbers inside. In each run: an iterator; the "
            "first batches; the clock; 16 batches; the clock.",
            "`for _ in range(max(1, workers)): next(batches)`, then the clock, then 16 times "
            "`next(batches)`, then the clock again, and at the end `del batches`.",
        ),
    ),
)
