"""Grade "06.transfer": clips of sound with noise, for forked workers and for a new interpreter.

Usual clips show the scaling, and are read with workers. Others have a click so loud that noise does
not change it in float32: such a sample times the click, without its clip, is the noise.
"""

from __future__ import annotations

import pickle
import random
import tempfile
from collections.abc import Iterable
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
USUAL: Final = 24  # clips, from a soft one to a loud one, with their loudest value below zero
LENGTH: Final = 64  # values of a clip with a click
SEEDS: Final = (11, 0, 1, 1011, 65547)  # the last has the lower 16 bits of the first
_FEW: Final = range(0, CLIPS, 50)


@dataclass(frozen=True)
class Evidence:
    """What is known of an answer."""

    length: int  # as `len` says it of a dataset of usual clips
    problem: str  # why that cannot be pickled, or ""
    changed: str  # what it changed that is not its own, or ""
    loudest: torch.Tensor  # value of each of its samples
    other: int  # samples that are others when they are read again
    noise: torch.Tensor  # of the clips with a click, for each of `SEEDS`
    elsewhere: torch.Tensor  # the first seed's, on some clips with another click and a tone
    epochs: tuple[travel.Epoch, ...] = ()  # with workers, up to the first that is not right


def gather(path: Path) -> Evidence:
    """Use the class in main, then in a new interpreter, then with forked workers."""
    folder = Path(tempfile.mkdtemp())
    tone = torch.sin(torch.arange(20_000) / 5) + 0.5
    usual = torch.linspace(-0.1, -5, USUAL)[:, None] * tone
    torch.save(usual, folder / "usual.pt")
    before = _not_its_own(folder / "usual.pt")

    def noise(click: float, at: int, tone: float, seed: int, read: Iterable[int]) -> torch.Tensor:
        clips = tone * torch.sin(torch.linspace(0, 20, LENGTH)).repeat(CLIPS, 1)
        clips[:, at] = click
        torch.save(clips, folder / "click.pt")
        with theirs():
            dataset = answer(folder / "click.pt", seed)
        samples = torch.stack(travel.read(dataset, read, f"torch.float32, ({LENGTH},)"))
        return (samples.double() * abs(click) - clips[[*read]])[:, 1:]

    with deadline(travel.IN_MAIN):
        answer = travel.class_in(path, "MyClips")
        with theirs():
            dataset = answer(folder / "usual.pt", SEEDS[0])
            length = len(dataset)
        _, problem = travel.sent(dataset)
        kind = f"torch.float32, ({usual.shape[1]},)"
        samples = travel.read(dataset, range(USUAL), kind)
        again = travel.read(dataset, [*reversed(range(USUAL)), *range(USUAL), *range(USUAL)], kind)
        after = _not_its_own(folder / "usual.pt")
        evidence = Evidence(
            length,
            problem,
            next((name for name in before if before[name] != after[name]), ""),
            torch.stack(samples).abs().amax(1),
            travel.wrong_of(again, samples[::-1] + samples + samples),
            torch.stack([noise(-(2.0**27), 0, 0, seed, range(CLIPS)) for seed in SEEDS]),
            noise(2.0**26, -1, 0.5, SEEDS[0], _FEW),
        )
    _judge_in_main(evidence)
    for method, workers in (("spawn", 1), ("fork", 2), ("fork", 4)):
        epoch = travel.epoch(dataset, range(USUAL), samples, method, workers)
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
        travel.arrived(epoch)
    if evidence.other:
        not_yet(
            "read again, also from the last to the first, the same dataset gives other samples: "
            "something that they are made of changes while you read, and in each worker for itself."
            " Is it a generator, or the clips?"
        )
    if not (evidence.noise[0, _FEW, :-1] - evidence.elsewhere[:, :-1]).abs().max() < 1e-4:
        not_yet(
            "a second dataset, made with the same seed from other clips, has other noise. What "
            "does the noise depend on, besides the seed and the index?"
        )
    for epoch in evidence.epochs:
        if epoch.wrong:
            not_yet(f"{epoch.where}, {epoch.wrong} of {USUAL} samples are not main's.")
    return correct(
        f"{USUAL} of {USUAL} clips are the same with 0, 2 and 4 workers under fork and with one "
        f"under spawn. {CLIPS} clips with {len(SEEDS)} seeds have a noise of their own."
    )


def _judge_in_main(evidence: Evidence) -> None:
    if evidence.problem:
        question = "Which kind of function can be found by its name?"
        not_yet(f"the dataset cannot be pickled: {evidence.problem} {question}")
    if evidence.length != USUAL:
        not_yet(f"the file holds {USUAL} clips, and `len(dataset)` is {evidence.length}.")
    if evidence.changed:
        not_yet(
            "importing the file, making the dataset and reading it, with 0 workers, changed "
            f"{evidence.changed}. The rest of the program uses that as well. What can your dataset "
            "have of its own?"
        )
    off = (evidence.loudest - 1).abs()
    if not off.max() < 1e-6:
        at = int(off.argmax())
        not_yet(
            f"the loudest value of sample {at} is {evidence.loudest[at]:.4f}. In the starter it is "
            "1: each clip is scaled with the noise on it, to its own loudest value."
        )
    noise = evidence.noise
    if not noise.any():
        not_yet("the samples are the clips of the file: there is no noise on them any more.")
    _judge_repeats(noise)
    mean, deviation = float(noise.mean()), float(noise.std())
    tails = float(((noise - mean) ** 4).mean()) / deviation**4
    if abs(mean) > 0.003 or abs(deviation - 0.1) > 0.001 or abs(tails - 3) > 0.05:
        not_yet(
            f"before the scaling, the noise has a mean of {mean:.3f}, a standard deviation of "
            f"{deviation:.3f} and a kurtosis of {tails:.2f}. In the starter these are 0, 0.1 and, "
            "since it is normal, 3: `0.1 * torch.randn(...)`."
        )
    alike = torch.corrcoef(noise.flatten(0, 1).T).fill_diagonal_(0).abs()
    if not alike.max() < 0.1:  # by chance 0.05
        one, two = divmod(int(alike.argmax()), LENGTH - 1)
        not_yet(
            f"values {one + 1} and {two + 1} of the noise go together, with a correlation of "
            f"{alike.max():.1f}. In the starter each value is drawn for itself."
        )


def _judge_repeats(noise: torch.Tensor) -> None:
    # By their sizes: those of a permuted, mirrored or negated noise are the same.
    rows = noise.abs().flatten(0, 1).numpy()
    _, which, times = np.unique(rows, return_inverse=True, return_counts=True)
    repeats = (times[which].reshape(rows.shape) > 1).sum(1)
    if repeats.max() <= LENGTH // 3:  # by chance, float32 repeats a few
        return
    first = int((repeats > LENGTH // 3).argmax())
    shared = np.isin(rows, rows[first]).sum(1)
    shared[first] = LENGTH - 1 - len(np.unique(rows[first]))
    one, other = (
        f"sample {at % CLIPS} with seed {SEEDS[at // CLIPS]}"
        for at in (first, int(shared.argmax()))
    )
    not_yet(
        f"of the {LENGTH - 1} numbers of noise in {one}, {repeats[first]} come again, up to their "
        f"sign: {shared.max()} in {other}. What differs for each seed and each index? (Of a "
        "generator's seed, torch uses the low 32 bits.)"
    )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=lambda answer: travel.a_fixed_file(answer, MyClips),
    runs="makes your class on fresh clips, with 1 spawned and 2 and 4 forked workers",
    at_most=travel.AT_MOST,
)
