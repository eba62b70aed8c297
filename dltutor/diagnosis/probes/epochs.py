"""Do persistent workers see what main changes between epochs?

Run the same epochs with persistent workers, with fresh workers, and without workers. The order and
all random numbers are the same in each run, so any difference comes from what main, or a worker
that stays, changed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.objects.digests import digest
from dltutor.diagnosis.objects.walking import changed, snapshot
from dltutor.diagnosis.running import forks, runner
from dltutor.diagnosis.running.random_states import hold_draws
from dltutor.diagnosis.running.small_loaders import where_samples_are_drawn
from dltutor.diagnosis.running.subject import Subject
from dltutor.diagnosis.words import part_of
from dltutor.observation.foreign import is_a

_RUN: Final = 2.5  # the most seconds for each run

Passes = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Epochs:
    """A comparison of epochs with persistent workers, with fresh workers, and without workers.

    Args:
        looked: How many samples were compared, all from epochs after the first.
        stale: How many compared samples differ between persistent workers and fresh workers.
        arrived: How many compared samples are the same with fresh workers and without workers, or
            all of them for a stream.
        moved: How many compared samples from fresh workers differ from those in the first epoch.
        first: Whether the first epoch is the same with persistent and with fresh workers.
        by: What changes the dataset between epochs, "set_epoch" or "the loop".
        paths: The paths of up to three values that main changed in the dataset.
    """

    looked: int = 0
    stale: int = 0
    arrived: int = 0
    moved: int = 0
    first: bool = False
    by: str = ""
    paths: tuple[str, ...] = ()

    def __str__(self) -> str:
        return part_of(
            self.stale, self.looked, "sample", "don't match the epoch", "show that they do"
        )


def needed(evidence: Evidence) -> bool:
    """Return whether workers are persistent and main may change the dataset between epochs."""
    if not evidence.parts.persistent or not evidence.run.well:
        return False
    return (
        len(evidence.run.passes) > 1 if evidence.parts.loop else "dataset" in evidence.parts.hooks
    )


def ask(subject: Subject) -> Epochs:
    """Compare epochs with persistent workers, with fresh workers, and without workers."""
    settings: tuple[dict[str, Any], ...] = (
        {"persistent_workers": True},
        {"persistent_workers": False},
        {"num_workers": 0},
    )
    (kept, _), (fresh, paths), (alone, _) = (
        forks.in_fork(partial(_run, subject, each), 2 * _RUN + 1) for each in settings
    )
    count = min(len(kept), len(fresh), len(alone))
    later = range(1, count)
    unlike = _out_of_place if subject.stream else _unlike
    return Epochs(
        looked=sum(len(fresh[each]) for each in later),
        stale=sum(unlike(kept[each], fresh[each]) for each in later),
        arrived=sum(
            len(fresh[each]) - (0 if subject.stream else _unlike(fresh[each], alone[each]))
            for each in later  # don't compare a stream, whose order is different without workers
        ),
        moved=sum(unlike(fresh[each], fresh[0]) for each in later),
        first=count > 0 and not unlike(kept[0], fresh[0]),
        by="set_epoch" if subject.loop is None else "the loop",
        paths=tuple(paths[:3]),
    )


def _run(subject: Subject, settings: dict[str, Any]) -> tuple[Passes, list[str]]:
    subject.change(**settings)
    where_samples_are_drawn(subject, lambda worker: hold_draws(subject.dataset))
    before = snapshot(subject.dataset, _content)
    ran = runner.run(subject, seconds=_RUN, epochs=subject.epochs_to_run, set_epochs=True)
    return ran.whole, changed(before, snapshot(subject.dataset, _content))


def _content(thing: Any) -> str | None:
    # Look only at plain values and tensors, because a loop hardly ever sets anything else.
    return digest(thing) if is_a(thing, (int, float, str, bool, torch.Tensor)) else None


def _unlike(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    return (Counter(one) - Counter(other)).total()


def _out_of_place(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    return sum(a != b for a, b in zip(one, other, strict=False)) + abs(len(one) - len(other))


EXPERIMENT: Final = probe("epochs", 16.0, needed, ask)
