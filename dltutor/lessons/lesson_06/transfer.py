"""Grade "06.transfer": clips of sound with noise, for forked workers and for a new interpreter.

The task says how each sample is made, so each has one value, in every process and order.
"""

from __future__ import annotations

import pickle
import random
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from math import isclose, isfinite
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import default_collate, get_worker_info

from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.outcomes import Fault, Result, correct, fault, not_yet, reject
from dltutor.lessons.engine.running import theirs
from dltutor.lessons.lesson_06 import travel
from dltutor.lessons.lesson_06.material import MyClips
from dltutor.observation.time_limits import deadline

CLIPS: Final = 24
_SEED: Final = 11
_READ: Final = (*reversed(range(CLIPS)), *range(CLIPS))  # by each loader, once main has read all


class Changed(Exception):
    """Raised in a worker: the answer changed something that others use too."""


class _Watch:
    # The file, and the global random numbers of main, or of the worker in which it begins anew.
    def __init__(self, file: Path) -> None:
        self.file = file
        self.begin()

    def begin(self, worker: int = 0) -> None:
        self.before = self._now()

    def changed(self) -> str:
        return next((name for name, now in self._now().items() if now != self.before[name]), "")

    def collate(self, samples: travel.Samples) -> Any:
        if get_worker_info() and (changed := self.changed()):
            raise Changed(changed)
        return default_collate(samples)

    def _now(self) -> dict[str, object]:
        return {  # less than the 64 KB of a pipe: main hangs where a worker dies before it has all
            "torch's global random numbers": torch.get_rng_state().numpy().tobytes(),
            "numpy's global random numbers": pickle.dumps(np.random.get_state()),
            "Python's global random numbers": pickle.dumps(random.getstate()),
            "the file of clips": hash(self.file.read_bytes()),
        }


@dataclass(frozen=True)
class Evidence:
    """What is known of an answer."""

    length: int  # as `len` says it
    problem: Fault | None = None  # why the dataset can't be pickled
    changed: Fault | None = None  # what it changed that others use too
    wrong: tuple[float, ...] = ()  # of each sample that is wrong in main, its loudest value
    epochs: tuple[travel.Epoch, ...] = ()  # up to the first that is not right


def gather(path: Path) -> Evidence:
    """Use the class in main, then in a new interpreter, then with forked workers."""
    file = Path(tempfile.mkdtemp()) / "clips.pt"
    tone = torch.sin(torch.arange(1000) / 5) + 0.5
    clips = torch.linspace(0, -5, CLIPS)[:, None] * tone  # silent, then louder, loudest below zero
    torch.save(clips, file)
    expected = [_sample(clip, index) for index, clip in enumerate(clips)]
    watch = _Watch(file)
    with deadline(travel.IN_MAIN):
        answer = travel.class_in(path, "MyClips")
        with theirs():
            dataset = answer(file, _SEED)
            length = len(dataset)
        _, problem = travel.sent(dataset)
        samples = travel.read(dataset, range(CLIPS), f"torch.float32, ({len(tone)},)")
        changed = watch.changed()
        evidence = Evidence(length, problem, fault("changed", what=changed) if changed else None)
    judge(evidence)
    pairs = zip(samples, expected, strict=True)
    wrong = [float(one.abs().max()) for one, right in pairs if travel.wrong_of([one], [right])]
    evidence = replace(evidence, wrong=tuple(wrong))
    expected = [expected[index] for index in _READ]
    epoch_of = partial(travel.epoch, worker_init_fn=watch.begin, collate_fn=watch.collate)
    for method, workers in (("spawn", 1), ("fork", 0), ("fork", 2), ("fork", 4)):
        epoch = epoch_of(dataset, _READ, expected, method, workers)
        evidence = replace(evidence, epochs=(*evidence.epochs, epoch))
        if epoch.run.kind == Changed.__name__:
            what = epoch.run.message.partition(": ")[2]
            changed_there = fault("changed-in-worker", what=what, where=epoch.where)
            evidence = replace(evidence, changed=changed_there)
        judge(evidence)  # ends here where it is not right
    return evidence


def _sample(clip: torch.Tensor, index: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(10_000 * _SEED + index)
    noisy = clip + 0.1 * torch.randn(clip.shape, generator=g)
    return noisy / noisy.abs().max()


def judge(evidence: Evidence) -> Result:
    """Correct if the task's samples arrive everywhere."""
    if evidence.problem:
        reject(evidence.problem)
    if evidence.length != CLIPS:
        not_yet("other-length", clips=CLIPS, length=evidence.length)
    if evidence.changed:
        reject(evidence.changed)
    for epoch in evidence.epochs:
        travel.arrived(epoch)
    if evidence.wrong:
        loudest = evidence.wrong[0]
        code = "wrong-scale" if isfinite(loudest) else "scaled-silence"
        if isclose(loudest, 1, abs_tol=1e-4):
            code = "wrong-noise"
        not_yet(code, wrong=len(evidence.wrong), clips=CLIPS, loudest=f"{loudest:.4f}")
    for epoch in evidence.epochs:
        if epoch.wrong:
            not_yet("wrong-later", where=epoch.where, wrong=epoch.wrong, read=len(_READ))
    return correct(clips=CLIPS)


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=lambda answer: travel.a_fixed_file(answer, MyClips),
    at_most=travel.AT_MOST,
)
