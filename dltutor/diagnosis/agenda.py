"""List the doctor's experiments in their order. Each one asks a question about a loader."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from dltutor.diagnosis import probes
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.interventions import INTERVENTIONS

# Each is the name of an experiment in interventions.py, or of a module in `probes`.
_QUESTIONS: Final = (
    *("parts", "samples", "handles", "run", "waits", "untimed", "one_thread", "recomputed"),
    *("alone", "stayed", "views"),
    *("any_order", "threads", "workerless", "fetched", "reordered", "reseeded", "in_turn"),
    *("repeated", "seeded", "seeded_again", "called_again", "called_alone", "copied"),
    *("lighter", "arrays", "nothing_kept", "more_files", "culprit", "in_workers", "leftovers"),
    *("not_kept", "one_iterator", "sending", "pinned"),
    *("segments", "ahead", "memory", "ending", "twice", "copies", "repeats", "shares"),
    *("repeats_of_stream", "epochs", "state", "order", "displaced", "while_held", "travel"),
    *("forked", "imported", "two_ranks", "made_as_rank", "new_interpreter"),
)


@cache
def experiments() -> tuple[Experiment, ...]:
    """Return the experiments that the doctor may run on a loader, in their order."""
    runs = {each.field: each for each in INTERVENTIONS}
    return tuple(
        runs[name] if name in runs else import_module(f"{probes.__name__}.{name}").EXPERIMENT
        for name in _QUESTIONS
    )
