"""Run the experiments on one loader, one after another, each in its own process."""

from __future__ import annotations

import os
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Final

from dltutor.diagnosis import fork_doubts, fresh_interpreter
from dltutor.diagnosis.agenda import experiments
from dltutor.diagnosis.errors import CannotRun, CannotSend
from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import Experiment, read
from dltutor.diagnosis.measures import Measures
from dltutor.diagnosis.probes.handles.descriptors import holders, short_paths
from dltutor.diagnosis.probes.parts import Parts
from dltutor.diagnosis.probes.samples import DEALING
from dltutor.diagnosis.probes.waits import causes
from dltutor.diagnosis.running import names, when_to_fork
from dltutor.diagnosis.running.subject import Loop, Mark, Subject, Unanswered
from dltutor.observation import own_mappings, sandbox
from dltutor.observation.foreign import said
from dltutor.observation.sandbox import Ended
from dltutor.observation.texts import signal_name
from dltutor.system.process_memory import free, pss
from dltutor.tables import MB

ORDINARY: Final = {
    "spawn": 60.0,
    "forkserver": 60.0,
}  # seconds for an ordinary examination; 30 if workers are forked or there are none
MAKING: Final = 20.0  # the most seconds to make a loader in an ordinary examination
STARTING: Final = 20.0  # extra seconds for an experiment whose workers import torch first
MEMORY: Final = 1024 * MB  # bytes on top of twice main's memory that an experiment may always use
_LINE: Final = 160  # the most characters of a location to show
_LEAST: Final = 1.0  # the fewest seconds to give an experiment
_NO_PINNING: Final = "CUDA is in use here, and an experiment, which is a fork, can't pin memory"
_SAME: Final = "the same problem got in the way"
_NOT_RUN: Final = "not run"


class _InAFork(Exception):
    """Raised if a fork may have caused an outcome, so that a new interpreter takes over."""


@dataclass(frozen=True)
class Tried:
    """A question that an experiment answered, for the report.

    Args:
        question: What the experiment asks.
        answer: What the experiment found.
    """

    question: str
    answer: str


@dataclass(frozen=True)
class Untried:
    """A question without an answer, for the report. Usually its experiment didn't run or finish.

    Args:
        question: What the experiment asks.
        why: Why there's no answer.
    """

    question: str
    why: str


