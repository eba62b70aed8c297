"""Run an answer as each plan says. Some plans use slow motion, to make races certain."""

from __future__ import annotations

import dis
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from multiprocessing import get_context
from threading import BrokenBarrierError
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.data import get_worker_info

from dltutor.lessons.engine.endings import Ending, check_ending, run_loader
from dltutor.lessons.engine.forms import form, whole_number
from dltutor.lessons.engine.outcomes import not_yet
from dltutor.lessons.engine.running import made, send_cells, theirs
from dltutor.observation.errors import is_yours


@dataclass(frozen=True)
class Plan:
    """A run's settings, which `where` describes for a message, such as "with 0 workers"."""

    where: str
    given: Any  # the argument for the answer's class
    epochs: tuple[tuple[int, list[int]], ...]  # each epoch's number and drawn indices
    workers: int = 2
    persistent: bool = True
    method: str = "fork"
    within: int = 6  # time limit in seconds
    slow: bool = False  # whether the workers run in `SlowMotion`


@dataclass(frozen=True)
class Run:
    """A record of what an answer did in a plan's run, and of how the run ended."""

    plan: Plan
    length: int | None  # the dataset's length
    epochs: tuple[tuple[list[Any], Any], ...]  # each epoch's batches, and what `ask` then returned
    end: Ending


Ask: TypeAlias = Callable[[Any, Any], Any]  # takes the dataset, and the argument that it was given


def run_plans(answer: type, plans: tuple[Plan, ...], ask: Ask) -> Iterator[Run]:
    """Run an answer as each plan says, and yield a record of each run.

    Args:
        answer: The learner's class.
        plans: The settings of the runs.
        ask: A function to call after each epoch, with the dataset and the argument that it was
            given. The run's record has the values that `ask` returned.
    """
    send_cells()
    for plan in plans:
        yield _run(answer, plan, ask)


def _run(answer: type, plan: Plan, ask: Ask) -> Run:
    given = deepcopy(plan.given)
    dataset = made(answer, given, call=f"{answer.__name__}(...)", within=2)
    with theirs():
        length = whole_number(len(dataset))
    draw, epochs, others = list[int](), list[tuple[list[Any], Any]](), list[Any]()

    def train(loader: Any) -> None:
        number, draw[:] = plan.epochs[len(epochs)]
        if hasattr(dataset, "set_epoch"):
            dataset.set_epoch(number)
        came = [each.clone() if isinstance(each, torch.Tensor) else each for each in loader]
        if not plan.persistent:  # make a second dataset, which should count separately
            others.append(answer(deepcopy(plan.given)))
        epochs.append((came, ask(dataset, given)))

    end = run_loader(
        dataset,
        train,
        workers=plan.workers,
        within=plan.within,
        method=plan.method,
        epochs=len(plan.epochs),
        batch_size=1 if plan.slow else 4,
        sampler=draw,
        persistent_workers=plan.persistent,
        worker_init_fn=SlowMotion(plan.workers) if plan.slow else None,
    )
    return Run(plan, length, tuple(epochs), end)


def samples(run: Run, width: int) -> list[torch.Tensor]:
    """Return each epoch's samples as a tensor, if the run finished and all samples arrived.

    Args:
        run: The run that delivered the samples.
        width: How many numbers each sample should have.

    Raises:
        Rejected: The dataset's length is wrong, the run didn't finish, a batch has the wrong form,
            or too few or too many samples arrived.
    """
    plan = run.plan
    if run.length != len(plan.given):
        not_yet("other-length", length=run.length, given=len(plan.given))
    check_ending(run.end, plan.where)
    for (_, draw), (batches, _) in zip(plan.epochs, run.epochs, strict=True):
        for batch in batches:
            if getattr(batch, "dtype", None) != torch.int64 or batch.shape[1:] != (width,):
                not_yet("other-batch", width=width, batch=form(batch))
        if (came := sum(map(len, batches))) != len(draw):
            not_yet("missing", where=plan.where, came=came, drawn=len(draw))
    return [torch.cat(batches) for batches, _ in run.epochs]


class SlowMotion(TorchFunctionMode):
    """A `worker_init_fn` that makes races certain.

    `number += 1` reads, adds, and writes. A count is lost when two processes read before either of
    them writes. So the workers start each sample together. In your code, they wait before calls and
    before writes to an attribute or an item. When a shared tensor changes in place, they also wait
    between reading and writing.

    Args:
        workers: The loader's number of workers. In a loader with another number, each worker
            raises ValueError.
    """

    steps: Final = ("STORE_ATTR", "STORE_SUBSCR", "CALL", "CALL_KW", "CALL_FUNCTION_EX")
    wait: Final = 0.02  # seconds before each step
    times: Final = 4  # the most waits at one step, so that a long loop doesn't take forever

    def __init__(self, workers: int) -> None:
        super().__init__()
        self._together = get_context("spawn").Barrier(workers)
        self._taken: Counter[tuple[CodeType, int]] = Counter()

    def __call__(self, worker_id: int) -> None:
        worker: Any = get_worker_info()
        if worker.num_workers != (parties := self._together.parties):
            number = worker.num_workers
            raise ValueError(f"SlowMotion({parties}) waits for {parties} workers, not for {number}")
        self._wait_for_the_others(50)  # up to 50 s, because spawned workers import torch first
        # Python 3.12 only traces opcodes if a frame has asked for them before tracing begins.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self._enter)
        self.__enter__()  # type: ignore[no-untyped-call]  # stays on until the worker ends

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not is_yours(frame.f_code.co_filename):
            return None
        if frame.f_code.co_name == "__getitem__":
            self._wait_for_the_others()
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._step

    def _wait_for_the_others(self, seconds: float = 2) -> None:
        with suppress(BrokenBarrierError):  # a worker may have died, or may be waiting for a lock
            self._together.wait(seconds)

    def _step(self, frame: FrameType, event: str, arg: Any) -> Any:
        here = frame.f_code, frame.f_lasti
        if event == "opcode" and dis.opname[frame.f_code.co_code[frame.f_lasti]] in self.steps:
            self._taken[here] += 1
            if self._taken[here] <= self.times:
                time.sleep(self.wait)
        return self._step

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func.__name__, kwargs or {}
        if not name.endswith("_") or name.endswith("__") or not args[0].is_shared():
            return func(*args, **kwargs)
        old, new = args[0].clone(), args[0].clone()
        func(new, *args[1:], **kwargs)
        if new.shape != old.shape:  # an operation such as resize_()
            return func(*args, **kwargs)
        time.sleep(self.wait)
        changed = new != old
        args[0][changed] = new[changed]
        return args[0]
