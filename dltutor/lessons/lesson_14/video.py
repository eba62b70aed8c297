"""Incident "video": some clips pass the header check, and then crash the decoder.

The codec's `probe` only reads the header. `decode` copies each frame from the position in the
header, even if that position is outside the file and outside the process's memory.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from dltutor.lessons.engine.endings import check_ending, loader_of, run_loop, where
from dltutor.lessons.engine.forms import shown
from dltutor.lessons.engine.outcomes import Result, correct, not_yet
from dltutor.lessons.lesson_14.reports import grader
from dltutor.lessons.lesson_14.scene import Incident

_CLIPS, _FRAMES, _SIDE, _KINDS = 24, 8, 16, 4
_FRAME, _HEADER = _SIDE * _SIDE, 8 + 8 * _FRAMES
_NOWHERE: Final = 1 << 60  # a position where no process has memory
_EPOCHS: Final = 2
_WORKERS: Final = (2, 0, 4)
_WITHIN: Final = 20  # time limit in seconds for making a loader, and for its epochs


def make_data(folder: Path, seed: int) -> None:
    """Write clips of noise, brighter for higher labels, and some that can't be decoded."""
    random = np.random.default_rng(seed)
    clips = folder / "clips"
    clips.mkdir()
    first_deadly, last_deadly, no_clip, too_short = random.permutation(_CLIPS)[:4].tolist()
    for number in range(_CLIPS):
        label = number % _KINDS
        noise = random.integers(60 * label, 60 * label + 60, (_FRAMES, _SIDE, _SIDE))
        starts = [_HEADER + _FRAME * frame for frame in range(_FRAMES)]
        if number == first_deadly:
            starts[0] += _NOWHERE
        if number == last_deadly:
            starts[-1] += _NOWHERE
        magic = b"TEXT" if number == no_clip else b"CLIP"
        header = magic + bytes(4) + b"".join(start.to_bytes(8, "little") for start in starts)
        pixels = noise.astype(np.uint8).tobytes()[: -9 if number == too_short else None]
        path = clips / f"{label}-{random.integers(10**6):06}-{number:02}.clip"
        path.write_bytes(header + pixels)


INCIDENT: Final = Incident("video", make_data, not_yours=("codec.py",))


def run(folder: Path, data: Any, train: Any) -> Result:
    """Check that all clips that can be decoded arrive, and that the dataset names the others."""
    clips, bad = _clips(folder)
    for workers in _WORKERS:
        loader = loader_of(data, folder, workers, _WITHIN)
        times: Counter[str] = Counter()
        wrong: list[str] = []
        lead = where(workers)

        def consume(batches: Any) -> None:
            for batch in batches:
                try:
                    rows = [*zip(batch["name"], batch["frames"], batch["label"].tolist())]  # noqa: B905
                except (TypeError, KeyError, IndexError, AttributeError):
                    not_yet("other-batch", where=lead)  # noqa: B023
                for name, frames, label in rows:
                    times[name] += 1  # noqa: B023
                    expected = clips.get(name, torch.empty(0))
                    if not torch.equal(frames, expected) or str(label) != name[0]:
                        wrong.append(name)  # noqa: B023

        check_ending(run_loop(loader, consume, within=_WITHIN, epochs=_EPOCHS), lead)
        missing = sum(times[name] != _EPOCHS for name in clips)
        if missing or wrong:
            counts = {"clips": len(clips), "missing": missing, "wrong": len(wrong)}
            not_yet("other-clips", where=lead, **counts)
        if (length := len(loader.dataset)) != len(clips):  # type: ignore[arg-type]  # Clips has a length
            not_yet("other-length", where=lead, length=length, clips=len(clips))
        _skipped(loader.dataset, bad, lead)
    return correct(clips=len(clips))


def _clips(folder: Path) -> tuple[dict[str, Any], set[str]]:
    clips, bad = dict[str, Any](), set[str]()
    for path in (folder / "clips").iterdir():
        header, pixels = path.read_bytes()[:_HEADER], path.read_bytes()[_HEADER:]
        starts = np.frombuffer(header[8:], np.uint64)
        if header[:4] == b"CLIP" and len(pixels) == _FRAMES * _FRAME and starts.max() < 10**6:
            frames = np.frombuffer(pixels, np.uint8).reshape(_FRAMES, _SIDE, _SIDE)
            clips[path.name] = torch.from_numpy(frames.copy()) / 255
        else:
            bad.add(path.name)
    return clips, bad


def _skipped(dataset: Any, bad: set[str], lead: str) -> None:
    named = getattr(dataset, "skipped", None)
    try:
        names = [] if isinstance(named, str) else [Path(str(each)).name for each in named]  # type: ignore[union-attr]
    except TypeError:
        names = []
    if not names:
        not_yet("not-names", where=lead, skipped=shown(named))
    if (once := set(names)) != bad:
        counts = {"named": len(once & bad), "bad": len(bad), "others": len(once - bad)}
        not_yet("other-skipped", where=lead, **counts)


GRADER: Final = grader(
    INCIDENT,
    run,
    at_most=2 * _WITHIN * len(_WORKERS) + 15,
)
