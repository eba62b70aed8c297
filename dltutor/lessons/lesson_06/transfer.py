"""Grade "06.transfer": clips of sound with noise, for forked workers and for a new interpreter.

The check's clips begin with a click of -1000, the loudest value whatever the noise is. So a sample
times 1000, without its clip, is the noise.
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
from dltutor.lessons.lesson_06.material import CLIPS, LENGTH, MyClips
from dltutor.observation.time_limits import deadline

_ALL: Final = range(CLIPS)
_CLICK: Final = 1000.0
_ALIKE: Final = 0.9  # correlation of two samples' noise; by chance it stays below 0.6


@dataclass(frozen=True)
class Evidence:
    """What is known of an answer.

    Args:
        length: What `len` says of a dataset.
        problem: Why it cannot be pickled, or "".
        changed: The library whose global random numbers it changed, or "".
        samples: All samples with seed 5, of silence after the click.
        backwards: The same dataset's, read from the last to the first.
        tones: Those of a second dataset with seed 5, with a tone after the click.
        other: Those with seed 1005.
        zero: Those with seed 0.
        epochs: With workers, up to the first that is not right.
    """

    length: int
    problem: str
    changed: str
    samples: travel.Samples
    backwards: travel.Samples
    tones: travel.Samples
    other: travel.Samples
    zero: travel.Samples
    epochs: tuple[travel.Epoch, ...] = ()


def clips(loud: float) -> torch.Tensor:
    """The clips of a check: a click and a tone, which may be silence."""
    clips = loud * torch.sin(torch.linspace(0, 20, LENGTH)).repeat(CLIPS, 1)
    clips[:, 0] = -_CLICK
    return clips


def gather(path: Path) -> Evidence:
    """Use the class in main, then in a new interpreter, then with forked workers."""
    folder = Path(tempfile.mkdtemp())
    for loud in (0, 0.5):
        torch.save(clips(loud), folder / f"{loud}.pt")

    def read(seed: int, loud: float = 0) -> travel.Samples:
        with theirs():
            return travel.read(answer(folder / f"{loud}.pt", seed), _ALL)

    with deadline(travel.IN_MAIN):
        answer, before = travel.class_in(path, "MyClips"), _global_numbers()
        with theirs():
            dataset = answer(folder / "0.pt", 5)
            length = len(dataset)
        _, problem = travel.sent(dataset)
        samples, backwards = travel.read(dataset, _ALL), travel.read(dataset, _ALL[::-1])[::-1]
        after = _global_numbers()
        changed = next((name for name in before if before[name] != after[name]), "")
        others = read(5, 0.5), read(1005), read(0)
    evidence = Evidence(length, problem, changed, samples, backwards, *others)
    _judge_in_main(evidence)
    for method, workers in (("spawn", 1), ("fork", 2), ("fork", 4)):
        epoch = travel.epoch(dataset, _ALL, samples, method, workers)
        evidence = replace(evidence, epochs=(*evidence.epochs, epoch))
        judge(evidence)  # ends here where it is not right
    return evidence


def _global_numbers() -> dict[str, bytes]:
    return {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy": pickle.dumps(np.random.get_state()),
        "Python": pickle.dumps(random.getstate()),
    }


def judge(evidence: Evidence) -> Result:
    """Correct if the same clips arrive everywhere, each with a noise of its own."""
    _judge_in_main(evidence)
    for epoch in evidence.epochs:
        question = "To pickle it, a tensor was made. Does it live until the worker comes for it?"
        travel.arrived(epoch, question)
    if travel.wrong_of(evidence.backwards, evidence.samples):
        not_yet(
            "read from the last to the first, the same dataset gives other samples: the noise "
            "depends on what was drawn before, and each worker draws for itself. What, besides the "
            "seed, does a sample know of itself?"
        )
    for epoch in evidence.epochs:
        if epoch.wrong:
            not_yet(f"{epoch.where}, {epoch.wrong} of {CLIPS} samples are not those of 0 workers.")
    return correct(
        f"{CLIPS} of {CLIPS} clips are the same with 0, 2 and 4 workers under fork and under "
        "spawn; each has a noise of its own, and another seed gives another."
    )


def _judge_in_main(evidence: Evidence) -> None:
    if evidence.problem:
        not_yet(
            f"the dataset cannot be pickled: {evidence.problem} Which kind of function can be "
            "found by its name?"
        )
    if evidence.length != CLIPS:
        not_yet(f"the file holds {CLIPS} clips, and `len(dataset)` is {evidence.length}.")
    if evidence.changed:
        not_yet(
            "making the dataset and reading it, with 0 workers, changed the global random numbers "
            f"of {evidence.changed}. The model and the shuffling draw from these as well. Whose "
            "numbers should the noise be made of?"
        )
    for sample in evidence.samples:
        loudest = float(sample.abs().max())
        if sample.shape != (LENGTH,) or abs(loudest - 1) > 1e-6:
            not_yet(
                f"the loudest value of a sample is {loudest:.4f}, and its shape "
                f"{tuple(sample.shape)}. It was 1.0000 and {(LENGTH,)}: the scaling is part of "
                "the dataset."
            )
    noise, zero = _noise(evidence.samples), _noise(evidence.zero)
    if not noise.any():
        not_yet("the samples are the clips of the file: there is no noise on them any more.")
    numbers = min(len(each.unique()) for each in noise)
    if numbers < LENGTH - 3:  # two of them may happen to be equal
        not_yet(
            f"in a clip of {LENGTH} values, the noise has only {numbers} different numbers. In the "
            "starter, each value of a clip has a random number of its own."
        )
    if not (noise - _noise(evidence.tones, 0.5)).abs().max() < 0.01:
        not_yet(
            "a second dataset, made with the same seed from other clips, has other noise. What "
            "does the noise depend on, besides the seed and the index?"
        )
    for pair in _alike(noise, noise).triu(1).nonzero().tolist():
        not_yet("samples {} and {} have the same noise. What tells them apart?".format(*pair))
    if same := int(_alike(noise, _noise(evidence.other)).diag().sum()):
        not_yet(f"seed 5 and seed 1005 give {same} of {CLIPS} samples the same noise.")
    for pair in _alike(zero, zero).triu(1).nonzero().tolist():
        not_yet("with seed 0, samples {} and {} have the same noise.".format(*pair))
    mean, deviation = float(noise.mean()), float(noise.std())
    if abs(mean) > 0.02 or not 0.08 < deviation < 0.12:
        not_yet(
            f"before the scaling, the noise has a mean of {mean:.3f} and a standard deviation of "
            f"{deviation:.3f}. In the starter these are 0 and 0.1: `0.1 * torch.randn(...)`."
        )


def _noise(samples: travel.Samples, loud: float = 0) -> torch.Tensor:
    return (torch.stack(samples).double() * _CLICK - clips(loud))[:, 1:]


def _alike(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    # Which sample of the one has the noise of which of the other.
    return torch.corrcoef(torch.cat([one, other]))[:CLIPS, CLIPS:].abs() > _ALIKE


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=lambda answer: travel.a_fixed_file(answer, MyClips),
    runs="makes your class on fresh clips, under spawn with 1 worker and under fork with 2 and 4",
    at_most=travel.AT_MOST,
)
