"""Does the loop come out the same without workers?

Run the training loop twice with workers and twice without, always with the same random numbers.
Compare what the loop returns and prints, and which values in the dataset, in its class, and in the
globals of its code change.
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.measures import Measures
from dltutor.diagnosis.objects.digests import digest
from dltutor.diagnosis.objects.walking import snapshot
from dltutor.diagnosis.running import forks, runner
from dltutor.diagnosis.running.random_states import hold_draws
from dltutor.diagnosis.running.small_loaders import where_samples_are_drawn
from dltutor.diagnosis.running.subject import Subject, Unanswered
from dltutor.observation.foreign import attributes_of, is_a

_RUN: Final = 2.5  # the most seconds for each run

#: What a loop returned and printed, the digests of its samples in each epoch, and by path, the
#: digest and the repr of each value in the dataset afterward.
Outcome = tuple[str, tuple[tuple[str, ...], ...], dict[str, tuple[str, str]]]


@dataclass(frozen=True)
class State:
    """A comparison of what a training loop does with workers and without.

    Args:
        steady: Whether the outcome is the same in both runs with workers, and in both without.
            False if the loop changed nothing.
        same: Whether the outcome is the same with workers and without.
        content: Whether each epoch has the same samples with workers and without, in any order, or
            the dataset is a stream. False if the loop changed nothing.
        paths: Up to four values that changed only without workers, each as (path, with workers,
            without).
        with_workers: What the loop returned and printed with workers, shortened.
        without: What the loop returned and printed without workers, shortened.
    """

    steady: bool = False
    same: bool = True
    content: bool = False
    paths: tuple[tuple[str, str, str], ...] = ()
    with_workers: str = ""
    without: str = ""

    def __str__(self) -> str:
        if not self.steady:
            return "Can't tell, because nothing changed or two runs of the same kind differ."
        if self.same:
            return "It does."
        return f"It doesn't: `{self.paths[0][0]}` differs." if self.paths else "It doesn't."


def needed(evidence: Evidence) -> bool:
    """Return whether a loop may end, return, or print differently without workers."""
    if not evidence.parts.loop or evidence.parts.workers == 0:
        return False
    run, alone = evidence.run, evidence.alone
    if alone is None or alone.end != "finished" or run.end not in ("finished", "raised"):
        return False
    if run.end == "raised":
        return run.raised is None and run.kind not in ("RuntimeError", "")
    if evidence.parts.stream:
        other = run.lacks(alone) > 0
    else:
        other = _sorted(run.passes) != _sorted(alone.passes)
    if other:  # other samples explain another result, unless they're random
        return evidence.samples is not None and evidence.samples.random > 0
    return not run.result or run.result != alone.result


def ask(subject: Subject) -> State:
    """Run the loop twice with workers and twice without, and compare what it does.

    If the first run, without workers, changes nothing in the dataset, in its class, or in the
    globals of its code, don't run the others.
    """
    before = _values(subject)
    without = _run(subject, workers=False)
    changed = [
        path
        for path, (content, _) in without[2].items()
        if path in before and before[path][0] != content
    ]
    if not changed:
        return State()
    along = _run(subject, workers=True)
    again = _run(subject, workers=True), _run(subject, workers=False)
    lost = [path for path in changed if along[2].get(path, ("", ""))[0] == before[path][0]]
    return State(
        steady=along[0] == again[0][0] and without[0] == again[1][0],
        same=along[0] == without[0],
        content=_sorted(along[1]) == _sorted(without[1]) or subject.stream,
        paths=tuple((path, along[2][path][1], without[2][path][1]) for path in lost[:4]),
        with_workers=along[0][:120],
        without=without[0][:120],
    )


def _sorted(passes: tuple[tuple[str, ...], ...]) -> list[list[str]]:
    return [sorted(each) for each in passes]


def _run(subject: Subject, *, workers: bool) -> Outcome:
    outcome = forks.attempt(partial(_ran, subject, workers), 2 * _RUN + 1)
    if outcome is None:
        raise Unanswered(f"your loop takes longer than {_RUN:.1f} s, or doesn't run in a fork")
    return outcome


def _ran(subject: Subject, workers: bool) -> Outcome | None:
    if not workers:
        subject.change(num_workers=0)
    where_samples_are_drawn(subject, lambda worker: hold_draws(subject.dataset))
    with tempfile.TemporaryFile() as printed:
        sys.stdout.flush()
        os.dup2(printed.fileno(), 1)
        ran = runner.run(subject, seconds=_RUN)
        if ran.end == "enough":
            return None  # the loop didn't get to its result
        sys.stdout.flush()
        printed.seek(0)
        said = printed.read(20_000).decode(errors="replace").strip()
    return _outcome(ran, said), ran.contents, _values(subject)


def _outcome(ran: Measures, said: str) -> str:
    parts = [ran.returned, said, "" if ran.well else f"{ran.kind}: {ran.error}"]
    known = "; ".join(part for part in parts if part)
    return known if len(known) < 100 else f"{known[:60]} ... {ran.result} {digest(said)}"


def _values(subject: Subject) -> dict[str, tuple[str, str]]:
    found = snapshot(subject.dataset, _value)
    for name, value in attributes_of(type(subject.dataset)).items():
        if is_a(value, (int, float, str)) and not name.startswith("__"):
            path = f"{type(subject.dataset).__name__}.{name}"
            found[path] = (digest(value), repr(value)[:40])
    return found


def _value(thing: Any) -> tuple[str, str] | None:
    if is_a(thing, (int, float, str, bool, torch.Tensor)):
        return digest(thing), repr(thing)[:40]
    if is_a(thing, (list, dict, set)):
        size = f"{len(thing)} elements"
        return f"{size} {digest(thing)}", size
    return None


EXPERIMENT: Final = probe("state", 16.0, needed, ask)
