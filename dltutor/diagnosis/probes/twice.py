"""Does a sample stay the same when it's drawn twice in a row?

Draw each of a few samples right away, after other samples, and twice in a row, each time in a new
fork. The last draw in each fork uses the same random numbers. Count a sample only if drawing the
sample itself is what changes it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import torch

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.objects.digests import digest
from dltutor.diagnosis.objects.walking import changed, put, snapshot, walk
from dltutor.diagnosis.running import forks
from dltutor.diagnosis.running.random_states import Pins
from dltutor.diagnosis.running.subject import Subject
from dltutor.diagnosis.words import part_of
from dltutor.observation import own_mappings
from dltutor.observation.foreign import is_a, number

_TRIED: Final = 4  # the most samples to try
_FORK: Final = 1.5  # the most seconds for each fork


@dataclass(frozen=True)
class Twice:
    """A count of the samples that change when they're drawn twice in a row.

    Args:
        looked: How many samples were tried.
        own: How many samples came out differently the second time, though the first time doesn't
            depend on what was drawn before.
        paths: The paths of up to three arrays and containers in the dataset that a draw changed.
        files: Up to three files that the dataset maps into memory, and that a draw wrote to.
        index: The index of a sample that came out differently, as its repr, or "" if none did.
        counter: The path of a number that drawing other samples changes, or "" if none was found.
            If the number gets its old value back, the sample is the same again.
    """

    looked: int = 0
    own: int = 0
    paths: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    index: str = ""
    counter: str = ""

    def __str__(self) -> str:
        return part_of(self.own, self.looked, "sample", "change the second time", "do")


def needed(evidence: Evidence) -> bool:
    """Return whether some samples came out differently with the same seeds."""
    return evidence.samples is not None and evidence.samples.again > 0


def ask(subject: Subject) -> Twice:
    """Compare samples drawn right away, after other samples, and twice in a row."""
    order = subject.keys()
    looked = own = 0
    found: list[str] = []
    files: list[str] = []
    first = ""
    for seed, index in enumerate(order[:_TRIED], start=1):
        draw = partial(_last, subject, seed=seed)
        others = [each for each in order[: _TRIED + 2] if each != index]
        with suppress(forks.NoAnswer):
            # Prefer what the first draw changes alone, because a second one may undo it.
            new, paths, wrote = forks.in_fork(partial(draw, [index]), _FORK)
            later, *_ = forks.in_fork(partial(draw, [*others, index]), _FORK)
            again, second, _ = forks.in_fork(partial(draw, [index, index]), _FORK)
            looked += 1
            if new == later != again:
                own += 1
                found = found or paths or second
                files = files or wrote
                first = first or repr(index)
    counter = "" if own else _counter(subject, order)
    return Twice(looked, own, tuple(found[:3]), tuple(files[:3]), first, counter)


def _counter(subject: Subject, order: list[Any]) -> str:
    """Return the path of a number that a draw changes and that samples depend on, or ""."""
    index, others = order[0], order[1 : _TRIED + 2]

    def after_others(path: str = "") -> tuple[str, list[str]]:
        # Draw the others, put the number at the path back if there is one, and draw the sample.
        # Return the sample's digest, and the paths of the numbers that the others changed.
        pins = Pins(subject.dataset)
        before = snapshot(subject.dataset, number)
        number_at = next((each for each in walk(subject.dataset) if each.path == path), None)
        for each in others:
            with pins.held():
                subject.dataset[each]
        paths = changed(before, snapshot(subject.dataset, number))
        if number_at is not None:
            put(number_at)
        with pins.held():
            return digest(subject.dataset[index]), paths

    with suppress(forks.NoAnswer):
        new, *_ = forks.in_fork(partial(_last, subject, [index]), _FORK)
        later, paths = forks.in_fork(after_others, _FORK)
        for path in paths[:3] if later != new else []:
            if forks.in_fork(partial(after_others, path), _FORK)[0] == new:
                return path
    return ""


def _last(subject: Subject, order: list[Any], seed: int = 0) -> tuple[str, list[str], list[str]]:
    # Draw the samples of these indices. Return the last one's digest, the paths in the dataset that
    # any of the draws changed, and the mapped files that any of them wrote to.
    pins = Pins(subject.dataset)
    *others, last = order
    content_of = partial(_content, index=last)
    before = [snapshot(subject.dataset, content_of)]
    for index in others:
        with pins.held(seed=seed + 1):  # other random numbers may change other parts of the data
            subject.dataset[index]
    before.append(snapshot(subject.dataset, content_of))
    with pins.held(seed=seed):
        content = digest(subject.dataset[last])
    after = snapshot(subject.dataset, content_of).items()
    paths = [path for path, each in after if any(then.get(path, each) != each for then in before)]
    return content, paths, own_mappings.written()


def _content(thing: Any, index: Any) -> str | None:
    """Return a digest of an array, or of the element at `index` in a container or a large array.

    Return None for any other thing.
    """
    if is_a(thing, (np.ndarray, torch.Tensor)):
        return digest(thing if thing.nbytes < 1 << 26 else thing[index])
    return digest(thing[index]) if is_a(thing, (list, tuple, dict)) else None


EXPERIMENT: Final = probe("twice", 8.0, needed, ask)
