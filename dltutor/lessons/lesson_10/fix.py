"""Grade "10.fix": a loader whose workers do not fill up, run for epochs over fresh recordings."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from torch.utils.data import DataLoader, Dataset, RandomSampler

from dltutor.failures.growing_cache import CachedRecordings
from dltutor.lessons.kit.endings import ended_well
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import blank
from dltutor.lessons.kit.outcomes import (
    Result,
    correct,
    error_in_your_code,
    not_attempted,
    not_yet,
)
from dltutor.lessons.kit.running import made
from dltutor.lessons.kit.sources import same_class
from dltutor.lessons.lesson_10.epochs import (
    EPOCHS,
    LENGTH,
    WITHIN,
    Ran,
    fresh_recordings,
    run_epochs,
)

_MAKING: Final = 8  # seconds for making the loader
LIMIT: Final = 24  # MB that a worker may grow by
_EACH: Final = LENGTH * 4 / 1e6  # MB of a recording


def look(answer: Any) -> Any:
    """The answer, if it can be a function that makes the loader."""
    if blank(answer):
        not_attempted("hand in your function: its name, without parentheses.")
    if isinstance(answer, (type, DataLoader, Dataset)) or not callable(answer):
        error_in_your_code(
            "the check takes the function that makes the loader, `my_loader`, without parentheses."
        )
    return answer


def gather(answer: Any) -> Ran:
    """Make the loader for other recordings, and run it for its epochs."""
    paths = fresh_recordings()

    def make() -> DataLoader[Any]:
        return _look_at(made(answer, paths, call="my_loader(paths)", within=_MAKING), answer)

    return run_epochs(make, paths)


def _look_at(loader: Any, answer: Any) -> DataLoader[Any]:
    if not isinstance(loader, DataLoader):
        name = getattr(answer, "__name__", "your function")
        error_in_your_code(f"`{name}(paths)` returns a {type(loader).__name__}, not a DataLoader.")
    kept = loader.num_workers == 2 and loader.persistent_workers
    kept = kept and isinstance(loader.sampler, RandomSampler)
    if kept and same_class(type(loader.dataset), CachedRecordings):
        not_attempted(
            "`MyRecordings` still keeps all that it reads. Change it, run its cell, then this one."
        )
    return loader


def judge(ran: Ran) -> Result:
    """Correct if all samples came, shuffled, from two workers, and nobody grew."""
    ended_well(ran.end)
    _every_sample_came(ran)
    _workers_stayed(ran)
    _nothing_else_grew(ran)
    if ran.grew > LIMIT:
        not_yet(_why_it_grew(ran))
    number = len(ran.expected) * EPOCHS
    return correct(
        f"{number} of {number} samples are right, in {EPOCHS} epochs of two workers that live "
        f"through all of them, and no worker grew by more than {LIMIT} MB. The broken one is past "
        "twice that by then, and goes on."
    )


def _every_sample_came(ran: Ran) -> None:
    expected = ran.expected
    for came in ran.samples:
        if len(came) != len(expected):
            not_yet(f"{len(came)} of {len(expected)} samples came in an epoch.")
        right = np.isclose(sorted(came), sorted(expected), rtol=1e-4)
        if not right.all():
            not_yet(
                f"{int((~right).sum())} of {len(expected)} samples are not the loudness of a "
                "recording any more. What does your cache give back?"
            )
    if all(np.allclose(came, expected, rtol=1e-4) for came in ran.samples):
        not_yet(
            "the samples came in the order of their files, in every epoch: `shuffle=True` is gone. "
            "Each worker then keeps to one half, and two halves are the whole archive all the same."
        )


def _workers_stayed(ran: Ran) -> None:
    if ran.asked_workers == 0:
        not_yet(
            f"`num_workers=0`: now main {'keeps the cache' if ran.main > LIMIT else 'loads'}, and "
            f"grew by {ran.main:.0f} MB. The exercise keeps its two workers and fixes what they "
            "run."
        )
    if ran.asked_workers != 2:
        not_yet(f"`num_workers={ran.asked_workers}`: the exercise keeps its two workers.")
    if ran.lived_on:
        return
    fact = "`persistent_workers=False` ends the workers after each epoch and starts new ones"
    if ran.grew_in_one > LIMIT:
        not_yet(
            f"{fact}: what they kept goes with them, and every file is read again. That hides it: "
            f"within one epoch a worker still grew by {ran.grew_in_one:.0f} MB. How long is an "
            "epoch with 400 GB?"
        )
    not_yet(
        f"{fact}. Yours grow by {ran.grew_in_one:.0f} MB at most in an epoch, so nothing is hidden "
        "by that. But the exercise has two workers that live through all epochs. Can yours?"
    )


def _nothing_else_grew(ran: Ran) -> None:
    if ran.taken > LIMIT:
        not_yet(
            f"your function took {ran.taken:.0f} MB in main before the first batch: all recordings "
            "at once. Fine if they fit, and shared by forked workers; this archive does not fit."
        )
    if ran.others > LIMIT:
        not_yet(
            f"the workers stay small, and a process that your code started grew by "
            f"{ran.others:.0f} MB: the cache has moved. What bounds it there?"
        )
    if ran.files > LIMIT:
        not_yet(
            f"the workers stay small, and new files in `/dev/shm` take {ran.files:.0f} MB. What "
            "lies there lies in memory: the cache has moved. What bounds it there?"
        )


def _why_it_grew(ran: Ran) -> str:
    """A sentence for an answer whose workers grew: the usual wrong fixes, told by name."""
    still = f"each worker still grew by {ran.grew:.0f} MB in three epochs"
    samples = len(ran.expected) * EPOCHS
    if ran.collections >= samples // 2:
        return (
            f"the garbage collector ran {ran.collections} times for {samples} samples, and "
            f"{still}. It frees what nobody refers to any more. Who refers to each recording?"
        )
    for bound in ran.bounds:
        if bound is None:
            return (
                f"`lru_cache(maxsize=None)` has no bound, and {still}. It is the same dict, "
                "written by somebody else."
            )
        return (
            f"`lru_cache` has a bound, `maxsize={bound}`, and {still}. It counts entries, not "
            f"bytes: {bound} recordings of {_EACH:g} MB are {bound * _EACH:.0f} MB in each worker."
        )
    if ran.dict_of_class:
        return (
            f"one dict for the class instead of one for each object, and {still}. A worker is a "
            "process: it has a class of its own, too."
        )
    if "empty_cache" in ran.names:
        return (
            f"`torch.cuda.empty_cache()` gives back what torch keeps in reserve on a GPU, and "
            f"{still}. Which memory is it that grows, and who keeps it?"
        )
    if "del" in ran.names:
        return (
            f"`del` takes away a name, not what it stood for, and {still}. Where else does the "
            "recording have a name?"
        )
    return (
        f"{still}, and may grow by the size of 20 recordings. How many does it keep by then, and "
        "what bounds their number?"
    )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=look,
    runs="three epochs over 64 fresh recordings",
    at_most=_MAKING + WITHIN + 6,
)
