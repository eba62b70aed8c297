"""Grade "11.fix", which asks for a loop that collects all samples with few descriptors."""

from __future__ import annotations

import gc
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from dltutor.failures.data.sentences import Sentences
from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.forms import a_fixed_function, same_tensor
from dltutor.lessons.engine.outcomes import Fault, Outcome, Result, fault, not_yet, reject
from dltutor.lessons.engine.running import in_words, send_cells
from dltutor.lessons.lesson_11.helpers import collect, held
from dltutor.lessons.lesson_11.traces import (
    Limit,
    Noted,
    errors_to,
    kept_strategy,
    leave_few_descriptors,
    ran_out,
    type_of,
)
from dltutor.observation.texts import tidy
from dltutor.observation.time_limits import DeadlinePassed
from dltutor.system import processes

_SPARE: Final = 128  # the most descriptors that the answer may have open in each process
_RUNS: Final = {  # call -> number of workers
    "with 2 workers": 2,
    "without workers": 0,
    "with 4 workers": 4,
    "without workers, the second time": 0,
}
_LENGTH: Final = 3_000  # sentences, which are 30 batches of 100
_WITHIN: Final = 60  # time limit in seconds for each call


@dataclass(frozen=True)
class Called:
    """A record of what one call to the function did.

    Args:
        where: The call, such as "with 2 workers".
        workers: The number of workers that the check asked for.
        wrong: How the call failed, or what's wrong with the pairs that it returned, or None.
        reads: A loader's number of workers -> how many samples its workers read. The key 0 is for
            processes that aren't a loader's workers.
        left: How many of the batches' descriptors were still open afterward.
        strategy: A different sharing strategy that the call set, or "".
    """

    where: str
    workers: int
    wrong: Fault | None
    reads: dict[int, int]
    left: int
    strategy: str


def run(answer: Any) -> Iterator[Called]:
    """Limit descriptors, and yield a record of each call, with 2, 0, 4, and 0 workers."""
    send_cells()
    gc.freeze()  # makes the answer's own collections quick
    leave_few_descriptors(_SPARE + 3)  # the check itself uses three
    for seed, (where, workers) in enumerate(_RUNS.items(), start=51):
        yield _called(answer, where, workers, seed)


def _called(answer: Any, where: str, workers: int, seed: int) -> Called:
    folder = tempfile.mkdtemp()
    strategy, words = (f"{folder}/{name}" for name in ("strategy", "stderr"))
    Path(strategy).touch()
    Path(words).touch()
    dataset, before = Noted(_LENGTH, seed), held().descriptors
    result: Any = None
    failed: Fault | None = None
    with errors_to(words), kept_strategy(strategy):
        try:
            with Limit(_WITHIN, words):
                result = answer(dataset, workers)
        except DeadlinePassed:
            failed = fault("hung", where=f"{where}, ", seconds=_WITHIN)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's handler would raise an error
            processes.end_descendants()  # otherwise torch would wait for each worker
        except BaseException as error:  # even SystemExit, so that the check goes on
            seen = {"where": f"{where}, ", "error": in_words(error)}
            failed = Result(Outcome.ERROR, "raised", seen)
            if ran_out(str(error)):
                failed = fault("too-many-open-files", spare=_SPARE)
    said = [*filter(ran_out, tidy(Path(words).read_text(errors="replace")).splitlines())]
    if failed and said:  # if a worker runs out of descriptors, main hangs or raises another error
        code = "lost-batch" if failed.code == "hung" else "too-many-open-files"
        failed = fault(code, complaint=said[-1], spare=_SPARE)
    gc.collect()
    left = held().descriptors - before
    wrong = failed or _compared(result, Sentences(_LENGTH, seed))
    return Called(where, workers, wrong, dataset.reads(), left, Path(strategy).read_text())


def _compared(result: Any, right: Sentences) -> Fault | None:
    # Return what's wrong with the pairs, or None.
    if not isinstance(result, (list, tuple)):
        return fault("no-pairs", kind=type(result).__name__)
    wrong, types = 0, ""
    for pair, (words, label) in zip(result, map(right.__getitem__, range(_LENGTH)), strict=False):
        try:
            mine, number = pair
        except (TypeError, ValueError):
            return fault("no-pairs", kind=f"{type(result).__name__} of {type(pair).__name__}")
        if not (isinstance(number, int) and number == label and same_tensor(mine, words)):
            found = f"({type_of(mine)}, {type_of(number)})"
            if not wrong and found != "(Tensor of torch.int64, int)":
                types = found
            wrong += 1
    sentences = f"{_LENGTH:,}"
    if len(result) != _LENGTH:
        return fault("missing", came=f"{len(result):,}", sentences=sentences)
    if wrong:
        code = "wrong-types" if types else "wrong-pairs"
        return fault(code, wrong=f"{wrong:,}", sentences=sentences, types=types)
    return None


def judge(call: Called) -> None:
    """Raise `Rejected` unless the call returned all pairs, and kept to the exercise's rules.

    The call must read all samples with the workers that the check asked for, leave no descriptor
    open, and not set another sharing strategy.
    """
    where = call.where
    if call.strategy:
        not_yet("other-strategy", where=where, strategy=call.strategy)
    if call.wrong:
        reject(call.wrong, where=where)
    in_main = call.reads.get(0, 0)
    read = sum(call.reads.values()) - in_main
    if not call.workers and read:
        not_yet("not-without-workers", where=where, read=f"{read:,}")
    if call.workers and (in_main or read < _LENGTH):
        not_yet("read-in-main", where=where, read=f"{read:,}", in_main=f"{in_main:,}")
    if call.workers and {*call.reads} != {call.workers}:
        loaders = " and ".join(map(str, sorted(call.reads)))
        not_yet("other-loader", asked=call.workers, loaders=loaders)
    if call.left:
        not_yet("left-open", where=where, left=call.left)


GRADER: Final = by_runs(run, judge, look=partial(a_fixed_function, starter=collect), at_most=120)
