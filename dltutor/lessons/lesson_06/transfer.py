"""Grade "06.transfer": clips of sound with noise, for forked workers and for a new interpreter.

The task says how each sample is made, so each has one value, in every process and order.
"""

from __future__ import annotations

import pickle
import random
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import torch

from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.outcomes import Result, correct, not_yet
from dltutor.lessons.kit.running import theirs
from dltutor.lessons.lesson_06 import travel
from dltutor.lessons.lesson_06.material import MyClips
from dltutor.observation.time_limits import deadline

CLIPS: Final = 24
_SEED: Final = 11
_READ: Final = (*reversed(range(CLIPS)), *range(CLIPS))  # by each loader, once main has read all


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
    before = _not_its_own(file)
    with deadline(travel.IN_MAIN):
        answer = travel.class_in(path, "MyClips")
        with theirs():
            dataset = answer(file, _SEED)
            length = len(dataset)
        _, problem = travel.sent(dataset)
        samples = travel.read(dataset, range(CLIPS), f"torch.float32, ({len(tone)},)")
        after = _not_its_own(file)
    changed = next((name for name in before if before[name] != after[name]), "")
    evidence = Evidence(length, problem, changed)
    judge(evidence)
    pairs = zip(samples, expected, strict=True)
    wrong = [float(one.abs().max()) for one, right in pairs if travel.wrong_of([one], [right])]
    evidence = replace(evidence, wrong=tuple(wrong))
    expected = [expected[index] for index in _READ]
    for method, workers in (("spawn", 1), ("fork", 0), ("fork", 2), ("fork", 4)):
        epoch = travel.epoch(dataset, _READ, expected, method, workers)
        evidence = replace(evidence, epochs=(*evidence.epochs, epoch))
        judge(evidence)  # ends here where it is not right
    return evidence


def _sample(clip: torch.Tensor, index: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(10_000 * _SEED + index)
    noisy = clip + 0.1 * torch.randn(clip.shape, generator=g)
    return noisy / noisy.abs().max()


def _not_its_own(file: Path) -> dict[str, bytes]:
    return {
        "the global random numbers of torch": torch.get_rng_state().numpy().tobytes(),
        "the global random numbers of numpy": pickle.dumps(np.random.get_state()),
        "the global random numbers of Python": pickle.dumps(random.getstate()),
        "the file of clips": file.read_bytes(),
    }


def judge(evidence: Evidence) -> Result:
    """Correct if the task's samples arrive everywhere."""
    if evidence.problem:
        question = "Which kind of function can be found by its name?"
        not_yet(f"the dataset cannot be pickled: {evidence.problem} {question}")
    if evidence.length != CLIPS:
        not_yet(f"the file holds {CLIPS} clips, and `len(dataset)` is {evidence.length}.")
    if evidence.changed:
        not_yet(
            "importing the file, making the dataset and reading it, with 0 workers, changed "
            f"{evidence.changed}. The rest of the program uses that as well. What can your dataset "
            "have of its own?"
        )
    for epoch in evidence.epochs:
        travel.arrived(epoch)
    if evidence.wrong:
        not_yet(
            f"in main, {len(evidence.wrong)} of {CLIPS} samples are not the clip with the task's "
            "noise, scaled. (In the first of them, the loudest value is "
            f"{evidence.wrong[0]:.4f}; in the starter it is 1.) How is the noise of each sample "
            "seeded and drawn, and what is scaled?"
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
