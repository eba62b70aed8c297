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
from dltutor.lessons.engine.outcomes import Result, correct, not_yet
from dltutor.lessons.engine.running import theirs
from dltutor.lessons.lesson_06 import travel
from dltutor.lessons.lesson_06.material import MyClips
from dltutor.observation.time_limits import deadline

CLIPS: Final = 24
_SEED: Final = 11
_READ: Final = (*reversed(range(CLIPS)), *range(CLIPS))  # by each loader, once main has read all


class Changed(Exception):
    """Raised in a worker: the answer changed what is not its own."""


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
            "the global random numbers of torch": torch.get_rng_state().numpy().tobytes(),
            "the global random numbers of numpy": pickle.dumps(np.random.get_state()),
            "the global random numbers of Python": pickle.dumps(random.getstate()),
            "the file of clips": hash(self.file.read_bytes()),
        }


@dataclass(frozen=True)
class Evidence:
    """What is known of an answer."""

    length: int  # as `len` says it
    problem: str = ""  # why the dataset cannot be pickled
    changed: str = ""  # what it changed that is not its own
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
        evidence = Evidence(length, problem, watch.changed())
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
            evidence = replace(evidence, changed=f"{what} in a worker, {epoch.where}")
        judge(evidence)  # ends here where it is not right
    return evidence


def _sample(clip: torch.Tensor, index: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(10_000 * _SEED + index)
    noisy = clip + 0.1 * torch.randn(clip.shape, generator=g)
    return noisy / noisy.abs().max()


def judge(evidence: Evidence) -> Result:
    """Correct if the task's samples arrive everywhere."""
    if evidence.problem:
        question = "Which kind of function can be found by its name?"
        not_yet(f"the dataset cannot be pickled: {evidence.problem} {question}")
    if evidence.length != CLIPS:
        not_yet(f"the file holds {CLIPS} clips, and `len(dataset)` is {evidence.length}.")
    if evidence.changed:
        not_yet(
            "importing the file, making the dataset, reading or unpickling it changed "
            f"{evidence.changed}. Others use that as well. What can your dataset have of its own?"
        )
    for epoch in evidence.epochs:
        travel.arrived(epoch)
    if evidence.wrong:
        loudest = evidence.wrong[0]
        compared = "as" if isclose(loudest, 1, abs_tol=1e-4) else "not 1 as"
        silent = "" if isfinite(loudest) else " (this clip is silent: all zeros)"
        not_yet(
            f"in main, {len(evidence.wrong)} of {CLIPS} samples are not the clip with the task's "
            f"noise, scaled. In the first of them, the loudest value is {loudest:.4f}{silent}, "
            f"{compared} in the starter. How is the noise of each sample made, and what is scaled?"
        )
    for epoch in evidence.epochs:
        if epoch.wrong:
            not_yet(
                f"read in main for the first time, each sample is right. Read {epoch.where}, from "
                f"the last to the first and once more, {epoch.wrong} of {len(_READ)} are not. What "
                "changes while you read, or is different in another process?"
            )
    return correct(
        f"{CLIPS} of {CLIPS} samples are the task's with 0, 2 and 4 workers under fork and with "
        "one under spawn, in either order, and the global random numbers are as they were."
    )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=lambda answer: travel.a_fixed_file(answer, MyClips),
    runs="makes your class on fresh clips, with 1 spawned and 2 and 4 forked workers",
    at_most=travel.AT_MOST,
)
