"""Grade a dataset that has to deliver what can be used and to account for the rest.

It is run on a fresh folder, with 0 and with 2 workers; then what arrived is held against what
the files hold. The first thing found is told.
"""

from __future__ import annotations

from typing import Any, Final

from dltutor.lessons.kit.answers import (
    Unfit,
    a_mended_class,
    failed_in_loader,
    failed_in_main,
    made,
    wrong,
)
from dltutor.lessons.kit.outcome import Result, correct
from dltutor.lessons.lesson_01.accounts import account
from dltutor.lessons.lesson_01.deliveries import (
    PATIENCE,
    Delivery,
    missing_samples,
    odd_files_that_end_it,
    run,
)
from dltutor.lessons.lesson_01.fresh import Folder
from dltutor.lessons.lesson_01.task import Task
from dltutor.observation import Observation
from dltutor.observation.texts import said, tidy

#: Seconds that a check takes at most: the dataset made and run twice, then one odd file at a time.
AT_MOST: Final = 4 * PATIENCE + 16

# No bad file raises these: they are slips in the code.
_SLIPS: Final = {"AttributeError", "ImportError", "NameError", "TypeError", "UnboundLocalError"}


def grade(task: Task, answer: Any) -> Result:
    """Grade a dataset class.

    Args:
        task: The exercise.
        answer: The learner's class, made as `answer(root)`.

    Raises:
        Unfit: The answer is wrong or cannot be graded; its result says why.
        Exception: What the answer raises when it is made, where no bad file is the reason.
    """
    answer = a_mended_class(answer, task.starter)
    with task.fresh() as folder:
        _run_and_account(task, answer, folder, workers=0)
        try:
            _run_and_account(task, answer, folder, workers=2)
        except Unfit as unfit:
            text = unfit.result.text
            wrong(f"with 0 workers all is well. With 2: {text[0].lower()}{text[1:]}")
        return correct(
            f"{len(folder.usable)} of {len(folder.listed)} files can be used, and each arrives "
            f"once, with 0 and with 2 workers. The other {len(folder.unusable)} are in "
            "`quarantined`, each with its reason."
        )


def _run_and_account(task: Task, answer: type, folder: Folder, *, workers: int) -> None:
    try:
        dataset = made(answer, folder.root, "root", within=PATIENCE)
    except Unfit:
        raise
    except Exception as error:
        text = f"the dataset cannot be made: {failed_in_main(error).text}"
        _blame_the_files(task, answer, folder, text, None)
        raise
    delivery = run(dataset, workers=workers, epochs=1 if workers else 2)
    if delivery.observation.end != "finished":
        _say_how_it_ended(task, answer, folder, delivery)
    account(task, folder, delivery)


def _say_how_it_ended(task: Task, answer: type, folder: Folder, delivery: Delivery) -> None:
    seen = delivery.observation
    if seen.end == "hung":
        wrong(
            f"the epoch did not end and was stopped after {PATIENCE} s.{_where_they_stood(seen)} "
            "What does your class wait for?"
        )
    if seen.end == "worker died":
        wrong(f"{', '.join(map(str, seen.workers))}. What in your class ends a process?")
    kind, message = seen.chain[0]
    if "NoneType" in message and (missing := missing_samples(delivery.dataset)):
        wrong(
            f"{missing} samples are None, and no batch can be made of them: "
            f"`{tidy(said(kind, message))}`. "
            "The loop never gets to skip any. Who joins samples into a batch, and in which process?"
        )
    if kind not in _SLIPS:
        text = f"an epoch still ends: {failed_in_loader(seen).text}"
        _blame_the_files(task, answer, folder, text, delivery.dataset)
    raise Unfit(failed_in_loader(seen))


def _where_they_stood(seen: Observation) -> str:
    names: dict[str, list[str]] = {}
    for worker in seen.workers:
        if worker.stack:
            names.setdefault(str(worker.stack[0]), []).append(worker.name)
    return "".join(f" {' and '.join(who)} stood at {place}." for place, who in names.items())


def _blame_the_files(task: Task, answer: type, folder: Folder, failed: str, dataset: Any) -> None:
    errors = odd_files_that_end_it(answer, folder)
    if not errors:
        return
    kinds = [f"{folder.odd[path]} ({error})" for path, error in errors.items()]
    ends = "ends" if len(kinds) == 1 else "end"
    set_aside = len(getattr(dataset, "quarantined", ()))
    look = task.look({folder.odd[path] for path in errors})
    if set_aside and set(errors.values()) == {"IndexError"}:
        look = "Which samples does `__len__` count?"
    wrong(
        f"{failed} Tried with one odd file at a time, {len(kinds)} of {len(folder.odd)} {ends} it: "
        f"{'; '.join(kinds)}."
        + (f" Your class set {set_aside} aside." if set_aside else "")
        + f" {look}"
    )