@dataclass
class Examination:
    """The experiments on one loader, with their time limit and their outcome.

    Args:
        make: A function that each experiment calls in its own process to get the loader.
        loop: The training loop. If None, a plain loop runs.
        epochs: How many times the loop runs.
        until: The time at which the examination ends, by `time.monotonic()`.
        own_memory: The bytes that this process, with the loader in it, already uses (default 0).
        at_hand: The loader. If None (the default), each experiment makes a new one.
        function: The function that makes the loader, for a new interpreter to call if forks prove
            nothing. If None (the default), no new interpreter is tried.
        fresh: Whether this process is a new interpreter that runs only the examination (default
            False).
        asked: A function to call with each experiment's question and limit in seconds (default: one
            that does nothing).
        untried: The questions without an answer so far.
        tried: The questions with an answer so far.
    """

    make: Callable[[], Any]
    loop: Loop | None
    epochs: int
    until: float
    own_memory: float = 0.0
    at_hand: Any = None
    function: Callable[[], Any] | None = None
    fresh: bool = False
    asked: Callable[[str, float], object] = lambda question, seconds: None
    untried: list[Untried] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)
    making: float = 0.0  # seconds that making the loader took
    # The advice to give if a fork of this process can't answer a question.
    instead: str = (
        "give diagnose() a function that makes the loader, and a new interpreter will call it"
    )
    temporary: str = ""  # the temporary folder that all experiments share
    in_vain: bool = False  # whether runs in forks of this process show nothing

    def __post_init__(self) -> None:
        self.seconds = self.until - time.monotonic()

    def examine(self) -> Evidence:
        """Run each experiment that can show something while there's time, and return the Evidence.

        Add the questions with an answer to `tried`, and those without one to `untried`. If forks
        of this process prove nothing, and a function that can be pickled makes the loader, run the
        experiments in a new interpreter.

        Raises:
            CannotRun: The loader can't be made, or the first experiment or new interpreter failed.
        """
        if self.function is not None and not self.fresh:
            if not fork_doubts.in_use():
                with suppress(_InAFork):
                    return self._examine()
            self.untried, self.tried = [], []
            try:
                sent = fresh_interpreter.packed(self.function, self.loop, self.epochs, self.until)
            except CannotSend as error:
                self.function, self.instead = None, str(error)
            else:
                self.asked(
                    "In a new interpreter, because forks of this process prove nothing",
                    self.until - time.monotonic(),
                )
                evidence, self.tried, self.untried = fresh_interpreter.examined(sent, self.until)
                assert isinstance(evidence, Evidence)
                return evidence
        return self._examine()

    def _examine(self) -> Evidence:
        # Give all runs one temporary folder, so that the function that makes the loader finds the
        # files that it made in earlier runs.
        with tempfile.TemporaryDirectory(prefix="dlt-", ignore_cleanup_errors=True) as folder:
            self.temporary = folder
            return self._run_experiments()

    def _run_experiments(self) -> Evidence:
        evidence: Evidence | None = None
        locks = self._locks()
        for experiment in experiments():
            if evidence is not None and not experiment.needed(evidence):
                continue
            if experiment.held and not (locks and when_to_fork.wait(locks, held=True)):
                continue
            before_fork = partial(when_to_fork.wait, locks, held=experiment.held)
            answer, why = self._ask(experiment, evidence, before_fork)
            if why:
                self.untried.append(Untried(experiment.question, why))
            else:
                self.tried.append(Tried(experiment.question, str(answer)))
            if evidence is None:
                if why:
                    raise CannotRun(why)
                assert isinstance(answer, Parts)
                others = tuple(each.name for each in when_to_fork.others())
                evidence = Evidence(replace(answer, threads=others), Measures(_NOT_RUN))
            elif answer is not None:
                evidence = replace(evidence, **{experiment.field: answer})
        assert evidence is not None
        if evidence.parts.pinned and "CUDA" in fork_doubts.in_use() and not self.in_vain:
            self.untried.append(
                Untried("Can the batches be pinned?", f"{_NO_PINNING}: {self.instead}")
            )
        self._move_silent_run(evidence)
        return evidence

    def _move_silent_run(self, evidence: Evidence) -> None:
        # If the run of the unchanged loader shows nothing, list its question as unanswered.
        why = silent(evidence)
        asked = next(each.question for each in experiments() if each.field == "run")
        if why and evidence.run.end != _NOT_RUN:
            self.tried = [each for each in self.tried if each.question != asked]
            others = [each for each in self.untried if each.question != asked]
            self.untried[:] = [Untried(asked, why), *others]

    def _locks(self) -> list[Any]:
        # Return the locks that the loader's parts and your modules refer to, because another thread
        # of this process may hold one of them when the doctor forks an experiment.
        if not when_to_fork.others():
            return []
        return causes.locks_in(names.roots_of(self._subject()))

    def _subject(self) -> Subject | None:
        # Return the loader in this process, or None if each experiment makes a new one.
        at_hand = self.at_hand is not None
        return Subject(self.at_hand, self.loop, self.epochs, 0.0) if at_hand else None

    def _ask(
        self, experiment: Experiment, evidence: Evidence | None, before_fork: Callable[[], object]
    ) -> tuple[Any, str]:
        # Return the answer, or None if there's none, and why the answer is missing or incomplete,
        # or "" if it's complete.
        seconds = self._seconds(experiment, evidence)
        if evidence is None:
            seconds = max(seconds, _LEAST)
        if self.in_vain:
            return None, _SAME
        if seconds < _LEAST:
            return None, "no time was left"
        self.asked(experiment.question, seconds)
        mark = Mark()
        threads = when_to_fork.others()
        no_pinning = "CUDA" in fork_doubts.in_use()

        def work(begin: Callable[[], None]) -> dict[str, Any]:
            begin()
            began = time.monotonic()
            try:
                loader = self.make()
            except CannotRun as error:
                return {"cannot": str(error)}
            except BaseException as error:  # even SystemExit, to report why there's no loader
                return {"unmade": said(error)[:400]}
            try:
                own_mappings.make_private()  # not earlier, because `make` may map files
                own_mappings.keep_private()
                took = time.monotonic() - began
                rest = max(seconds - took, _LEAST)
                subject = Subject(
                    loader, self.loop, self.epochs, rest, mark, evidence, threads, self.function
                )
                subject.take_over()
                # The first experiment has to read the loader's own settings, so change none there.
                if no_pinning and evidence is not None:
                    subject.change(pin_memory=False)
                return {"answer": asdict(experiment.ask(subject)), "making": took}
            except Unanswered as error:
                return {"untried": str(error)}
            except BaseException:
                return {"failed": traceback.format_exc().strip()[-1500:]}

        ended = sandbox.run(
            work,
            at_most=seconds,
            memory=most_memory(self.own_memory),
            own_folder=False,
            temporary=self.temporary,
            before_fork=before_fork,
            cut=True,
        )
        return self._read_outcome(experiment, ended, mark, seconds, first=evidence is None)

    def _seconds(self, experiment: Experiment, evidence: Evidence | None) -> float:
        # If you give the examination more time than usual, each experiment gets more, too.
        method = evidence.parts.method if evidence is not None else ""
        ordinary = ORDINARY.get(method, 30.0)
        seconds: float = experiment.seconds * max(1.0, self.seconds / ordinary)
        if method in ORDINARY:
            seconds += STARTING
        if evidence is None:
            seconds = max(seconds, min(MAKING * max(1.0, self.seconds / ordinary), self.seconds))
        return min(seconds + 1.5 * self.making, self.until - time.monotonic())

    def _read_outcome(
        self, experiment: Experiment, ended: Ended, mark: Mark, seconds: float, *, first: bool
    ) -> tuple[Any, str]:
        if why := self._proves_nothing(experiment, ended, mark):
            already = any(each.why == why for each in self.untried)
            return None, _SAME if already else why
        match ended.result:
            case {"cannot": why}:
                raise CannotRun(why)
            case {"unmade": error}:
                raise CannotRun(f"making the loader raised {error}")
            case {"failed": trace} if first:
                raise CannotRun(f"the doctor itself failed: {trace}")
            case {"failed": trace}:
                return None, f"the experiment failed: {trace.splitlines()[-1]}"
            case {"untried": why}:
                return None, why
            case {"answer": answer, "making": making}:
                if first:
                    self.making = making
                return read(experiment.record, answer), ""
        why = why_stopped(ended, "making the loader" if first else "the experiment", seconds)
        # If an experiment is cut short because time is up, that says nothing about the loader.
        over = bool(ended.stopped) and time.monotonic() > self.until - _LEAST
        if over or ended.stopped not in ("", "limit") or not experiment.cut_short:
            return None, why
        found = experiment.cut_short(ended.stopped, ended.status, mark)
        return found, why if ended.stopped else ""

    def _proves_nothing(self, experiment: Experiment, ended: Ended, mark: Mark) -> str:
        # Say why the loader may not be to blame for an outcome, and what to do, or return "". If
        # the fork may be to blame, and a new interpreter can take over, raise _InAFork.
        if ended.used:
            subject = self._subject()
            dataset = subject.dataset if subject is not None else None
            paths = short_paths(holders(dataset, ended.used))
            return (
                f"it uses {f'`{paths[0]}`, ' if paths else ''}a connection that's open in this "
                "process, and an experiment would take answers that were meant for you. Give "
                "diagnose() a function that makes the loader and the connection"
            )
        if self.fresh or (ended.result is None and experiment.cut_short is None):
            return ""
        why = fork_doubts.doubt(ended, self.loop is not None)
        # A fork isn't to blame if the process stopped in the sampler, or after the first sample.
        # When the first sample begins, `mark` has been written twice, for the sampler (or
        # `iter`) and for that sample.
        later = ended.result is None and (mark.get() == DEALING or mark.times > 2)
        none_came = experiment.field == "samples" and not later and fork_doubts.no_sample(ended)
        if self.function is not None and (why or none_came):
            raise _InAFork
        self.in_vain = bool(why)
        return f"{why}: {self.instead}" if why else ""


