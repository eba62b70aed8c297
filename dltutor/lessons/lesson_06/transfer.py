"""Grade "06.transfer", which asks for the same noisy sound clips from every process.

The task says how to make each sample, so a sample has the same values in every process and order.
"""

from __future__ import annotations

import pickle
import random
import tempfile
from dataclasses import dataclass
from math import isclose, isfinite
from pathlib import Path
from typing import Final

import numpy as np
import torch

from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.outcomes import Result, correct, not_yet
from dltutor.lessons.engine.running import theirs
from dltutor.lessons.lesson_06 import travel
from dltutor.lessons.lesson_06.helpers import MyClips
from dltutor.observation.time_limits import deadline

CLIPS: Final = 24
_SEED: Final = 11
_READ: Final = (*reversed(range(CLIPS)), *range(CLIPS))  # the indices that each loader reads


@dataclass(frozen=True)
class Evidence:
    """A record of the samples that an answer delivered.

    Args:
        wrong: The loudest value of each sample that's wrong in main.
        epochs: The epochs with and without workers, up to the first wrong epoch.
    """

    wrong: tuple[float, ...]
    epochs: tuple[travel.Epoch, ...]


def gather(path: Path) -> Evidence:
    """Read samples from the learner's `MyClips` in main, and then by loaders.

    The loaders have a spawned worker, no worker, and forked workers. The first one whose samples
    are wrong is the last one.

    Args:
        path: The file with the learner's class.

    Raises:
        Rejected: The class doesn't work in main, or can't be sent to a worker.
    """
    file = Path(tempfile.mkdtemp()) / "clips.pt"
    tone = torch.sin(torch.arange(1000) / 5) + 0.5
    # The first clip is silent, the next clips get louder, and the loudest value is below zero.
    clips = torch.linspace(0, -5, CLIPS)[:, None] * tone
    torch.save(clips, file)
    expected = [_sample(clip, index) for index, clip in enumerate(clips)]
    before = _global_numbers()
    with deadline(travel.IN_MAIN):
        answer = travel.class_in(path, "MyClips")
        with theirs():
            dataset = answer(file, _SEED)
            length = len(dataset)
        travel.sent(dataset)
        if length != CLIPS:
            not_yet("other-length", clips=CLIPS, length=length)
        samples = travel.read(dataset, range(CLIPS), f"torch.float32, ({len(tone)},)")
    for name, now in _global_numbers().items():
        if now != before[name]:
            not_yet("changed", what=name)
    pairs = zip(samples, expected, strict=True)
    wrong = [float(one.abs().max()) for one, right in pairs if travel.wrong_of([one], [right])]
    expected = [expected[index] for index in _READ]
    epochs: list[travel.Epoch] = []
    for method, workers in (("spawn", 1), ("fork", 0), ("fork", 2), ("fork", 4)):
        epochs.append(travel.epoch(dataset, _READ, expected, method, workers))
        if wrong or not epochs[-1].is_right():
            break
    return Evidence(tuple(wrong), tuple(epochs))


def _global_numbers() -> dict[str, bytes]:
    return {
        "torch's global random numbers": torch.get_rng_state().numpy().tobytes(),
        "numpy's global random numbers": pickle.dumps(np.random.get_state()),
        "Python's global random numbers": pickle.dumps(random.getstate()),
    }


def _sample(clip: torch.Tensor, index: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(10_000 * _SEED + index)
    noisy = clip + 0.1 * torch.randn(clip.shape, generator=g)
    return noisy / noisy.abs().max()


def judge(evidence: Evidence) -> Result:
    """Accept the answer if the samples are right in every process."""
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
