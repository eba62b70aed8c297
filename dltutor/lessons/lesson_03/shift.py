"""A run of an answer to "03.transfer", and who is left alive by it."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.process import BaseProcess
from typing import Any, Final

from torch.utils.data import DataLoader

from dltutor.lessons.kit.answers import failed_in_main
from dltutor.lessons.lesson_03.apart import Ended, Say, run_apart
from dltutor.lessons.lesson_03.shards import make_shards
from dltutor.observation import torch_internals

PATIENCE: Final = 20  # seconds for the answer


@dataclass(frozen=True)
class Shift:
    """What was seen of an answer; all of it can be pickled.

    Args:
        begun: The shards whose loader was iterated, in order, from 1.
        alive: When each shard began, and last when the answer came back: how many workers of
            earlier shards were alive.
        report: The entries of what it returned, as text; the name of its type if it was no list.
        exceptions: Whether an entry is an exception.
        workers: `num_workers` of each loader afterwards.
        timeout: Whether a loader has a timeout.
        bystander: Whether a process that was none of the answer's business lived on.
    """

    begun: tuple[int, ...]
    alive: tuple[int, ...]
    report: tuple[str, ...] | str
    exceptions: bool
    workers: tuple[int, ...]
    timeout: bool
    bystander: bool


@dataclass(frozen=True)
class WaitedInVain:
    """Torch waited its full time for a worker to leave.

    Args:
        shard: Its shard, from 1.
        seconds: How long.
    """

    shard: int
    seconds: float


@dataclass
class _Log:
    say: Say
    begun: list[int] = field(default_factory=list)
    alive: list[int] = field(default_factory=list)
    processes: list[BaseProcess] = field(default_factory=list)

    def look(self) -> None:
        self.alive.append(sum(each.is_alive() for each in self.processes))


class _Shard(DataLoader[Any]):
    log: _Log
    number: int

    def __iter__(self) -> Any:
        self.log.look()
        self.log.begun.append(self.number)
        iterator: Any = super().__iter__()
        for worker in torch_internals.workers_of(iterator):
            worker.__dict__["join"] = partial(_join, self.log.say, self.number, worker)
            self.log.processes.append(worker)
        return iterator


def _join(say: Say, shard: int, worker: BaseProcess, timeout: float | None = None) -> None:
    began = time.monotonic()
    BaseProcess.join(worker, timeout)
    if timeout is not None and worker.is_alive():
        say(WaitedInVain(shard, time.monotonic() - began))
        os._exit(0)  # the rest is known: as long for each of the others


def run(answer: Callable[[list[DataLoader[Any]]], Any], *spoilt: str) -> Ended:
    """Run an answer on fresh shards, in a process of its own.

    It says a Shift, or WaitedInVain, or a Result of what it raised.
    """
    return run_apart(partial(_run, answer, spoilt), seconds=PATIENCE)


def _run(answer: Callable[[list[DataLoader[Any]]], Any], spoilt: Sequence[str], say: Say) -> None:
    bystander = multiprocessing.get_context("fork").Process(target=time.sleep, args=(PATIENCE,))
    bystander.start()
    log = _Log(say)
    shards = make_shards(*spoilt, make=_Shard)
    for number, shard in enumerate(shards, start=1):
        shard.__dict__.update(log=log, number=number)
    try:
        returned = answer(list(shards))
    except BaseException as error:
        say((tuple(log.begun), failed_in_main(error)))
        os._exit(0)
    log.look()
    entries = list(returned) if isinstance(returned, (list, tuple)) else None
    say(
        Shift(
            begun=tuple(log.begun),
            alive=tuple(log.alive),
            report=type(returned).__name__ if entries is None else tuple(map(str, entries)),
            exceptions=any(isinstance(entry, BaseException) for entry in entries or ()),
            workers=tuple(shard.num_workers for shard in shards),
            timeout=any(shard.timeout for shard in shards),
            bystander=bystander.is_alive(),
        )
    )
    os._exit(0)  # what is left alive is ended from outside
