"""Grade "07.transfer", which asks for correct labels in each worker, whenever main forks it.

In each epoch, main forks the workers while one of its threads refreshes the labels. The thread is
halfway through reading the labels, or between two lines of the class. The labels that a
worker delivers must all be from before the refresh, or all from after the refresh.
"""

from __future__ import annotations

import linecache
import operator
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from types import CodeType, FrameType
from typing import Any, Final

from torch.utils.data import DataLoader

from dltutor.lessons.engine.checking import verdict
from dltutor.lessons.engine.endings import Ending, check_ending, run_loader
from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.forms import a_fixed_class, shown
from dltutor.lessons.engine.outcomes import (
    Fault,
    Outcome,
    Result,
    correct,
    fault,
    not_yet,
    reject,
)
from dltutor.lessons.engine.running import made
from dltutor.lessons.lesson_07.helpers import CLIPS, Clips, Server
from dltutor.observation import sandbox
from dltutor.tables import Note

# A method's code, one of its line numbers, and 1 or 2 for the first or second time that a refresh
# reaches this line.
Place = tuple[CodeType, int, int]

_LONG: Final = 4  # time limit in seconds for each call or run
# Main forks the first two times that a refresh reaches a line, because a loop over the labels may
# not have changed anything yet when the refresh reaches one of the loop's lines for the first time.
_VISITS: Final = 2


@dataclass(frozen=True)
class Epoch:
    """A record of an epoch whose workers main forked at a certain moment during a refresh.

    Args:
        where: The moment, as the start of a sentence.
        run: How the run ended.
        wrong: What's wrong with the samples, if the run finished.
    """

    where: str
    run: Ending
    wrong: Fault | None = None


def forked_half_way(answer: type) -> Note:
    """Run an epoch with a class such as `Clips`, and report in a note how the epoch went.

    Main forks the epoch's 2 workers halfway through a refresh. Like a check, the epoch runs in its
    own process, so nothing that the class registers with Python stays in the notebook.
    """
    return Note("One epoch:", tried_half_way(answer).text)


def tried_half_way(answer: type) -> Result:
    """Run the epoch for `forked_half_way`, print the epoch's output, and return its Result."""

    def grade(begin: Callable[[], None]) -> Result:
        begin()
        server = Server()
        dataset = made(answer, server.read, call=f"{answer.__name__}(read_labels)", within=_LONG)
        judge(_epoch(dataset, server, 2))
        return correct("correct-half-way")

    ended = sandbox.run(lambda begin: verdict(lambda: grade(begin)).to_dict(), at_most=4 * _LONG)
    print(ended.printed, end="")
    stopped = Result(Outcome.NOT_YET, "stopped", {"stood": ended.stood})
    return replace(Result.from_dict(ended.result) or stopped, exercise="07.transfer")


def run(answer: type) -> Iterator[Epoch]:
    """Use the class in main, then yield epochs whose workers main forks at different moments."""
    server = Server(shift=4)  # so that the labels differ from the lesson's
    dataset = made(answer, server.read, call=f"{answer.__name__}(read_labels)", within=_LONG)
    places: dict[Place, None] = {}  # a dict as an ordered set
    for _ in range(2):  # the second time, main has already read samples
        server.version += 1
        refresh = partial(_refresh_traced, dataset, places.setdefault)
        made(refresh, call="dataset.refresh()", within=_LONG)
        _judge_in_main(dataset, server)
    for workers, place in ((2, None), (4, None), *((1, place) for place in places)):
        yield _epoch(dataset, server, workers, place)


def _judge_in_main(dataset: Any, server: Server) -> None:
    if (length := made(lambda: len(dataset), call="len(dataset)", within=_LONG)) != CLIPS:
        not_yet("other-length", clips=CLIPS, length=length)
    call = f"[dataset[i] for i in range({CLIPS})]"
    read = lambda: [dataset[index] for index in range(CLIPS)]  # noqa: E731
    for number, sample in enumerate(made(read, call=call, within=_LONG)):
        label = server.label(number, server.version)
        if _pair(sample) != [number, label]:
            not_yet("wrong-in-main", number=number, sample=shown(sample), label=label)


def _pair(sample: Any) -> list[int]:
    try:
        index, label = map(operator.index, sample)
    except (TypeError, ValueError):
        return [-1, -1]
    return [index, label]


def _epoch(dataset: Any, server: Server, workers: int, place: Place | None = None) -> Epoch:
    batches: list[Any] = []

    def refresh(stop: Callable[[], None]) -> None:
        if place:
            _refresh_traced(dataset, lambda at: stop() if at == place else None)
        else:
            server.half_way = stop
            dataset.refresh()

    def loop(loader: DataLoader[Any]) -> None:
        batches.extend(server.epoch(loader, refresh))

    moment = "halfway through"
    if place:
        moment = f"at `{linecache.getline(place[0].co_filename, place[1]).strip()}`"
    there = f"with workers forked when main's refresh was {moment}"
    run = run_loader(dataset, loop, workers=workers, within=_LONG, collate_fn=list)
    if run.end != "finished":
        return Epoch(there, run)
    pairs = [_pair(sample) for batch in batches for sample in batch]
    if (numbers := [number for number, _ in pairs]) != list(range(CLIPS)):
        code = "missing-clips" if len(numbers) < CLIPS else "other-clips"
        return Epoch(there, run, fault(code, numbers=numbers, last=CLIPS - 1))
    for worker in range(workers):  # the workers take turns, with one sample each
        if mixed := _mixed(pairs[worker::workers], server):
            return Epoch(there, run, fault("mixed-labels", worker=worker, **mixed))
    return Epoch(there, run)


def _mixed(pairs: list[list[int]], server: Server) -> dict[str, object]:
    # Count the labels from before the refresh, from after the refresh, and from neither. If all
    # labels are from before or all are from after, return an empty dict.
    before, after = (
        sum(label == server.label(number, version) for number, label in pairs)
        for version in (server.version - 1, server.version)
    )
    if (labels := len(pairs)) in (before, after):
        return {}
    neither = labels - before - after
    return {"labels": labels, "before": before, "after": after, "neither": neither}


def _refresh_traced(dataset: Any, at: Callable[[Place], object]) -> None:
    # Refresh in this thread, and call `at` before the first two runs of each line of the class.
    own = tuple(f"{base.__qualname__}." for base in type(dataset).__mro__)
    visits: Counter[tuple[CodeType, int]] = Counter()

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if not code.co_qualname.startswith(own):
            return None
        if event == "line":
            line = code, frame.f_lineno
            visits[line] += 1
            if visits[line] <= _VISITS:
                at((*line, visits[line]))
        return trace

    sys.settrace(trace)
    try:
        dataset.refresh()
    finally:
        sys.settrace(None)


def judge(epoch: Epoch) -> None:
    """Raise `Rejected` if the run failed, the clips are wrong, or a worker's labels are mixed."""
    there, run = epoch.where, epoch.run
    if run.end == "hung" and run.stood:
        not_yet("waits", where=there, seconds=f"{run.deadline:g}", stood=run.stood)
    if run.raised_in_worker in ("KeyError", "IndexError"):
        not_yet("missing-labels", where=there, worker=run.failed_worker, error=run.error)
    check_ending(run, there)
    if epoch.wrong:
        reject(epoch.wrong, where=there)


GRADER: Final = by_runs(
    run,
    judge,
    result=lambda _: correct(clips=CLIPS),
    look=partial(
        a_fixed_class,
        starter=Clips,
        methods=("__len__", "__getitem__", "refresh"),
    ),
    at_most=60,
)
