"""Grade "06.transfer": clips of sound with noise, for forked workers and for a new interpreter.

The check's clips begin with a click so loud that noise does not change it in float32. So a sample
times the click, without its clip, is the noise, to the last bit where the clip is silent.
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

CLIPS: Final = 1200
LENGTH: Final = 64  # values of a clip
SEED: Final = 11
OTHERS: Final = (0, 1, 1011)
_ALL: Final = range(CLIPS)
_SENT: Final = range(0, CLIPS, 50)  # those that are read with workers
_CLICK: Final = 2.0**27


@dataclass(frozen=True)
class Evidence:
    """What is known of an answer.

    Args:
        length: What `len` says of a dataset.
        problem: Why it cannot be pickled, or "".
        changed: What it changed that is not its own, or "".
        samples: All samples with `SEED`, of silence after the click.
        backwards: The same dataset's, read from the last to the first.
        tones: Those of a second dataset with that seed, with a tone after the click.
        others: Those with each of `OTHERS`.
        epochs: With workers, up to the first that is not right.
    """

    length: int
    problem: str
    changed: str
    samples: travel.Samples
    backwards: travel.Samples
    tones: travel.Samples
    others: tuple[travel.Samples, ...]
    epochs: tuple[travel.Epoch, ...] = ()


def clips(loud: float) -> torch.Tensor:
    """The clips of a check: a click and a tone, which may be silence."""
    clips = loud * torch.sin(torch.linspace(0, 20, LENGTH)).repeat(CLIPS, 1)
    clips[:, 0] = -_CLICK
    return clips


def gather(path: Path) -> Evidence:
    """Use the class in main, then in a new interpreter, then with forked workers."""
    silence, tones = (Path(tempfile.mkdtemp()) / "clips.pt" for _ in range(2))
    torch.save(clips(0), silence)
    torch.save(clips(0.5), tones)
    before = _not_its_own(silence)

    def read(file: Path, seed: int) -> travel.Samples:
        with theirs():
            dataset = answer(file, seed)
        return travel.read(dataset, _ALL)

    with deadline(travel.IN_MAIN):
        answer = travel.class_in(path, "MyClips")
        with theirs():
            dataset = answer(silence, SEED)
            length = len(dataset)
        _, problem = travel.sent(dataset)
        samples, backwards = travel.read(dataset, _ALL), travel.read(dataset, _ALL[::-1])[::-1]
        after = _not_its_own(silence)
        changed = next((name for name in before if before[name] != after[name]), "")
        again, others = read(tones, SEED), tuple(read(silence, seed) for seed in OTHERS)
    evidence = Evidence(length, problem, changed, samples, backwards, again, others)
    _judge_in_main(evidence)
    for method, workers in (("spawn", 1), ("fork", 2), ("fork", 4)):
        epoch = travel.epoch(dataset, _SENT, samples[:: _SENT.step], method, workers)
        evidence = replace(evidence, epochs=(*evidence.epochs, epoch))
        judge(evidence)  # ends here where it is not right
    return evidence


def _not_its_own(file: Path) -> dict[str, bytes]:
    return {
        "the global random numbers of torch": torch.get_rng_state().numpy().tobytes(),
        "the global random numbers of numpy": pickle.dumps(np.random.get_state()),
        "the global random numbers of Python": pickle.dumps(random.getstate()),
        "the file of clips": file.read_bytes(),
    }


def judge(evidence: Evidence) -> Result:
    """Correct if the same clips arrive everywhere, each with a noise of its own."""
    _judge_in_main(evidence)
    for epoch in evidence.epochs:
        question = "To pickle it, a tensor was made. Does it live until the worker comes for it?"
        travel.arrived(epoch, question)
    if travel.wrong_of(evidence.backwards, evidence.samples):
        not_yet(
            "read a second time, from the last to the first, the same dataset gives other samples: "
            "something that they are made of changes while you read, and in each worker for itself."
            " Is it a generator, or the clips?"
        )
    for epoch in evidence.epochs:
        if epoch.wrong:
            not_yet(f"{epoch.where}, {epoch.wrong} of {len(_SENT)} samples are not main's.")
    return correct(
        f"{len(_SENT)} of {len(_SENT)} clips are the same with 0, 2 and 4 workers under fork and "
        f"with one under spawn. {CLIPS} clips with {1 + len(OTHERS)} seeds have a noise of their "
        "own."
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
            "importing the file, making the dataset and reading it, with 0 workers, changed "
            f"{evidence.changed}. Others use that as well: the model and the shuffling draw from "
            "the global random numbers. What can your dataset have of its own?"
        )
    for sample in evidence.samples:
        loudest, kind = float(sample.abs().max()), f"{sample.dtype}, {tuple(sample.shape)}"
        if kind != f"torch.float32, {(LENGTH,)}" or abs(loudest - 1) > 1e-6:
            not_yet(
                f"a sample is {kind}, and its loudest value {loudest:.4f}. It was torch.float32, "
                f"{(LENGTH,)} and 1.0000: the scaling is part of the dataset."
            )
    noise = _noise(evidence.samples)
    if not noise.any():
        not_yet("the samples are the clips of the file: there is no noise on them any more.")
    if not (noise - _noise(evidence.tones, 0.5)).abs().max() < 0.01:
        not_yet(
            "a second dataset, made with the same seed from other clips, has other noise. What "
            "does the noise depend on, besides the seed and the index?"
        )
    _judge_repeats(torch.stack([noise, *map(_noise, evidence.others)]))
    mean, deviation = float(noise.mean()), float(noise.std())
    tails = float(((noise - mean) ** 4).mean()) / deviation**4
    if abs(mean) > 0.003 or not 0.098 < deviation < 0.102 or not 2.8 < tails < 3.2:
        not_yet(
            f"before the scaling, the noise has a mean of {mean:.3f}, a standard deviation of "
            f"{deviation:.3f} and a kurtosis of {tails:.1f}. In the starter these are 0, 0.1 and, "
            "since it is normal, 3: `0.1 * torch.randn(...)`."
        )


def _judge_repeats(noise: torch.Tensor) -> None:
    # By their sizes: those of a permuted, mirrored or negated noise are the same.
    rows = noise.abs().flatten(0, 1).numpy()
    _, which, times = np.unique(rows, return_inverse=True, return_counts=True)
    repeats = (times[which].reshape(rows.shape) > 1).sum(-1)
    if repeats.max() <= LENGTH // 3:  # by chance, float32 repeats a few
        return
    first = int((repeats > LENGTH // 3).argmax())
    shared = np.isin(rows, rows[first]).sum(-1)
    shared[first] = LENGTH - 1 - len(np.unique(rows[first]))
    one, other = (
        f"sample {at % CLIPS} with seed {(SEED, *OTHERS)[at // CLIPS]}"
        for at in (first, int(shared.argmax()))
    )
    not_yet(
        f"of the {LENGTH - 1} numbers of noise in {one}, {repeats[first]} come again, up to their "
        f"sign: {shared.max()} in {other}. What differs for each seed and each index?"
    )


def _noise(samples: travel.Samples, loud: float = 0) -> torch.Tensor:
    return (torch.stack(samples).double() * _CLICK - clips(loud))[:, 1:]


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=lambda answer: travel.a_fixed_file(answer, MyClips),
    runs="makes your class on fresh clips, with 1 spawned and 2 and 4 forked workers",
    at_most=travel.AT_MOST,
)
