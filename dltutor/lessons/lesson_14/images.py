"""Incident "images": augmentation that repeats, and a ramp that no worker hears of."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from dltutor.lessons.kit.endings import where
from dltutor.lessons.kit.outcomes import not_yet
from dltutor.lessons.kit.running import made
from dltutor.lessons.lesson_14.scene import Cause, Incident, grader

_PHOTOS: Final = 96
_SIDE, _SIZE, _RAMP, _BATCH = 32, 24, 4, 16
_STEP: Final = 4  # by which neighboring pixels differ: so a photo tells where it was cut out
_EPOCHS: Final = 6
_WORKERS: Final = (2, 0, 4)
_WITHIN: Final = 25  # seconds for all epochs
_KINDS: Final = 4


def make_data(folder: Path, seed: int) -> None:
    """Photos of a ramp in two directions, in a tint of their own; one of four labels."""
    random = np.random.default_rng(seed)
    down, right = np.mgrid[:_SIDE, :_SIDE] * _STEP
    tints = random.permutation(_PHOTOS)
    photos = np.stack([np.stack([40 + down, 40 + right, 64 + 0 * down + tint]) for tint in tints])
    np.save(folder / "photos.npy", photos.astype(np.uint8))
    np.save(folder / "labels.npy", tints * _KINDS // _PHOTOS)


INCIDENT: Final = Incident(
    name="images",
    title="Augmentation that does not help",
    causes=(
        Cause(
            names=("repeated_randomness",),
            places=("rng", "Photos", "__init__", "SEED", "default_rng"),
            shortest="two batches side by side: what W0 and W1 draw is the same.",
        ),
        Cause(
            names=("stale_epoch",),
            places=(
                "set_epoch",
                "strength",
                "Photos",
                "persistent_workers",
                "make_loader",
                "batches",
            ),
            shortest="`loader.dataset.strength`, delivered with a sample: the workers have 0.0.",
        ),
    ),
    make_data=make_data,
)


@dataclass(frozen=True)
class Ran:
    """What `batches` yielded with some number of workers.

    Args:
        workers: How many were asked for.
        started: How many processes were started meanwhile.
        odd: What of a batch is not as asked, in a sentence, or nothing.
        seen: Of each epoch, how often each photo came: photos that came once.
        mislabeled: How many came with a label that is not theirs.
        repeats: How many batches have the places and brightness of one before.
        kept: The largest share of photos that had the same place in two epochs in a row.
        places: How many different places there were.
        drawn: How many different draws of place and brightness, in epochs where brightness varies.
        spread: Of each epoch, by how much brightness varied at most.
    """

    workers: int
    started: int = 0
    odd: str = ""
    seen: tuple[int, ...] = ()
    mislabeled: int = 0
    repeats: int = 0
    kept: float = 0.0
    places: int = 0
    drawn: int = 0
    spread: tuple[float, ...] = ()


def run(folder: Path, data: Any, train: Any) -> tuple[Ran, ...]:
    """Six epochs with each number of workers, up to the first where something is wrong."""
    started = [0]
    os.register_at_fork(after_in_parent=lambda: started.append(started.pop() + 1))
    found = []
    for workers in _WORKERS:
        before = started[0]
        call = f"batches(folder, {workers}, {_EPOCHS})"
        got = made(
            lambda: [*map(_copied, train.batches(folder, workers, _EPOCHS))],  # noqa: B023
            call=f"list({call})",
            within=_WITHIN,
        )
        found.append(_read(workers, started[0] - before, got, folder))
        if found[-1].odd or _problem(found[-1]):
            break
    return tuple(found)


def _copied(batch: Any) -> Any:
    epoch, photos, labels = batch
    return int(epoch), torch.as_tensor(photos).clone(), torch.as_tensor(labels).clone()


def _read(workers: int, started: int, got: list[Any], folder: Path) -> Ran:
    tints = np.load(folder / "photos.npy")[:, 2, 0, 0].astype(int) - 64
    label_of = dict(zip(tints.tolist(), np.load(folder / "labels.npy").tolist(), strict=True))
    series: list[tuple[Any, ...]] = []
    epochs: list[dict[int, tuple[int, int, float]]] = [{} for _ in range(_EPOCHS)]
    mislabeled, times = 0, Counter[tuple[int, int]]()
    for epoch, photos, labels in got:
        shape = tuple(photos.shape)
        if shape[1:] != (3, _SIZE, _SIZE) or photos.dtype != torch.float32:
            return Ran(workers, odd=f"a batch of photos is {photos.dtype}, {shape}.")
        if not 0 <= epoch < _EPOCHS or len(labels) != len(photos):
            return Ran(
                workers, odd=f"{len(photos)} photos of epoch {epoch} have {len(labels)} labels."
            )
        drawn = []
        for photo, label in zip(photos.double().numpy(), labels.tolist(), strict=True):
            tint, top, left, brightness = _decoded(photo)
            if tint not in label_of:
                return Ran(workers, odd="a photo is not a cutout of any in `photos.npy`.")
            mislabeled += label != label_of[tint]
            epochs[epoch][tint] = top, left, brightness
            times[epoch, tint] += 1
            drawn.append((top, left, round(brightness, 3)))
        series.append(tuple(drawn))
    return Ran(
        workers,
        started,
        seen=tuple(sum(times[epoch, tint] == 1 for tint in label_of) for epoch in range(_EPOCHS)),
        mislabeled=mislabeled,
        repeats=len(series) - len(set(series)),
        kept=max(
            sum(one[tint][:2] == other[tint][:2] for tint in one.keys() & other.keys()) / _PHOTOS
            for one, other in pairwise(epochs)
        ),
        places=len({drawn[:2] for epoch in epochs for drawn in epoch.values()}),
        drawn=len(
            {
                (top, left, round((brightness - 1) / min(1, epoch / _RAMP), 3))
                for epoch in range(1, _EPOCHS)
                for top, left, brightness in epochs[epoch].values()
            }
        ),
        spread=tuple(
            max((abs(brightness - 1) for *_, brightness in epoch.values()), default=0.0)
            for epoch in epochs
        ),
    )


def _decoded(photo: Any) -> tuple[int, int, int, float]:
    # The ramps tell the brightness; then the corner tells the place, and the third channel which.
    down, right, tint = photo
    brightness = (down[-1, 0] - down[0, 0]) * 255 / (_STEP * (_SIZE - 1))
    if not 0.25 < brightness < 2:
        return -1, 0, 0, brightness
    top, left = ((each[0, 0] * 255 / brightness - 40) / _STEP for each in (down, right))
    which = tint[0, 0] * 255 / brightness - 64
    ramp = np.arange(_SIZE) * _STEP
    made = np.stack(
        [
            40 + round(top) * _STEP + ramp[:, None] + 0 * ramp,
            40 + round(left) * _STEP + ramp + 0 * ramp[:, None],
            64 + round(which) + 0 * (ramp + ramp[:, None]),
        ]
    )
    fits = np.allclose(made / 255 * brightness, photo, atol=2e-3)
    inside = 0 <= round(top) <= _SIDE - _SIZE and 0 <= round(left) <= _SIDE - _SIZE
    return round(which) if fits and inside else -1, round(top), round(left), brightness


def _problem(ran: Ran) -> str:
    if any(count != _PHOTOS for count in ran.seen):
        return f"in an epoch, {min(ran.seen)} of {_PHOTOS} photos came once, and all should."
    if ran.mislabeled:
        return f"{ran.mislabeled} photos came with a label that is not theirs."
    if ran.repeats:
        return (
            f"{ran.repeats} of {_EPOCHS * _PHOTOS // _BATCH} batches are cut out at the places, "
            "and have the brightness, of a batch before them. Which random numbers are those, and "
            "how many processes have them?"
        )
    if ran.kept > 0.2:
        return (
            f"{ran.kept:.0%} of the photos are cut out at the same place in two epochs in a row. "
            "What is the same in each epoch where you draw?"
        )
    if ran.places < 40:
        return (
            f"there are {ran.places} different places in {_EPOCHS} epochs, of "
            f"{(_SIDE - _SIZE + 1) ** 2} possible ones. Where may a photo be cut out?"
        )
    for epoch, spread in enumerate(ran.spread):
        most = min(1, epoch / _RAMP) / 2
        if not 0.6 * most <= spread <= most + 0.01:
            return (
                f"in epoch {epoch}, brightness varies by up to {spread:.2f}, and should by "
                f"{most:.2f}. Which epoch do the workers know of?"
            )
    if ran.drawn < 0.9 * (_EPOCHS - 1) * _PHOTOS:
        return (
            f"in the epochs after the first, {(_EPOCHS - 1) * _PHOTOS} photos share {ran.drawn} "
            "draws of place and brightness. Which other photo has the same seed, in which epoch?"
        )
    if ran.started > ran.workers:
        return (
            f"{ran.started} processes were started for {_EPOCHS} epochs. The ticket wants workers "
            "that are started once. What can tell a worker that runs on which epoch it is?"
        )
    return ""


def judge_run(found: tuple[Ran, ...]) -> str:
    """Right if the draws are fresh and follow the ramp, with any number of workers."""
    for ran in found:
        if problem := ran.odd or _problem(ran):
            not_yet(f"{where(ran.workers)}, {problem}")
        if ran.started < ran.workers:
            not_yet(f"{where(ran.workers)}, {ran.started or 'no'} processes were started.")
    assert len(found) == len(_WORKERS), "one that is not right has been rejected"
    return (
        f"With 0, 2 and 4 workers, all photos came in each of {_EPOCHS} epochs, cut out anew, and "
        "brightness followed the ramp."
    )


GRADER: Final = grader(
    INCIDENT,
    run=run,
    judge_run=judge_run,
    runs="runs your `batches` on other photos, 6 epochs with 0, 2 and 4 workers",
    at_most=_WITHIN * len(_WORKERS) + 15,
)
