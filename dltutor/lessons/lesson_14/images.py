"""Incident "images": augmentation that repeats, and a ramp that no worker hears of.

The loader has a `worker_init_fn` that gives each worker numbers of its own. It looks for them in
the dataset, and the dataset is a `Subset` since a part is held out.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from dltutor.lessons.engine.endings import where
from dltutor.lessons.engine.outcomes import not_yet
from dltutor.lessons.engine.running import made, started
from dltutor.lessons.lesson_14.reports import grader
from dltutor.lessons.lesson_14.scene import Cause, Incident

_PHOTOS: Final = 96
_SIDE, _SIZE, _RAMP = 32, 24, 4
_STEP: Final = 4  # by which neighboring pixels differ: so a photo tells where it was cut out
_EPOCHS, _HELD_OUT = 6, 6
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
            places=(
                "start_worker",
                "for_training",
                "Subset",
                "worker_init_fn",
                "Step",
                "numbers",
                "restart",
                "Compose",
                "transform",
            ),
            shortest="two batches side by side, `batches(folder, 2, 1)`: what W1 draws is what W0 "
            "has drawn.",
        ),
        Cause(
            names=("stale_epoch", "global_state"),
            places=(
                "Ramp",
                "ramp",
                "strength",
                "epoch",
                "Brightness",
                "batches",
                "persistent_workers",
                "make_loader",
            ),
            shortest="how much brightness varies in the batches of epoch 5, with 0 workers and "
            "with 2: in the workers it is still epoch 0.",
        ),
    ),
    make_data=make_data,
)


def run(folder: Path, data: Any, train: Any) -> str:
    """Six epochs with each number of workers: are the draws fresh, and do they follow the ramp?"""
    for workers in _WORKERS:
        before = started()
        got = made(
            lambda: [*map(_copied, train.batches(folder, workers, _EPOCHS))],  # noqa: B023
            call=f"list(batches(folder, {workers}, {_EPOCHS}))",
            within=_WITHIN,
        )
        if problem := _problem(folder, got) or _processes(started() - before, workers):
            not_yet(f"{where(workers)}, {problem}")
    return (
        f"With 0, 2 and 4 workers, all photos came in each of {_EPOCHS} epochs, cut out anew, and "
        "brightness followed the ramp."
    )


def _copied(batch: Any) -> Any:
    epoch, photos, labels = batch
    return int(epoch), torch.as_tensor(photos).clone(), torch.as_tensor(labels).clone()


def _processes(count: int, workers: int) -> str:
    if count > workers:
        return (
            f"{count} processes were started for {_EPOCHS} epochs. The ticket wants workers "
            "that are started once. What can tell a worker that runs on which epoch it is?"
        )
    return f"{count or 'no'} processes were started." if count < workers else ""


def _problem(folder: Path, got: list[Any]) -> str:
    # What of the batches is not as the ticket asks, in a sentence, or nothing.
    tints = np.load(folder / "photos.npy")[:, 2, 0, 0].astype(int) - 64
    labels_of = dict(zip(tints.tolist(), np.load(folder / "labels.npy").tolist(), strict=True))
    expected = {int(tint) for index, tint in enumerate(tints) if index % _HELD_OUT}
    series: list[tuple[Any, ...]] = []
    epochs: list[dict[int, tuple[int, int, float]]] = [{} for _ in range(_EPOCHS)]
    mirrors, wrong, times = 0, 0, [Counter[int]() for _ in range(_EPOCHS)]
    for epoch, photos, labels in got:
        shape = tuple(photos.shape)
        if shape[1:] != (3, _SIZE, _SIZE) or photos.dtype != torch.float32:
            return f"a batch of photos is {photos.dtype}, {shape}."
        if not 0 <= epoch < _EPOCHS or len(labels) != len(photos):
            return f"{len(photos)} photos of epoch {epoch} have {len(labels)} labels."
        drawn = []
        for photo, label in zip(photos.double().numpy(), labels.tolist(), strict=True):
            mirrored = photo[1, 0, -1] < photo[1, 0, 0]
            tint, top, left, brightness = _decoded(photo[:, :, ::-1] if mirrored else photo)
            if tint not in labels_of:
                return (
                    "a photo is not a cutout of any in `photos.npy`, or not as bright throughout."
                )
            mirrors += int(mirrored)
            wrong += label != labels_of[tint]
            epochs[epoch][tint] = top, left, brightness
            times[epoch][tint] += 1
            drawn.append((top, left, round(brightness, 3)))
        series.append(tuple(drawn))
    for epoch, came in enumerate(times):
        once = sum(came[tint] == 1 for tint in expected)
        if once != len(expected) or came.total() != once:
            return (
                f"in epoch {epoch}, {came.total()} photos came, and {once} of {len(expected)} for "
                "training came once."
            )
    if wrong:
        return f"{wrong} photos came with a label that is not theirs."
    if repeats := len(series) - len(set(series)):
        return (
            f"{repeats} of {len(series)} batches are cut out at the places, and have the "
            "brightness, of a batch before them. Which random numbers are those, and how many "
            "processes have them?"
        )
    return _draws(epochs, mirrors / (len(expected) * _EPOCHS))


def _draws(epochs: list[dict[int, tuple[int, int, float]]], mirrored: float) -> str:
    # What is wrong with places and brightness of the epochs, each by photo.
    kept = max(
        sum(one[tint][:2] == other[tint][:2] for tint in one) / len(one)
        for one, other in pairwise(epochs)
    )
    if kept > 0.2:
        return (
            f"{kept:.0%} of the photos are cut out at the same place in two epochs in a row. "
            "What is the same in each epoch where you draw?"
        )
    if (places := len({drawn[:2] for each in epochs for drawn in each.values()})) < 40:
        return (
            f"there are {places} different places in {_EPOCHS} epochs, of "
            f"{(_SIDE - _SIZE + 1) ** 2} possible ones. Where may a photo be cut out?"
        )
    for epoch, each in enumerate(epochs):
        most, spread = min(1, epoch / _RAMP) / 2, max(abs(last - 1) for *_, last in each.values())
        if not 0.6 * most <= spread <= most + 0.01:
            return (
                f"in epoch {epoch}, brightness varies by up to {spread:.2f}, and should by "
                f"{most:.2f}. What do they draw from, and which epoch is it there?"
            )
        # Nothing has the brightness of epoch 0 by chance.
        if epoch == 1 and (stale := sum(abs(last - 1) < 1e-4 for *_, last in each.values())) > 2:
            return (
                f"in epoch 1, {stale} photos are as bright as in epoch 0. What do workers read "
                "before they can know that it is over?"
            )
        bright = {round(last, 5) for *_, last in each.values()}
        if epoch and len(bright) < 0.5 * len(each):
            return (
                f"in epoch {epoch}, {len(each)} photos have {len(bright)} different brightnesses. "
                "How many photos does one draw serve?"
            )
    draws = {
        (top, left, round((brightness - 1) / min(1, epoch / _RAMP), 3))
        for epoch, each in enumerate(epochs[1:], start=1)
        for top, left, brightness in each.values()
    }
    if len(draws) < 0.9 * (asked := sum(map(len, epochs[1:]))):
        return (
            f"in the epochs after the first, {asked} photos share {len(draws)} draws of place and "
            "brightness. Which other photo has the same seed, in which epoch?"
        )
    if not 0.3 < mirrored < 0.7:
        return f"{mirrored:.0%} of the photos are mirrored, and about half should be."
    return ""


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


GRADER: Final = grader(
    INCIDENT,
    run,
    runs="runs your `batches` on other photos, 6 epochs with 0, 2 and 4 workers",
    at_most=_WITHIN * len(_WORKERS) + 15,
)
