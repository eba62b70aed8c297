"""Grade "06.transfer", which asks for the same noisy sound clips from every process.

The task says how to make each sample, so its values don't depend on the process or the order.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from math import isclose, isfinite
from pathlib import Path
from typing import Final

import torch

from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.outcomes import correct, not_yet
from dltutor.lessons.engine.running import global_generators, moved_since, theirs
from dltutor.lessons.lesson_06 import travel
from dltutor.lessons.lesson_06.helpers import MyClips
from dltutor.observation.time_limits import deadline

CLIPS: Final = 24
_SEED: Final = 11
_READ: Final = (*reversed(range(CLIPS)), *range(CLIPS))  # the indices that each loader reads


#: The largest absolute value in each sample that's wrong in main, and the record of one epoch.
Seen = tuple[list[float], travel.Epoch]


def run(path: Path) -> Iterator[Seen]:
    """Read samples from the learner's `MyClips` in main, and then by loaders.

    The loaders have a spawned worker, no worker, and forked workers.

    Args:
        path: The file with the learner's class.

    Raises:
        Rejected: The class doesn't work in main, or changes the global random numbers there, or
            its dataset can't be pickled.
    """
    before = global_generators()
    answer = travel.class_in(path, MyClips)
    file = Path(tempfile.mkdtemp()) / "clips.pt"
    tone = torch.sin(torch.arange(1000) / 5) + 0.5
    # The first clip is silent, and the loudest value of each other clip is negative, to catch an
    # answer that scales before it adds noise, or that scales by the maximum without `abs`.
    clips = torch.linspace(0, -5, CLIPS)[:, None] * tone
    torch.save(clips, file)
    expected = [_sample(clip, index) for index, clip in enumerate(clips)]
    with deadline(travel.IN_MAIN):
        with theirs():
            dataset = answer(file, _SEED)
            length = len(dataset)
        travel.sent(dataset)
        if length != CLIPS:
            not_yet("other-length", clips=CLIPS, length=length)
        samples = travel.read(dataset, range(CLIPS), f"torch.float32, ({len(tone)},)")
    for name in moved_since(before):
        not_yet("changed", what=name)
    pairs = zip(samples, expected, strict=True)
    wrong = [float(one.abs().max()) for one, right in pairs if travel.wrong_of([one], [right])]
    expected = [expected[index] for index in _READ]
    for method, workers in (("spawn", 1), ("fork", 0), ("fork", 2), ("fork", 4)):
        yield wrong, travel.epoch(dataset, _READ, expected, method, workers)


def _sample(clip: torch.Tensor, index: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(10_000 * _SEED + index)
    noisy = clip + 0.1 * torch.randn(clip.shape, generator=g)
    return noisy / noisy.abs().max()


def judge(seen: Seen) -> None:
    """Raise `Rejected` unless all samples arrived, and are right in main and in the loader."""
    wrong, epoch = seen
    travel.arrived(epoch)
    if wrong:
        loudest = wrong[0]
        code = "wrong-scale" if isfinite(loudest) else "scaled-silence"
        if isclose(loudest, 1, abs_tol=1e-4):
            code = "wrong-noise"
        not_yet(code, wrong=len(wrong), clips=CLIPS, loudest=f"{loudest:.4f}")
    if epoch.wrong:
        not_yet("wrong-later", where=epoch.where, wrong=epoch.wrong, read=len(_READ))


GRADER: Final = by_runs(
    run,
    judge,
    result=lambda _: correct(clips=CLIPS),
    look=partial(travel.a_file, name="MyClips"),
    at_most=travel.AT_MOST,
)
