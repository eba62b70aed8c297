"""Does the dataset need something that main set up and a new interpreter doesn't have?

Run the loader with workers that get main's globals before they draw a sample. The doctor asks this
if workers that aren't forked raise an error or deliver samples that differ from main's.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.probes.imported import globals_of_main
from dltutor.diagnosis.running import runner
from dltutor.diagnosis.running.subject import Subject


@dataclass(frozen=True)
class Imported:
    """The result of a run whose workers, in new interpreters, got main's globals.

    Args:
        end: How the run ended, as in `Measures.end`.
        unlike: How many samples arrived that the run without workers doesn't have, or 0 if there's
            no such run to compare with.
        batches: How many batches arrived.
        names: The globals and class attributes whose values had differed in the workers.
    """

    end: str
    unlike: int = 0
    batches: int = 0
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.end not in ("finished", "enough"):
            how = _ENDED.get(self.end, self.end)
            return f"Even with main's globals, workers in new interpreters {how}."
        if self.unlike:
            return f"Even with main's globals, {self.unlike} samples differed from main's."
        return f"With main's globals, the workers ran, and {self.batches} batches arrived."


_ENDED: Final = {
    "raised": "raised an error",
    "hung": "hung",
    "worker died": "died",
    "main died": "ended main",
}


def needed(evidence: Evidence) -> bool:
    """Return whether workers misbehave in new interpreters, but work well if they're forked."""
    return evidence.forked is not None and evidence.forked.well


def ask(subject: Subject) -> Imported:
    """Run the loader for one epoch, with workers that get main's globals when they start."""
    alone = subject.known.alone if subject.known is not None else None
    folder = tempfile.mkdtemp()
    subject.in_workers(before=globals_of_main.Given(globals_of_main.packed(subject), folder))
    given = runner.run(subject, seconds=4.0, epochs=1, own_loop=True)
    names = {line for path in Path(folder).glob("*") for line in path.read_text().splitlines()}
    unlike = alone.lacks(given) if alone else 0
    return Imported(given.end, unlike, given.batches, tuple(sorted(names)))


EXPERIMENT: Final = probe("imported", 14.0, needed, ask)
