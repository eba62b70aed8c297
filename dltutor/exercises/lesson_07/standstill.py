"""Telling a learner of a run that stood still: where, and what in the class can be seen of it."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader

from dltutor.exercises.answers import Unfit
from dltutor.exercises.outcome import Result, not_yet
from dltutor.observation import Observation, Worker
from dltutor.observation.deadline import DeadlinePassed, deadline


def a_loader(answer: Any) -> bool:
    """Whether an answer is a loader, or a class of loaders, in the place of a dataset's class."""
    return isinstance(answer, DataLoader) or (
        isinstance(answer, type) and issubclass(answer, DataLoader)
    )


def made(answer: type, argument: object, name: str, patience: float) -> Any:
    """Make the dataset.

    Args:
        answer: Its class.
        argument: What the class takes.
        name: How the lesson calls the argument.
        patience: Seconds that it may take.

    Raises:
        Unfit: It takes longer.
        Exception: Whatever the answer raises.
    """
    try:
        with deadline(patience):
            return answer(argument)
    except DeadlinePassed:
        text = f"`{answer.__name__}({name})` was not ready after {patience:g} s."
        raise Unfit(not_yet(f"{text} What does it wait for?")) from None


def stuck_workers(seen: Observation) -> list[Worker]:
    """The workers that stood in a sample; not those that waited for one to be asked for."""
    return [each for each in seen.workers if each.stack and "index_queue" not in each.stack[0].code]


def where_they_stood(seen: Observation) -> str:
    """Where each worker stood, as one sentence for each place; or that it was main that stood."""
    names: dict[str, list[str]] = {}
    for worker in stuck_workers(seen):
        if worker.stack:
            at = worker.stack[0]
            place = f"{at.file}, line {at.line}, in {at.function}: `{at.code}`"
            names.setdefault(place, []).append(worker.name)
    if not names:
        return "No worker stood still in your code: main did."
    return " ".join(f"{' and '.join(who)} stood at {place}." for place, who in names.items())


def not_called_under_fork(answer: type) -> str:
    """A sentence for a class that says how it is pickled, which fork does not do."""
    for method in ("__getstate__", "__reduce__", "__setstate__"):
        if method in vars(answer):
            return f" `{method}` was not called: fork copies memory and pickles nothing."
    return ""


def of_lost_workers(seen: Observation) -> Result:
    """What to say of a run in which a worker died."""
    died = [str(worker) for worker in seen.workers if worker.exitcode is not None]
    return not_yet(f"{', '.join(died) or 'A worker died'}. What in your class ends a process?")


def keeps_its_workers(reason: str) -> Result:
    """What to say to who hands in a loader."""
    return not_yet(
        "That is a loader, with a `num_workers` of its own. The exercise keeps its workers and "
        f"mends what they run: the dataset's class. {reason}"
    )
