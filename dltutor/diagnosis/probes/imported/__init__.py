"""Does the dataset need something that main set up and a new interpreter doesn't have?

This is asked when workers that aren't forked raise an error or deliver samples that differ from
main's. The loader runs with forked workers, then with new ones that get main's values first.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.measures import Measures
from dltutor.diagnosis.probes.imported import globals_of_main
from dltutor.diagnosis.running import runner
from dltutor.diagnosis.running.subject import Subject

if TYPE_CHECKING:
    from dltutor.diagnosis.evidence import Evidence


@dataclass(frozen=True)
class Imported:
    """How new interpreters do as workers once they are given main's globals.

    Args:
        forked: How a run with forked workers ended.
        forked_unlike: How many of its samples differed from those without workers.
        new: How a run ended with new workers that were given main's globals; "" if none was made.
        new_unlike: How many of its samples differed.
        new_batches: How many batches came.
        names: The globals and class attributes that were different in the worker.
    """

    forked: str
    forked_unlike: int = 0
    new: str = ""
    new_unlike: int = 0
    new_batches: int = 0
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        new = f". New workers that got main's globals: {self.new}" if self.new else ""
        return f"Forked workers: {self.forked}{new}."


def needed(evidence: Evidence) -> bool:
    """Ask if new workers behave differently from main."""
    if evidence.parts.method not in ("spawn", "forkserver"):
        return False
    run, alone, samples = evidence.run, evidence.alone, evidence.samples
    if alone is None or not alone.well or samples is None or samples.ended or samples.failed:
        return False
    if run.end == "raised":
        return run.raised is not None
    return run.well and not samples.random and not samples.again and unlike(run, alone) > 0


def unlike(run: Measures, alone: Measures) -> int:
    """Count the samples of the first pass that don't appear without workers."""
    if not run.drawn or not alone.drawn:
        return 0
    mine, own = run.drawn[0], set(alone.drawn[0])
    whole = alone.finished[:1] == (True,)
    return sum(each not in own for each in mine) if whole and own else 0


def ask(subject: Subject) -> Imported:
    """Run it twice, one pass each time."""
    known = subject.known
    alone = known.alone if known is not None else None
    method = subject.method
    packed = globals_of_main.packed(subject)
    own = subject.inner.worker_init_fn
    subject.change(method="fork")
    forked = runner.run(subject, seconds=2.0, patience=3.0, epochs=1, own_loop=True)
    subject.change(method=method)
    if not forked.well:
        return Imported(forked=forked.end, new="")
    folder = tempfile.mkdtemp()
    subject.change(worker_init_fn=globals_of_main.Given(packed, folder, own))
    given = runner.run(subject, seconds=4.0, epochs=1, own_loop=True)
    names = sorted(
        {line for path in Path(folder).glob("*") for line in path.read_text().splitlines()}
    )
    return Imported(
        forked=forked.end,
        forked_unlike=unlike(forked, alone) if alone else 0,
        new=given.end,
        new_unlike=unlike(given, alone) if alone else 0,
        new_batches=given.batches,
        names=tuple(names),
    )


EXPERIMENT: Final = probe("imported", 14.0, needed, ask)
