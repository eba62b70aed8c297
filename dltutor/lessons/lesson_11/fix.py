"""Grade "11.fix", which asks for a loop that collects all samples with few descriptors."""

from __future__ import annotations

import gc
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from dltutor.failures.data.sentences import Sentences
from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.forms import a_fixed_function
from dltutor.lessons.engine.outcomes import error_in_your_code, not_yet
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
        hung: Whether the call didn't return in time.
        error: What the call raised, in a sentence, or "".
        ran_out: Whether the error says that there are no more descriptors.
        complaint: The last line on stderr about descriptors, or "".
        kind: The type that the call returned instead of a list of pairs, or "".
        came: How many pairs the call returned.
        wrong: How many of the pairs aren't the sentence and class at their position.
        types: The types in the first wrong pair, if the types are wrong, or "".
        reads: A loader's number of workers -> how many samples its workers read. The key 0 is for
            processes that aren't a loader's workers.
        left: How many of the batches' descriptors were still open afterward.
        strategy: A different sharing strategy that the call set, or "".
    """

    where: str
    workers: int
    hung: bool = False
    error: str = ""
    ran_out: bool = False
    complaint: str = ""
    kind: str = ""
    came: int = _LENGTH
    wrong: int = 0
    types: str = ""
    reads: dict[int, int] = field(default_factory=dict)
    left: int = 0
    strategy: str = ""


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
    dataset, right = Noted(_LENGTH, seed), Sentences(_LENGTH, seed)
    before, result = held().descriptors, None
    failed: dict[str, Any] = {}
    with errors_to(words), kept_strategy(strategy):
        try:
            with Limit(_WITHIN, words):
                result = answer(dataset, workers)
        except DeadlinePassed:
            failed = {"hung": True}
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's handler would raise an error
            processes.end_descendants()  # otherwise torch would wait for each worker
        except BaseException as error:  # even SystemExit, so that the check goes on
            failed = {"error": in_words(error), "ran_out": ran_out(str(error))}
    said = [*filter(ran_out, tidy(Path(words).read_text(errors="replace")).splitlines())]
    gc.collect()
    seen: dict[str, Any] = {
        "reads": dataset.reads(),
        "strategy": Path(strategy).read_text(),
        "complaint": "".join(said[-1:]),
        "left": held().descriptors - before,
    }
    if not failed:
        failed = _compared(result, right)
    elif failed.get("error") and said:  # main raises EOFError if the worker ran out of descriptors
        failed["ran_out"] = True
    return Called(where, workers, **seen, **failed)


def _compared(result: Any, right: Sentences) -> dict[str, Any]:
    if not isinstance(result, (list, tuple)):
        return {"kind": type(result).__name__}
    wrong, types = 0, ""
    for pair, (words, label) in zip(result, map(right.__getitem__, range(_LENGTH)), strict=False):
        try:
            mine, number = pair
        except (TypeError, ValueError):
            return {"kind": f"{type(result).__name__} of {type(pair).__name__}"}
        is_number = isinstance(number, int) and number == label
        if not (is_number and type_of(mine) == type_of(words) and torch.equal(mine, words)):
            found = f"({type_of(mine)}, {type_of(number)})"
            if not wrong and found != "(Tensor of torch.int64, int)":
                types = found
            wrong += 1
    return {"came": len(result), "wrong": wrong, "types": types}


def judge(call: Called) -> None:
    """Raise `Rejected` unless the call returned all pairs, and kept to the exercise's rules.

    It must read all samples with the workers that the check asked for, leave no descriptor open,
    and not set another sharing strategy.
    """
    where, sentences = call.where, f"{_LENGTH:,}"
    if call.strategy:
        not_yet("other-strategy", where=where, strategy=call.strategy)
    if call.hung and call.complaint:
        not_yet("lost-batch", where=where, complaint=call.complaint)
    if call.hung:
        not_yet("hung", where=f"{where}, ", seconds=_WITHIN)
    if call.ran_out:
        not_yet("too-many-open-files", where=where, spare=_SPARE)
    if call.error:
        error_in_your_code("raised", where=f"{where}, ", error=call.error)
    if call.kind:
        not_yet("no-pairs", where=where, kind=call.kind)
    if call.came != _LENGTH:
        not_yet("missing", where=where, came=f"{call.came:,}", sentences=sentences)
    if call.wrong:
        code, wrong = "wrong-types" if call.types else "wrong-pairs", f"{call.wrong:,}"
        not_yet(code, where=where, wrong=wrong, sentences=sentences, types=call.types)
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
