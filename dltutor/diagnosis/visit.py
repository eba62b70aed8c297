"""A visit: the experiments on one loader, one after the other, each in a process of its own."""

from __future__ import annotations

import os
import time
import traceback
import typing
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from types import ModuleType
from typing import Any, Final

from dltutor.diagnosis.bench import Bench, Loop, Mark
from dltutor.diagnosis.experiments import experiments
from dltutor.failures.kit.evidence import Evidence, Parts, Run, read
from dltutor.observation import sandbox
from dltutor.observation.sandbox import Ended
from dltutor.system.process_memory import pss
from dltutor.tables import MB

STARTING: Final = 20.0  # seconds more for an experiment whose workers import torch first
MEMORY: Final = 1024 * MB  # bytes that an experiment may take beside the loader's own
_LEAST: Final = 1.0  # seconds that an experiment needs to be begun


class CannotRun(Exception):
    """The loader cannot be run; the message says why, in one sentence."""


@dataclass(frozen=True)
class Untried:
    """An experiment that was not made, or not to its end.

    Args:
        question: What it asks.
        why: Why there is no answer.
    """

    question: str
    why: str


@dataclass
class Visit:
    """What is diagnosed, and how long it may take.

    Args:
        make: Returns the loader; called in each experiment's own process.
        loop: The training loop, or None.
        epochs: How many times it runs.
        until: When the visit ends, on the clock of `time.monotonic`.
        own_memory: Bytes that the loader has already, in this process.
    """

    make: Callable[[], Any]
    loop: Loop | None
    epochs: int
    until: float
    own_memory: float = 0.0
    untried: list[Untried] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)

    def examine(self) -> Evidence:
        """Make all experiments that tell anything and that there is time for.

        Raises:
            CannotRun: The loader cannot be made.
        """
        evidence: Evidence | None = None
        for experiment in experiments():
            if not experiment.needed(evidence):
                continue
            answer = self._ask(experiment, evidence)
            if evidence is None:
                assert isinstance(answer, Parts)
                evidence = Evidence(answer, Run("not run"))
            elif answer is not None:
                evidence = replace(evidence, **{experiment.FIELD: answer})
        assert evidence is not None
        return evidence

    def _ask(self, experiment: ModuleType, evidence: Evidence | None) -> Any:
        question = question_of(experiment)
        seconds = experiment.SECONDS
        if evidence is not None and evidence.parts.method in ("spawn", "forkserver"):
            seconds += STARTING
        seconds = min(seconds, self.until - time.monotonic())
        if seconds < _LEAST and evidence is not None:
            self.untried.append(Untried(question, "no time was left"))
            return None
        mark = Mark()

        def work(begin: Callable[[], None]) -> dict[str, Any]:
            begin()
            try:
                loader = self.make()
            except BaseException as error:  # also SystemExit
                return {"unmade": f"{type(error).__name__}: {error}"[:400]}
            try:
                bench = Bench(loader, self.loop, self.epochs, seconds, mark)
                return {"answer": asdict(experiment.ask(bench))}
            except BaseException:
                return {"failed": traceback.format_exc().strip()[-1500:]}

        ended = sandbox.run(
            work,
            at_most=max(seconds, _LEAST),
            memory=MEMORY + 2 * max(self.own_memory, pss(os.getpid())),
            own_folder=False,
        )
        return self._answer(experiment, question, ended, mark, first=evidence is None)

    def _answer(
        self, experiment: ModuleType, question: str, ended: Ended, mark: Mark, *, first: bool
    ) -> Any:
        if isinstance(ended.result, dict):
            if "unmade" in ended.result:
                raise CannotRun(f"making the loader raised {ended.result['unmade']}")
            if "failed" in ended.result:
                if first:
                    raise CannotRun(f"the doctor failed to look at it: {ended.result['failed']}")
                last = ended.result["failed"].splitlines()[-1]
                self.untried.append(Untried(question, f"the experiment failed: {last}"))
                return None
            self.tried.append(question)
            return read(_record(experiment), ended.result["answer"])
        if first:
            raise CannotRun(_why(ended, "making the loader"))
        if ended.stopped in ("", "limit") and hasattr(experiment, "cut_short"):
            self.tried.append(question)
            return experiment.cut_short(ended.stopped, ended.status, mark.get())
        self.untried.append(Untried(question, _why(ended, "the experiment")))
        return None


def question_of(experiment: ModuleType) -> str:
    """The first line of its docstring."""
    return (experiment.__doc__ or "").partition("\n")[0]


def _record(experiment: ModuleType) -> Any:
    return typing.get_type_hints(experiment.ask)["return"]


def _why(ended: Ended, what: str) -> str:
    if ended.stopped == "limit":
        return f"{what} did not end in time.{ended.stood}"
    if ended.stopped:
        return f"{what} was stopped: too much {ended.stopped}"
    said = ended.printed.strip().splitlines()
    last = f", and said {said[-1][:200]!r}" if said else ""
    return f"{what} ended its process with exit code {ended.status}{last}"
