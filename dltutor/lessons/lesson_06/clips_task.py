"""The exercise "06.transfer": clips of sound with noise, for new interpreters."""

from __future__ import annotations

import random
import tempfile
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import Dataset

from dltutor.lessons.kit.answers import a_mended_class, wrong
from dltutor.lessons.kit.outcome import Result, correct
from dltutor.lessons.lesson_06.files import grade_file
from dltutor.lessons.lesson_06.travel import (
    Samples,
    ended_well,
    epoch,
    one_by_one,
    packed,
    same,
    why_lost,
    without_pickle,
)

_CLIPS: Final = 16
_LENGTH: Final = 64
_SEED: Final = 5
_OTHER_SEED: Final = 1005


class MyClips(Dataset[torch.Tensor]):
    """The starter: clips of sound with fresh noise on each, scaled to their loudest value."""

    def __init__(self, path: str | Path, seed: int) -> None:
        self.clips = torch.load(path)
        self.generator = torch.Generator().manual_seed(seed)
        self.scale = lambda clip: clip / clip.abs().max()

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, index: int) -> torch.Tensor:
        clip = self.clips[index]
        noise = 0.1 * torch.randn(clip.shape, generator=self.generator)
        return self.scale(clip + noise)  # type: ignore[no-any-return,no-untyped-call]  # a lambda


def write_clips(path: Path, count: int = _CLIPS) -> torch.Tensor:
    """Write a file of clips that are all the same: what differs between samples is their noise."""
    clip = 0.5 * torch.sin(torch.linspace(0, 20, _LENGTH))
    torch.save(clip.repeat(count, 1), path)
    return clip


def grade(answer: Any) -> Result:
    """Grade the file with `MyClips`."""
    with tempfile.TemporaryDirectory(prefix="dltutor-") as folder:
        return grade_file(answer, "MyClips", partial(_grade, Path(folder) / "fresh.pt"))


def _grade(path: Path, mine: type) -> Result:
    mine = a_mended_class(mine, MyClips)
    clip = write_clips(path)
    dataset = mine(path, _SEED)
    _travels(dataset)
    alone = _alone(dataset)
    _values(alone, clip)
    again = one_by_one(dataset)
    if same(again, alone):
        _noise(mine, path, alone)
    seen, spawned = epoch(dataset, method="spawn", workers=1)
    ended_well(seen, "The dataset has a pickle. In a new interpreter (spawn)", why_lost(dataset))
    if not same(again, alone):
        _depends(dataset)
    seen, forked = epoch(dataset, method="fork", workers=2)
    ended_well(seen, "Under fork, with 2 workers,", "Which of its lines minds a second worker?")
    for method, arrived in (("fork", forked), ("spawn", spawned)):
        if not same(arrived, alone):
            wrong(f"under {method} the samples are not those of 0 workers.")
    return correct(
        f"{_CLIPS} of {_CLIPS} clips are the same with 0 workers, under fork and under spawn; each "
        "has a noise of its own, and another seed gives another."
    )


def _travels(dataset: Any) -> None:
    reason = packed(dataset)[1]
    if reason:
        names = " and ".join(f"`{name}`" for name in without_pickle(dataset))
        wrong(
            f"the dataset has no pickle: `{reason}`."
            + (f" It is in {names}." if names else "")
            + " Which kind of function can be found by its name?"
        )


def _alone(dataset: Any) -> Samples:
    before = torch.get_rng_state()
    try:
        alone = one_by_one(dataset)
        after = torch.get_rng_state()
        one_by_one(dataset)
        moved, reset = not torch.equal(before, after), torch.equal(after, torch.get_rng_state())
    finally:
        torch.set_rng_state(before)
    if moved:
        wrong(
            "with 0 workers, reading a sample "
            + ("starts torch's global random numbers anew" if reset else "uses up global numbers")
            + ", and from these the model and the shuffling draw as well. Whose numbers should the "
            "noise be made of?"
        )
    return alone


def _values(alone: Samples, clip: torch.Tensor) -> None:
    loudest = alone[0].abs().max().item()
    if alone[0].shape != clip.shape or abs(loudest - 1) > 1e-4:
        wrong(
            f"the loudest value of a sample is {loudest:.2f}, and the shape {tuple(alone[0].shape)}"
            f". It was 1.00 and {tuple(clip.shape)}: the scaling is part of the dataset."
        )
    if (alone[0] - clip / clip.abs().max()).abs().mean() < 1e-3:
        wrong("the samples are the clips of the file: there is no noise on them any more.")


def _depends(dataset: Any) -> None:
    kinds = (np.random.Generator, np.random.RandomState, torch.Generator, random.Random)
    held = [name for name, value in vars(dataset).items() if isinstance(value, kinds)]
    wrong(
        "`dataset[3]` twice gives two samples: the noise depends on what was drawn before"
        + (f" from `{held[0]}`, of which every worker has a copy" if held else "")
        + ". What, besides the seed, does a sample know of itself?"
    )


def _noise(mine: type, path: Path, alone: Samples) -> None:
    _differ(alone)
    if not same(one_by_one(mine(path, _SEED)), alone):
        wrong("made again with the same seed, the dataset gives other noise.")
    another = one_by_one(mine(path, _OTHER_SEED))
    if same(another, alone):
        wrong(f"seed {_SEED} and seed {_OTHER_SEED} give the same noise.")
    for index, pair in enumerate(zip(alone, another, strict=True)):
        if torch.equal(*pair):
            wrong(f"seed {_SEED} and seed {_OTHER_SEED} give sample {index} the same noise.")
    _differ(one_by_one(mine(path, 0)), "with seed 0, ")


def _differ(samples: Samples, where: str = "") -> None:
    for one, other in combinations(range(_CLIPS), 2):
        if torch.equal(samples[one], samples[other]):
            wrong(
                f"{where}samples {one} and {other} have the same noise. What tells one from the "
                "other?"
            )
