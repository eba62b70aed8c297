"""Why the workers of a rewritten dataset still grow, or do not come to an end, told by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from dltutor.lessons.kit.answers import Unfit, failed_in_loader
from dltutor.lessons.kit.outcome import not_yet
from dltutor.lessons.lesson_09.growth import PATIENCE, Run
from dltutor.lessons.lesson_09.keeping import Kept, cached_method
from dltutor.observation import Frame


def say_how_it_ended(run: Run) -> NoReturn:
    """Tell of a run that did not come to its end."""
    seen = run.observation
    if seen.end == "hung":
        stood = [worker.stack[0] for worker in seen.workers if worker.stack]
        too_slow(f"the epoch did not end and was stopped after {PATIENCE} s.", stood)
    if seen.end == "worker died":
        wrong(f"{', '.join(map(str, seen.workers))}. What in your class ends a process?")
    raise Unfit(failed_in_loader(seen))


def too_slow(fact: str, stood: Sequence[Frame]) -> NoReturn:
    """Tell of an answer that was stopped, and where it stood."""
    where = f" It stood at {stood[0]}." if stood else ""
    why = (
        "A collection goes through every object there is, and writes into each. How often is "
        "that, and what for?"
        if any("collect" in frame.code for frame in stood)
        else "What takes so long for each sample?"
    )
    wrong(f"{fact}{where} {why}")


def say_why(
    fact: str, answer: type, kept: str, *, frozen: bool, stopped: bool, early: float
) -> NoReturn:
    """Tell of workers that grow, and of the usual wrong fix where it is one.

    Args:
        fact: By how much they grew.
        answer: The learner's class.
        kept: The Python objects that the dataset holds in main, in a sentence; or nothing.
        frozen: Whether the answer called `gc.freeze()`.
        stopped: Whether it switched the collector off.
        early: The part of the growth that was there with the first batch.
    """
    if frozen:
        wrong(
            f"`gc.freeze()` is on, and {fact} It keeps the collector away from your objects. Who "
            "else writes into them?"
        )
    if stopped:
        wrong(
            f"the collector is switched off, and {fact} So it was not the collector that wrote. "
            "Who else does?"
        )
    if name := cached_method(answer):
        wrong(
            f"{fact} `{name}` keeps what it returned, in each worker anew: that adds to the "
            "memory and takes nothing away from it."
        )
    if early > 0.5:
        how = "makes a copy of what main has" if kept else "loads all of it for itself"
        wrong(
            f"{fact} Most of that was there at its first batch: each worker {how}. Then nothing is "
            "left to share. Can all of them read one?"
        )
    wrong(f"{fact} {kept or 'Which Python objects does a worker still touch for each sample?'}")


def still_read(kept: Kept, grown: float) -> NoReturn:
    """Tell of Python objects that are few enough to cost little here, and are read all the same."""
    wrong(
        f"little is left to mend. `{kept.name}` is {kept.what}, and the samples are made from "
        "it. What does a worker write when it reads one? Here each worker grew by "
        f"{grown:.0f} MB; with more of them it is more."
    )


def a_sample(sample: Any) -> str:
    """What a sample is, in words."""
    if isinstance(sample, np.ndarray):
        return f"an array of {sample.dtype} with the shape {sample.shape}"
    return "None" if sample is None else f"of the type `{type(sample).__name__}`"


def wrong(text: str) -> NoReturn:
    """Say what is wrong with an answer that runs."""
    raise Unfit(not_yet(text[0].upper() + text[1:]))
