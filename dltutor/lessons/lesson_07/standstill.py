"""Telling a learner of a run that stood still: where, and what in the class can be seen of it."""

from __future__ import annotations

from dltutor.lessons.kit.outcome import Result, not_yet
from dltutor.observation import Observation, Worker


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
