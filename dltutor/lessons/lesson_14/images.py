"""Incident "images": augmentation repeats, and workers never augment as strongly as they should.

The loader has a `worker_init_fn` that should give each worker its own random numbers. That function
looks for the transform in the dataset, but the dataset is a `Subset`, because some photos are held
out. The strength should rise with the epoch, but persistent workers keep the epoch that main had
when they started.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from dltutor.lessons.engine.endings import where
from dltutor.lessons.engine.outcomes import Fault, Result, correct, fault, reject
from dltutor.lessons.engine.running import made, starts
from dltutor.lessons.lesson_14.reports import grader, started_once
from dltutor.lessons.lesson_14.scene import Incident

_PHOTOS: Final = 96
_SIDE, _SIZE, _RAMP = 32, 24, 4
_STEP: Final = 4  # difference between neighboring pixels, so that a crop shows its position
_EPOCHS, _HELD_OUT = 6, 6
_WORKERS: Final = (2, 0, 4)
_WITHIN: Final = 25  # time limit in seconds for all epochs
_KINDS: Final = 4


def make_data(folder: Path, seed: int) -> None:
    """Write photos with four labels.

    Each photo has its own tint, and gets brighter toward the bottom and toward the right.
    """
    random = np.random.default_rng(seed)
    down, right = np.mgrid[:_SIDE, :_SIDE] * _STEP
    tints = random.permutation(_PHOTOS)
    photos = np.stack([np.stack([40 + down, 40 + right, 64 + 0 * down + tint]) for tint in tints])
    np.save(folder / "photos.npy", photos.astype(np.uint8))
    np.save(folder / "labels.npy", tints * _KINDS // _PHOTOS)


INCIDENT: Final = Incident("images", make_data)


def run(folder: Path, data: Any, train: Any) -> Result:
    """Check that augmentation doesn't repeat, and that it gets stronger over the first epochs.

    Also check photos and labels, and that the loader starts each worker once.
    """
    for workers in _WORKERS:
        with starts() as started:
            got = made(
                lambda: [*map(_copied, train.batches(folder, workers, _EPOCHS))],  # noqa: B023
                call=f"list(batches(folder, {workers}, {_EPOCHS}))",
                within=_WITHIN,
            )
        if problem := _problem(folder, got):
            reject(problem, where=where(workers))
        started_once(len(started), workers, where(workers))
    return correct()


def _copied(batch: Any) -> Any:
    epoch, photos, labels = batch
    return int(epoch), torch.as_tensor(photos).clone(), torch.as_tensor(labels).clone()


def _problem(folder: Path, got: list[Any]) -> Fault | None:
    # Return the first mistake in the batches, by the ticket's requirements, or None.
    every = np.load(folder / "photos.npy")
    tints = [int(photo[2, 0, 0]) - 64 for photo in every]
    originals = dict(zip(tints, every, strict=True))
    labels_of = dict(zip(tints, np.load(folder / "labels.npy").tolist(), strict=True))
    expected = {tint for index, tint in enumerate(tints) if index % _HELD_OUT}
    series: list[tuple[Any, ...]] = []
    epochs: list[dict[int, tuple[int, int, float]]] = [{} for _ in range(_EPOCHS)]
    mirrors, wrong, times = 0, 0, [Counter[int]() for _ in range(_EPOCHS)]
    for epoch, photos, labels in got:
        shape = tuple(photos.shape)
        if shape[1:] != (3, _SIZE, _SIZE) or photos.dtype != torch.float32:
            return fault("other-batch", dtype=photos.dtype, shape=shape)
        if not 0 <= epoch < _EPOCHS:
            return fault("no-such-epoch", epoch=epoch)
        drawn = []
        for photo, label in zip(photos.double().numpy(), labels.tolist(), strict=False):
            mirrored = photo[1, 0, -1] < photo[1, 0, 0]
            decoded = _decoded(photo[:, :, ::-1] if mirrored else photo, originals)
            if decoded is None:
                return fault("not-a-cutout")
            tint, top, left, brightness = decoded
            mirrors += int(mirrored)
            wrong += label != labels_of[tint]
            epochs[epoch][tint] = top, left, brightness
            times[epoch][tint] += 1
            drawn.append((top, left, round(brightness, 3)))
        series.append(tuple(drawn))
    for epoch, came in enumerate(times):
        once = sum(came[tint] == 1 for tint in expected)
        if once != len(expected) or came.total() != once:
            counts = {"arrived": came.total(), "once": once, "expected": len(expected)}
            return fault("other-photos", epoch=epoch, **counts)
    if wrong:
        return fault("wrong-labels", wrong=wrong, photos=len(expected) * _EPOCHS)
    if repeats := len(series) - len(set(series)):
        return fault("repeated-batches", repeats=repeats, batches=len(series))
    return _draws(epochs, mirrors / (len(expected) * _EPOCHS))


def _draws(epochs: list[dict[int, tuple[int, int, float]]], mirrored: float) -> Fault | None:
    # Return the first mistake in the positions, the brightness, or the mirroring, or None.
    kept = max(
        sum(one[tint][:2] == other[tint][:2] for tint in one) / len(one)
        for one, other in pairwise(epochs)
    )
    if kept > 0.2:
        return fault("kept-places", kept=f"{kept:.0%}")
    for epoch, each in enumerate(epochs):
        most, spread = min(1, epoch / _RAMP) / 2, max(abs(last - 1) for *_, last in each.values())
        if not 0.6 * most <= spread <= most + 0.01:
            varies = {"spread": f"{spread:.2f}", "most": f"{most:.2f}"}
            return fault("other-brightness", epoch=epoch, **varies)
    draws = {
        (top, left, round((brightness - 1) / min(1, epoch / _RAMP), 3))
        for epoch, each in enumerate(epochs[1:], start=1)
        for top, left, brightness in each.values()
    }
    if len(draws) < 0.9 * (asked := sum(map(len, epochs[1:]))):
        return fault("repeated-draws", photos=asked, draws=len(draws))
    return None if 0.3 < mirrored < 0.7 else fault("mirrored", mirrored=f"{mirrored:.0%}")


def _decoded(photo: Any, originals: dict[int, Any]) -> tuple[int, int, int, float] | None:
    # The difference between neighboring pixels shows the brightness factor. With that factor, the
    # corner shows the position, and the third channel shows which photo was read.
    down, right, _ = photo
    brightness = (down[-1, 0] - down[0, 0]) * 255 / (_STEP * (_SIZE - 1))
    if not 0.25 < brightness < 2:
        return None
    top, left = (round((each[0, 0] * 255 / brightness - 40) / _STEP) for each in (down, right))
    tint = round(photo[2, 0, 0] * 255 / brightness - 64)
    if tint not in originals or top < 0 or left < 0:
        return None
    cut = originals[tint][:, top : top + _SIZE, left : left + _SIZE] / 255 * brightness
    if cut.shape != photo.shape or not np.allclose(cut, photo, atol=2e-3):
        return None
    return tint, top, left, brightness


GRADER: Final = grader(
    INCIDENT,
    run,
    at_most=_WITHIN * len(_WORKERS) + 15,
)
