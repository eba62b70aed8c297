"""Grade "11.fix": a loop that collects all samples with few descriptors to spare."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from dltutor.failures.data.sentences import Sentences
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_function, is_a_loader
from dltutor.lessons.engine.outcomes import Rejected, Result, correct, error_in_your_code, not_yet
from dltutor.lessons.engine.running import in_words, send_cells
from dltutor.lessons.lesson_11.material import collect, held
from dltutor.lessons.lesson_11.traces import (
    Limit,
    Noted,
    errors_to,
    few_descriptors,
    keep_the_limit,
    noted_strategies,
    ran_out,
    type_of,
)
from dltutor.observation.texts import tidy
from dltutor.observation.time_limits import DeadlinePassed
from dltutor.system import processes

SPARE: Final = 128  # descriptors that a process may open
RUNS: Final = (2, 0, 4, 0)  # workers of each call
_WHERE: Final = (
    "with 2 workers",
    "without workers",
    "with 4 workers",
    "without workers, the second time",
)
LENGTH: Final = 3_000  # sentences: 30 batches of 100
_WITHIN: Final = 60  # seconds for a call: a right answer takes one, spawned workers take a few


@dataclass(frozen=True)
class Called:
    """What one call of the function did.

    Args:
        workers: What it was asked for.
        hung: Whether it didn't return in time.
        error: What it raised, in a sentence, or "".
        ran_out: Whether the error says that there are no more descriptors.
        complaint: The last line on stderr about descriptors, or "".
        kind: The type of what it returned, if that isn't a list of pairs, or "".
        came: How many pairs it returned.
        wrong: How many of them aren't the sentence and class at their position.
        types: The types in the first wrong pair, if they're wrong, or "".
        read: How many samples other processes read.
        loaders: The `num_workers` of their loaders. 0 stands for a process that isn't a worker.
        in_main: How many samples main read.
        left: Tensors of batches whose descriptors were open afterwards.
        strategy: Another sharing strategy that it set, or "".
    """

    workers: int
    hung: bool = False
    error: str = ""
    ran_out: bool = False
    complaint: str = ""
    kind: str = ""
    came: int = LENGTH
    wrong: int = 0
    types: str = ""
    read: int = 0
    loaders: tuple[int, ...] = ()
    in_main: int = 0
    left: int = 0
    strategy: str = ""


def gather(answer: Any) -> list[Called]:
    """Call the function for each number of workers, until something is wrong."""
    send_cells()
    sys.addaudithook(keep_the_limit)
    gc.freeze()  # the answer's own collections are quick then
    found: list[Called] = []
    for workers in RUNS:
        found.append(_called(answer, workers, seed=len(found) + 51))
        with suppress(Rejected):
            _is_right(found[-1])
            continue
        break
    return found


def _called(answer: Any, workers: int, seed: int) -> Called:
    folder = tempfile.mkdtemp()
    readers, strategies, words = (f"{folder}/{name}" for name in ("readers", "set", "stderr"))
    Path(strategies).touch()
    Path(words).touch()
    dataset, right = Noted(LENGTH, seed, readers), Sentences(LENGTH, seed)
    before, result = held().descriptors, None
    failed: dict[str, Any] = {}
    with errors_to(words), noted_strategies(strategies):
        try:
            limit = Limit(_WITHIN, words)  # its descriptor is not the answer's
            with few_descriptors(SPARE), limit:
                result = answer(dataset, workers)
        except DeadlinePassed:
            failed = {"hung": True}
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's handler raises
            processes.end_descendants()  # or each of its workers is waited for
        except BaseException as error:  # also SystemExit
            failed = {"error": in_words(error), "ran_out": ran_out(str(error))}
    set_to = [each for each in Path(strategies).read_text().split() if each != "file_descriptor"]
    said = [*filter(ran_out, tidy(Path(words).read_text(errors="replace")).splitlines())]
    gc.collect()
    notes = Path(readers).read_text().splitlines() if Path(readers).exists() else []
    pairs = [tuple(map(int, line.split())) for line in notes]
    others = [of for pid, of in pairs if pid != os.getpid()]
    seen: dict[str, Any] = {
        "in_main": len(pairs) - len(others),
        "read": len(others),
        "loaders": tuple(sorted(set(others))),
        "strategy": "".join(set_to[:1]),
        "complaint": "".join(said[-1:]),
        "left": held().descriptors - before,
    }
    if not failed:
        failed = _compared(result, right)
    elif failed.get("error") and said:  # an EOFError, where the worker had no descriptor to send
        failed["ran_out"] = True
    return Called(workers, **seen, **failed)


def _compared(result: Any, right: Sentences) -> dict[str, Any]:
    if not isinstance(result, (list, tuple)):
        return {"kind": type(result).__name__}
    wrong, types = 0, ""
    for pair, (words, label) in zip(result, map(right.__getitem__, range(LENGTH)), strict=False):
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


def judge(calls: list[Called]) -> Result:
    """Correct if every call returned everything, its workers read it, and nothing stayed open."""
    for call, where in zip(calls, _WHERE, strict=False):
        _is_right(call, where)
    return correct()


def _is_right(call: Called, where: str = "") -> None:
    if call.strategy:
        not_yet("other-strategy", where=where, strategy=call.strategy)
    if call.hung and call.complaint:
        not_yet("lost-batch", where=where, complaint=call.complaint)
    if call.hung:
        not_yet("hung", where=f"{where}, ", seconds=_WITHIN)
    if call.ran_out:
        not_yet("too-many-open-files", where=where, spare=SPARE)
    if call.error:
        error_in_your_code("raised", where=f"{where}, ", error=call.error)
    if call.kind:
        not_yet("no-pairs", where=where, kind=call.kind)
    sentences = f"{LENGTH:,}"
    if call.came != LENGTH:
        not_yet("missing", where=where, came=f"{call.came:,}", sentences=sentences)
    if call.wrong:
        code, wrong = "wrong-types" if call.types else "wrong-pairs", f"{call.wrong:,}"
        not_yet(code, where=where, wrong=wrong, sentences=sentences, types=call.types)
    read, in_main = f"{call.read:,}", f"{call.in_main:,}"
    if not call.workers and call.read:
        not_yet("not-without-workers", where=where, read=read)
    if call.workers and (call.in_main or call.read < LENGTH):
        not_yet("read-in-main", where=where, read=read, in_main=in_main)
    if call.workers and 0 in call.loaders:
        not_yet("no-worker", asked=call.workers)
    if call.workers and call.loaders != (call.workers,):
        not_yet("other-loader", asked=call.workers, loaders=" and ".join(map(str, call.loaders)))
    if call.left == 1:
        not_yet("one-left-open", where=where)
    if call.left > 0:
        not_yet("left-open", where=where, left=call.left)


def _look(answer: Any) -> Callable[..., Any]:
    if is_a_loader(answer):
        not_yet("a-loader")
    return a_fixed_function(answer, starter=collect)


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=_look,
    at_most=120,
)