def most_memory(own: float = 0.0) -> float:
    """Return how many bytes an experiment may use.

    That's half of the free memory, but at least `MEMORY` plus twice what this process uses now or,
    if that's more, twice `own`.

    Args:
        own: The bytes that this process used when it was asked to diagnose the loader (default 0).
    """
    return max(MEMORY + 2 * max(own, pss(os.getpid())), (free() or 0) / 2)


def silent(evidence: Evidence) -> str:
    """Say why the run of the unchanged loader shows nothing, or return "" if it shows something."""
    run, samples = evidence.run, evidence.samples
    if run.end == _NOT_RUN:
        return "the loader wasn't run"
    if run.end == "finished" and not run.passes and evidence.parts.loop:
        return (
            "your loop never iterated the loader that it was given. If it makes loaders of its "
            "own, give the doctor one of those, or let the loop use its argument"
        )
    hung = samples is not None and samples.ended == "hung" and not samples.before
    if run.end == "hung" and not run.batches and hung:
        return (
            "no batch arrived, and without workers no sample did either. Either it hangs or a "
            "sample takes longer than the experiment waited, and a longer deadline would tell"
        )
    return ""


def why_stopped(ended: Ended, what: str, seconds: float) -> str:
    """Say why an experiment's process has no result.

    Args:
        ended: How the process ended.
        what: What the process did, as the subject of the sentence, such as "making the loader".
        seconds: The most seconds that the process was given.
    """
    if ended.stopped == "limit":
        stood = ended.stood.strip().removesuffix(".")
        where = f": {stood[0].lower()}{stood[1:_LINE]}" if stood else ""
        return f"{what} didn't finish within {seconds:.0f} s{where}"
    if ended.stopped == "memory":
        return f"{what} was stopped, because it used more memory than the doctor allows"
    if ended.stopped == "processes":
        return f"{what} was stopped, because it started more processes than the doctor allows"
    if ended.stopped:
        return f"{what} couldn't start, because a function your code registered for a fork hung"
    said = ended.printed.strip().splitlines()
    last = f", and the last thing it printed was {said[-1][:200]!r}" if said else ""
    name = signal_name(ended.status)
    how = f"by {name}" if name else f"with exit code {ended.status}"
    return f"{what} ended its process {how}{last}"
