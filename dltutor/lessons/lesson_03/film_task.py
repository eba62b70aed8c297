"""Grade a dataset whose frames may end the process that decodes them: "03.fix"."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from dltutor.failures.dead_worker import Frames, How
from dltutor.lessons.kit.answers import Unfit, a_mended_class, wrong
from dltutor.lessons.kit.outcome import Result, correct
from dltutor.lessons.lesson_03 import film_epoch
from dltutor.lessons.lesson_03.film import Film, fresh_film
from dltutor.lessons.lesson_03.film_account import account
from dltutor.lessons.lesson_03.film_epoch import PATIENCE, Epoch

#: Seconds that a check takes at most.
AT_MOST: Final = 56

_WAYS: Final[tuple[How, ...]] = ("segfault", "exit")
_FATE: Final[dict[How, str]] = {"segfault": "SIGSEGV", "exit": "exit code 3"}


def grade(answer: Any) -> Result:
    """Grade a dataset class, made as `answer(paths, how)`.

    Raises:
        Unfit: The answer is wrong or cannot be graded; its result says why.
    """
    answer = a_mended_class(
        answer,
        Frames,
        without_workers="Without workers a deadly frame ends the training itself.",
    )
    with fresh_film() as fresh:
        for how in _WAYS:
            _account(answer, fresh, how, _epoch(answer, fresh, how))
        return correct(
            f"{len(fresh.pixels)} of {len(fresh.paths)} frames arrive, each once, under a decoder "
            f"that segfaults and under one that exits. The other {len(fresh.deadly)} are in "
            "`quarantined`, each with what it did to its process, and no worker met them."
        )


def _epoch(answer: type, fresh: Film, how: How) -> Epoch:
    ended = film_epoch.show(answer, fresh, how)
    name = answer.__name__
    for said in ended.said:
        if isinstance(said, Result):
            raise Unfit(said)
        if said == "pool":
            wrong(
                f"`{name}(paths, how)` was not ready after {PATIENCE} s: a `multiprocessing.Pool` "
                "waits for ever for the answer of a process that died. Which way of starting a "
                "process lets you ask for its exit code?"
            )
        if said == "late":
            wrong(
                f"`{name}(paths, how)` was not ready after {PATIENCE} s. What does it wait for, "
                "and how long does one frame take?"
            )
        if isinstance(said, Epoch):
            return said
    if "built" not in ended.said:
        wrong(
            f"making `{name}(paths, how)` ended the process that made it: {_FATE[how]}. Here that "
            "was a process of the check; at work it is your training. A `try` around it runs in "
            "the same process, and ends with it. Where could a deadly frame do no harm?"
        )
    wrong(f"the epoch did not end within {2 * PATIENCE} s, nor could it be stopped.")


def _account(answer: type, fresh: Film, how: How, epoch: Epoch) -> None:
    if epoch.end == "worker died":
        _say_why_it_died(answer, fresh, how, epoch)
    if epoch.end == "hung":
        wrong(f"the epoch did not end and was stopped after {PATIENCE} s.")
    if epoch.error is not None:
        if "daemonic processes" in epoch.kind:
            wrong(
                f"`{epoch.kind}`: a worker may not start processes of its own. When, and in which "
                "process, could each frame be tried before any worker meets it?"
            )
        raise Unfit(epoch.error)
    account(fresh, how, epoch)


def _say_why_it_died(answer: type, fresh: Film, how: How, epoch: Epoch) -> NoReturn:
    found = len(fresh.deadly & set(epoch.kept)) if isinstance(epoch.kept, dict) else 0
    aside = f"Of {len(fresh.deadly)} deadly frames your class set {found or 'none'} aside."
    if film_epoch.swallows(answer, fresh, how):
        wrong(
            f"{epoch.fates}. Your class does catch what a broken file raises, but nothing was "
            "raised here: the process that would have run the `except` was gone. Who is left to "
            "notice, and from where?"
        )
    if found:
        wrong(f"{epoch.fates}. {aside} How does your trial go on after the first death?")
    if how != _WAYS[0]:
        wrong(
            f"under a decoder that segfaults all is well. Under one that exits: {epoch.fates}. "
            f"{aside} Which exit codes mean that all went well?"
        )
    wrong(f"{epoch.fates}. {aside} What does it know of a frame before a worker decodes it?")
