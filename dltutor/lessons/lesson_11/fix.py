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

from dltutor.failures.material.sentences import Sentences
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_function, is_a_loader
from dltutor.lessons.engine.outcomes import Rejected, Result, correct, error_in_your_code, not_yet
from dltutor.lessons.engine.running import failed_in_main, send_cells
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
LENGTH: Final = 3_000  # sentences: 30 batches of 100
_WITHIN: Final = 60  # seconds for a call: a right answer takes one, spawned workers take a few


@dataclass(frozen=True)
class Called:
    """What one call of the function did.

    Args:
        workers: What it was asked for.
        hung: Whether it had not returned in time.
        error: What it raised, in a sentence, or nothing.
        ran_out: Whether that says that there are no more descriptors.
        complaint: The last line that was written to stderr about descriptors, or nothing.
        kind: What it returned, where that is no list of pairs; or nothing.
        came: How many pairs.
        wrong: How many of them are not the sentence and class of their place.
        first: What is wrong with the first of those.
        read: How many samples other processes have read.
        loaders: The `num_workers` of their loaders; 0 stands for a process that is not a worker.
        in_main: How many samples main has read.
        left: Tensors of batches whose descriptors were open afterwards.
        strategy: Another sharing strategy that was set, or nothing.
    """

    workers: int
    hung: bool = False
    error: str = ""
    ran_out: bool = False
    complaint: str = ""
    kind: str = ""
    came: int = LENGTH
    wrong: int = 0
    first: str = ""
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
            failed = {"error": failed_in_main(error).text, "ran_out": ran_out(str(error))}
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
    wrong, first = 0, ""
    for pair, (words, label) in zip(result, map(right.__getitem__, range(LENGTH)), strict=False):
        try:
            mine, number = pair
        except (TypeError, ValueError):
            return {"kind": f"a {type(result).__name__} of {type(pair).__name__}"}
        is_number = isinstance(number, int) and number == label
        if not (is_number and type_of(mine) == type_of(words) and torch.equal(mine, words)):
            wrong, first = wrong + 1, first or _told(mine, number)
    return {"came": len(result), "wrong": wrong, "first": first}


def _told(words: Any, number: Any) -> str:
    if (of := f"({type_of(words)}, {type_of(number)})") != "(Tensor of torch.int64, int)":
        return f"has {of}"
    return "has the right types, and another sentence's words or class"


def judge(calls: list[Called]) -> Result:
    """Correct if every call brought everything, read by its workers, and kept nothing open."""
    for number, call in enumerate(calls):
        _is_right(call, ", the second time" * (call.workers in RUNS[:number]))
    return correct(
        f"All {LENGTH:,} sentences are there, in order, with 2, 0, and 4 workers. No process "
        f"needed more than {SPARE} descriptors, and none of a batch is open now."
    )


def _is_right(call: Called, again: str = "") -> None:
    where = f"with {call.workers} workers{again}" if call.workers else f"without workers{again}"
    if call.strategy:
        not_yet(
            f"{where}, the sharing strategy is set to `{call.strategy}`. The exercise keeps it. "
            "What do you send, and what do you keep, that needs so many descriptors?"
        )
    if call.hung and call.complaint:
        not_yet(
            f"{where}, your function waits for a batch that is lost. On stderr stands "
            f"`{call.complaint}`. That was a worker, in the thread that sends its batches. How "
            "many tensors is one batch?"
        )
    if call.hung:
        not_yet(
            f"{where}, your function did not return within {_WITHIN} s. Does it wait for "
            "something, or is it slow?"
        )
    if call.ran_out:
        not_yet(
            f"{where}, {SPARE} descriptors were not enough: `Too many open files`. How many "
            "tensors is one batch, times those that are on their way? And what of each batch is "
            "kept, by whatever name?"
        )
    if call.error:
        error_in_your_code(f"{where}, {call.error}")
    if call.kind:
        not_yet(
            f"{where}, your function returns {call.kind}, and not a list of pairs: a tensor and a "
            "number for each sentence."
        )
    if call.came != LENGTH:
        not_yet(f"{where}, {call.came:,} of {LENGTH:,} sentences come back. Where are the others?")
    if call.wrong:
        not_yet(
            f"{where}, {call.wrong:,} of {LENGTH:,} pairs are not the words (a tensor, `int64`) "
            f"and the class (an `int`) of the sentence at their place. The first {call.first}."
        )
    if not call.workers and call.read:
        not_yet(f"{where}, other processes have read {call.read:,} samples. 0 means none.")
    if call.workers and (call.in_main or call.read < LENGTH):
        not_yet(
            f"{where}, they have read {call.read:,} samples, and main has read {call.in_main:,} "
            "itself. The exercise keeps its workers. What do they send?"
        )
    if call.workers and call.loaders != (call.workers,):
        who = (f"by a loader with `num_workers={n}`" if n else "elsewhere" for n in call.loaders)
        not_yet(f"{where} asked for, the samples were read {' and '.join(who)}.")
    if call.left > 0:
        tensors = "tensor of a batch is" if call.left == 1 else "tensors of batches are"
        not_yet(
            f"{where}, all sentences are right, and {call.left} {tensors} still open when your "
            "function has returned. What, in the list or not, shares their memory?"
        )


def _look(answer: Any) -> Callable[..., Any]:
    if is_a_loader(answer):
        not_yet("that is a loader. The check calls your function, `collect(dataset, num_workers)`.")
    return a_fixed_function(answer, starter=collect)


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=_look,
    runs=f"{LENGTH:,} fresh sentences with 2, 0, 4, and again 0 workers, and {SPARE} descriptors "
    "to spare",
    at_most=120,
)
