"""Grade "03.transfer": a loop that goes on after an error and leaves no worker behind.

What happens is written to a file, since a shard may be read in a process of its own.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from torch.utils.data import DataLoader

from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_function
from dltutor.lessons.kit.outcomes import Rejected, Result, correct, error_in_your_code, not_yet
from dltutor.lessons.kit.running import theirs
from dltutor.lessons.lesson_03.material import WORKERS, make_shards, train
from dltutor.observation import torch_internals
from dltutor.observation.time_limits import DeadlinePassed, deadline
from dltutor.system import processes

# In the place of a reading, shard by shard; others than in the lesson.
_SPOILT: Final = ("", "-.-", "", "3,75", "")
_FAILING: Final = tuple(number for number, text in enumerate(_SPOILT, start=1) if text)
_BATCHES: Final = 4  # of a shard
_ANSWER: Final = 20  # seconds for the function


@dataclass(frozen=True)
class Shift:
    """What was seen of an answer.

    Args:
        begun: The shards whose loader was iterated, in order, from 1.
        batches: How many batches came of each of them, in the same order.
        alive: When each shard began, and last when the answer came back: how many workers of
            earlier shards were alive.
        workers: `num_workers` of each loader when it began.
        timeout: Whether a loader had a timeout.
        waited: The shard whose worker torch waited for in vain, and for how many seconds.
        raised: What the function raised, in words, or "".
        report: The entries of what it returned, as texts; the name of its type if it is no list.
        exceptions: Whether an entry is an exception.
        bystander: Whether a process that was none of the answer's business lived on.
    """

    begun: tuple[int, ...]
    batches: tuple[int, ...]
    alive: tuple[int, ...]
    workers: tuple[int, ...]
    timeout: bool = False
    waited: tuple[int, float] | None = None
    raised: str = ""
    report: tuple[str, ...] | str = ()
    exceptions: bool = False
    bystander: bool = True


class _Shard(DataLoader[Any]):
    log: Path
    number: int

    def say(self, what: str, value: Any = None) -> None:
        with self.log.open("a") as file:
            file.write(json.dumps([what, self.number, value]) + "\n")

    def __iter__(self) -> Any:
        self.say("alive", _alive(self.log))
        self.say("begins", [self.num_workers, self.timeout])
        iterator: Any = super().__iter__()
        workers = torch_internals.workers_of(iterator)
        self.say("workers", [worker.pid for worker in workers])
        for worker in workers:
            worker.__dict__["join"] = partial(_join, self, worker)
        iterator.__class__ = _counting(type(iterator), self)
        return iterator


def _counting(kind: Any, shard: _Shard) -> type:
    def count(self: Any) -> Any:
        batch = kind.__next__(self)
        shard.say("batch")
        return batch

    return type(kind.__name__, (kind,), {"__next__": count})


def _join(shard: _Shard, worker: BaseProcess, timeout: float | None = None) -> None:
    if timeout is not None and _said(shard.log, "waited"):
        timeout = 0.1  # it is known by now that torch would wait as long for each of the others
    began = time.monotonic()
    BaseProcess.join(worker, timeout)
    if timeout is not None and worker.is_alive():
        shard.say("waited", time.monotonic() - began)


def _said(log: Path, what: str) -> list[tuple[int, Any]]:
    lines = log.read_text().splitlines() if log.exists() else []
    said = [json.loads(line) for line in lines]
    return [(number, value) for kind, number, value in said if kind == what]


def _alive(log: Path) -> int:
    pids = [pid for _, started in _said(log, "workers") for pid in started]
    return sum(map(processes.is_alive, pids))


def look(answer: Any) -> Callable[..., Any]:
    """The answer, if it is a function that is no longer the starter."""
    return a_fixed_function(answer, train)


def gather(answer: Callable[..., Any]) -> Shift:
    """Call the answer with five shards."""
    gc.disable()  # nothing is collected by chance
    log = Path(tempfile.mkdtemp(), "log")
    fork = multiprocessing.get_context("fork")
    bystander = fork.Process(target=time.sleep, args=(_ANSWER,))
    bystander.start()
    shards = make_shards(*_SPOILT, make=_Shard)
    for number, shard in enumerate(shards, start=1):
        shard.__dict__.update(log=log, number=number)
    raised, returned = "", None
    try:
        with theirs(), deadline(_ANSWER):
            returned = answer(list(shards))
    except DeadlinePassed:
        not_yet(f"the function did not come back within {_ANSWER} s. What does it wait for?")
    except Rejected as rejected:
        raised = rejected.result.text
    alive = _alive(log)
    lives_on = bystander.is_alive()
    bystander.kill()
    bystander.join()
    # With the sharing strategy file_system, what a failed shard's workers sent stays.
    processes.unlink_segments(pid for _, started in _said(log, "workers") for pid in started)
    entries = returned if isinstance(returned, (list, tuple)) else ()
    with theirs():
        report = tuple(map(str, entries))
    begins, counted = _said(log, "begins"), [number for number, _ in _said(log, "batch")]
    waited = _said(log, "waited")
    return Shift(
        begun=tuple(number for number, _ in begins),
        batches=tuple(counted.count(number) for number, _ in begins),
        alive=(*(value for _, value in _said(log, "alive")), alive),
        workers=tuple(workers for _, (workers, _) in begins),
        timeout=any(timeout for _, (_, timeout) in begins),
        waited=waited[0] if waited else None,
        raised=raised,
        report=report if isinstance(returned, (list, tuple)) else type(returned).__name__,
        exceptions=any(isinstance(entry, BaseException) for entry in entries),
        bystander=lives_on,
    )


def judge(seen: Shift) -> Result:
    """Correct if every shard was read, each failure is told, and no worker was left."""
    if seen.waited:
        not_yet(
            f"after shard {seen.waited[0]} the program stood still: torch waited "
            f"{seen.waited[1]:.0f} s in vain for a worker, and would have waited as long for every "
            "other. This is the stall; now you have called it yourself. A collection finds what is "
            "left over, too late and in the wrong order. Why is it left over?"
        )
    if seen.raised:
        if "ValueError" in seen.raised and seen.begun and seen.begun[-1] in _FAILING:
            not_yet(
                f"the error of shard {seen.begun[-1]} ended the whole run, and the shards after it "
                "were never read. One bad reading may cost its shard, not the job."
            )
        error_in_your_code(seen.raised)
    _all_were_read(seen)
    _nobody_is_left(seen)
    _all_is_reported(seen)
    return correct(
        f"{len(_SPOILT)} shards, {len(_FAILING)} of them fail, and each failure is in the report. "
        "Whenever a shard began, and at the end, 0 workers of earlier ones were alive."
    )


def _all_were_read(seen: Shift) -> None:
    if any(workers != WORKERS for workers in seen.workers):
        not_yet(
            f"the loaders came with {WORKERS} workers and have {min(seen.workers)} now. Without "
            "workers nobody is left behind, and nobody loads ahead either. Keep them."
        )
    every = range(1, len(_SPOILT) + 1)
    if missed := [number for number in every if number not in seen.begun]:
        not_yet(
            f"shard {missed[0]} was never read through its loader. {len(set(seen.begun))} of "
            f"{len(every)} were."
        )
    if len(seen.begun) > len(every):
        not_yet(f"{len(seen.begun)} epochs began, for {len(every)} shards. Read each once.")
    for number, batches in zip(seen.begun, seen.batches, strict=True):
        if number not in _FAILING and batches < _BATCHES:
            not_yet(f"of shard {number}, {batches} of {_BATCHES} batches were read.")


def _nobody_is_left(seen: Shift) -> None:
    if not seen.bystander:
        not_yet(
            "a process that belongs to none of the shards was ended as well. At work this is the "
            "validation loader's worker. Who has a right to end these, and can be made to?"
        )
    if not any(seen.alive):
        return
    left = (
        f"{seen.alive[-1]} workers of failed shards are alive when the function comes back"
        if seen.alive[-1]
        else f"{max(seen.alive)} workers of a failed shard are alive while a later one is read"
    )
    if seen.timeout:
        not_yet(
            f"{left}. `timeout=` is for a batch that does not come. Here something came: an error. "
            "Who still holds the iterator of that loader?"
        )
    if seen.exceptions:
        not_yet(
            f"{left}. Your report holds exceptions. An exception holds its traceback, and that the "
            "frames it went through; in one of them is the iterator. Which of these can you take "
            "away?"
        )
    not_yet(
        f"{left}. The report does not hold them. Torch's own frame does: it keeps the exception "
        "that it raised, and the exception keeps its frames. No name of yours is in that circle, "
        "so neither the text nor a `del` ends it. Where can you cut it?"
    )


def _all_is_reported(seen: Shift) -> None:
    if isinstance(seen.report, str):
        not_yet(
            f"the function returns a {seen.report}. It has to return a list, one entry a failure."
        )
    named = [number for number in _FAILING if _SPOILT[number - 1] in " ".join(seen.report)]
    if len(named) < len(_FAILING) or len(seen.report) != len(_FAILING):
        not_yet(
            f"{len(_FAILING)} shards failed. The report has {len(seen.report)} entries, and "
            f"{len(named)} of the bad readings are found in them. Whoever reads it in the morning "
            "wants to know what went wrong."
        )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=look,
    runs="calls your function with five fresh shards, two of them spoilt",
    at_most=_ANSWER + 8,
)
